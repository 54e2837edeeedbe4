"""What the package shows: names, signatures, docstrings, values and errors that travel."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from typing import Any

import pytest
import torch

import aioaudio
from aioaudio import errors

VALUES: list[Any] = [
    aioaudio.Audio(torch.ones(2, 3), 16_000, 1.5, "a.wav", (aioaudio.Damage(0.5, "truncated", "cut"),), "md5"),
    aioaudio.AudioInfo("wav", "pcm_s16le", "s16", 16, 8_000, 1, "mono", 128_000, 1.0, 8_000, "header", {"title": "x"}),
    aioaudio.Clip("a.wav", 1.0, 2.0, "eng", {"text": "hello"}),
    aioaudio.Damage(None, "junk", "x"),
    aioaudio.HTTPOptions(headers={"X-Key": "x"}, retries=5),
    aioaudio.URL("https://example.org/a.mp3?x", {"X-Key": "x"}),
    aioaudio.Encoded(b"abc", name="a.wav"),
    aioaudio.StageStatistics(1, 0, 0.1, 0.2, 0.3, 4, 0.5),
    aioaudio.RawPCM("s16le", 8_000, 2),
    aioaudio.StreamEvent(1.5, "metadata", {"StreamTitle": "It's here"}),
    aioaudio.Track(0, "aac", "fltp", None, 44_100, 2, "stereo", 128_000, "eng", "main", True),
]

ERRORS: list[type[aioaudio.AudioError]] = [getattr(errors, name) for name in errors.__all__]

OPERATIONS = ["decode", "fetch", "info", "load"]
AT_ONCE = ["batches", "load_many", "open", "submit"]


def test_all_is_the_namespace() -> None:
    public = {
        name for name, value in vars(aioaudio).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public | {"sync"} == set(aioaudio.__all__)


@pytest.mark.parametrize("name", OPERATIONS + AT_ONCE)
def test_functions_have_the_signature_of_the_session(name: str) -> None:
    method = inspect.signature(getattr(aioaudio.Session, name))
    expected = list(method.parameters.values())[1:]
    for face in (aioaudio, aioaudio.sync):
        function = getattr(face, name)
        assert list(inspect.signature(function).parameters.values()) == expected
        assert function.__doc__ == getattr(aioaudio.Session, name).__doc__
        assert function.__name__ == name
    assert inspect.iscoroutinefunction(getattr(aioaudio, name)) == (name in OPERATIONS)
    assert not inspect.iscoroutinefunction(getattr(aioaudio.sync, name))


def test_sync_has_every_operation() -> None:
    assert sorted(aioaudio.sync.__all__) == sorted(OPERATIONS + AT_ONCE)


def test_only_the_subject_is_positional() -> None:
    for name in OPERATIONS + AT_ONCE:
        kinds = [parameter.kind for parameter in inspect.signature(getattr(aioaudio, name)).parameters.values()]
        assert kinds[0] == inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert set(kinds[1:]) == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("name", sorted(set(aioaudio.__all__) - {"sync"}))
def test_every_public_name_is_documented(name: str) -> None:
    public = getattr(aioaudio, name)
    assert len(inspect.getdoc(public) or "") > 20
    if inspect.isclass(public):
        for member, value in vars(public).items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_pickle_and_copy(value: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert type(twin) is type(value)
        assert repr(twin) == repr(value)
        if isinstance(value, aioaudio.Audio):
            assert twin.waveform.equal(value.waveform)
        elif isinstance(value, aioaudio.Encoded):
            assert bytes(twin) == bytes(value)
        else:
            assert twin == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_frozen(value: Any) -> None:
    if isinstance(value, aioaudio.Encoded):
        return
    for name in value.__slots__:
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_audio_unpacks_and_measures() -> None:
    audio = VALUES[0]
    waveform, sample_rate = audio
    assert waveform is audio.waveform
    assert sample_rate == 16_000
    assert (audio.num_channels, audio.num_samples, audio.duration_seconds) == (2, 3, 3 / 16_000)


def test_a_repr_shows_shapes_and_no_values() -> None:
    shown = repr(aioaudio.Audio(torch.full((1, 16_000), 0.123), 16_000, source="a.wav"))
    assert shown == "Audio('a.wav', (1, 16000) float32, 16000 Hz, 1.000 s)"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_errors_name_their_source_and_pickle(error: type[aioaudio.AudioError]) -> None:
    made = error("is broken", source="a.wav")
    made.add_note("stage: decode")
    twin = pickle.loads(pickle.dumps(made))
    assert type(twin) is error
    assert str(twin) == str(made) == "a.wav: is broken"
    assert (twin.source, twin.message, twin.__notes__) == ("a.wav", "is broken", ["stage: decode"])
    assert str(error("is broken")) == "is broken"


def test_damaged_audio_travels_with_what_decoded() -> None:
    audio = VALUES[0]
    made = aioaudio.DamagedAudioError("is cut", source="a.wav", audio=audio, damage=audio.damage)
    twin = pickle.loads(pickle.dumps(made))
    assert twin.audio.waveform.equal(audio.waveform)
    assert twin.damage == audio.damage


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (aioaudio.SourceNotFound, FileNotFoundError),
        (aioaudio.SourceDenied, PermissionError),
        (aioaudio.FetchError, OSError),
        (aioaudio.CorruptAudioError, ValueError),
        (aioaudio.UnsupportedAudioError, ValueError),
        (aioaudio.DamagedAudioError, ValueError),
        (aioaudio.LimitError, ValueError),
        (aioaudio.AudioTimeout, TimeoutError),
        (aioaudio.ClosedError, RuntimeError),
    ],
)
def test_errors_are_builtins_too(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, aioaudio.AudioError)


def test_run_gives_the_result_and_raises_the_error() -> None:
    async def answer() -> str:
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop()).__module__

    assert aioaudio.run(answer()) in ("uvloop", "asyncio.unix_events")

    async def fail() -> None:
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        aioaudio.run(fail())


def test_doctor_tells_versions_and_threads() -> None:
    report = aioaudio.doctor()
    for word in ("aioaudio", "av ", "torch", "FFmpeg", "decode threads", "CPU"):
        assert word in report
