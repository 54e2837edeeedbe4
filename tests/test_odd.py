"""Faulty files that people report: each gives the right answer, also where FFmpeg does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import aioaudio

Odd = Mapping[str, Mapping[str, Any]]

# The names are needed when tests are collected; whether the collection is there is known only later.
NAMES = [
    "ünï 音.wav",
    *"""
    b16.wav base.flac base.wav base2.wav big_moovend.m4a cbr_info.mp3 cbr_noinfo.mp3 ch0.wav chain.opus chain_vorbis.ogg
    cover.flac cover.mp3 data0.wav extensible16.wav fc51.wav hdr_only.wav id3_giant.mp3 id3_zeropad.mp3 id3chunk.wav
    id3v1.mp3 list_odd_nopad.wav list_odd_pad.wav m.aac m.m4a m_fast.m4a mid_garbage.mp3 midrate.mp3 mp3in.wav o.opus
    one.wav pipe.webm pipe_ffff.wav rand.mp3 rf64.wav s24ext.wav text.mp3 trail_chunk.wav trail_garbage.mp3 trunc.flac
    trunc.m4a trunc.mp3 two.mkv v.ogg vbr_noxing.mp3 vbr_xing.mp3 w_adpcm_ima_wav.wav w_pcm_f32le.wav w_pcm_f64le.wav
    w_pcm_mulaw.wav w_pcm_u8.wav wrongext.mp3 x.aiff zero.mp3 zero.wav
    """.split(),
]

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_every_file_of_the_collection_is_tested(odd: Odd) -> None:
    assert set(NAMES) == set(odd)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("as_bytes", [False, True], ids=["path", "bytes"])
async def test_gives_the_right_samples_or_error(name: str, as_bytes: bool, odd: Odd, shared: Path) -> None:
    expected = odd[name]
    path = shared / "odd" / name
    source = path.read_bytes() if as_bytes else path
    if "error" in expected:
        with pytest.raises(getattr(aioaudio, expected["error"])) as caught:
            await aioaudio.load(source)
        assert name in str(caught.value) or as_bytes
        if "conceal" not in expected:
            return
        audio = await aioaudio.load(source, on_damage="conceal")
        assert audio.num_samples == expected["conceal"]
        assert isinstance(caught.value, aioaudio.DamagedAudioError)
        assert caught.value.audio is not None
        assert caught.value.audio.num_samples == expected["conceal"]
        assert audio.damage == caught.value.damage != ()
        return
    audio = await aioaudio.load(source)
    assert abs(audio.num_samples - expected["num_samples"]) <= expected.get("within", 0)
    assert (audio.sample_rate, audio.num_channels) == (expected["sample_rate"], expected["num_channels"])
    assert bool(audio.damage) == expected.get("damage_listed", False)


@pytest.mark.parametrize("name", NAMES)
async def test_info_says_what_is_known(name: str, odd: Odd, shared: Path) -> None:
    expected, path = odd[name], shared / "odd" / name
    if "error" in expected and "conceal" not in expected:
        with pytest.raises(aioaudio.AudioError):
            await aioaudio.info(path)
        return
    info = await aioaudio.info(path)
    for field, value in expected.get("info", {}).items():
        if field != "exact_num_samples":
            assert getattr(info, field) == value, field
    counted = await aioaudio.info(path, exact=True)
    audio = await aioaudio.load(path, on_damage="conceal")
    assert counted.duration_from == "count"
    assert (
        counted.num_samples == audio.num_samples == expected.get("info", {}).get("exact_num_samples", audio.num_samples)
    )
    assert counted.duration_seconds == audio.duration_seconds


async def test_an_empty_file_and_a_page_of_html_are_named_as_such(shared: Path) -> None:
    with pytest.raises(aioaudio.CorruptAudioError, match=r"zero\.wav: is empty"):
        await aioaudio.load(shared / "odd" / "zero.wav")
    with pytest.raises(aioaudio.CorruptAudioError, match="HTML"):
        await aioaudio.load(shared / "odd" / "text.mp3")


async def test_a_name_in_any_script_works_as_str_and_as_path(shared: Path) -> None:
    path = shared / "odd" / "ünï 音.wav"
    assert (await aioaudio.load(str(path))).num_samples == (await aioaudio.load(path)).num_samples == 132_300


async def test_tracks_are_chosen_by_index_and_by_language(shared: Path) -> None:
    path = shared / "odd" / "two.mkv"
    by_default, eng, second = [await aioaudio.load(path, track=track) for track in (None, "eng", 1)]
    first, jpn = [await aioaudio.load(path, track=track) for track in (0, "jpn")]
    assert by_default.waveform.equal(eng.waveform)
    assert eng.waveform.equal(second.waveform)
    assert first.waveform.equal(jpn.waveform)
    assert not first.waveform.equal(second.waveform)
    with pytest.raises(aioaudio.UnsupportedAudioError, match=r"0 \(jpn\), 1 \(eng\)"):
        await aioaudio.load(path, track="fra")


async def test_only_the_centre_of_surround_reaches_mono_at_its_share(shared: Path) -> None:
    whole = await aioaudio.load(shared / "odd" / "fc51.wav")
    mono = await aioaudio.load(shared / "odd" / "fc51.wav", num_channels=1)
    assert whole.waveform[[0, 1, 3, 4, 5]].abs().max() == 0
    share = mono.waveform.abs().max() / whole.waveform[2].abs().max()
    assert share.item() == pytest.approx(0.2929, abs=1e-3)
