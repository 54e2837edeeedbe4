"""The lengths that info tells where the container's own number means something else."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
from media import DATA, MediaLibrary

import aioaudio

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


def begins_late(muxer: str, codec: str, sample_format: str, seconds: float) -> bytes:
    """Two seconds of silence, timed as `seconds` late."""
    data = io.BytesIO()
    with av.open(data, "w", format=muxer) as container:
        stream = container.add_stream(codec, rate=48_000, layout="mono", format=sample_format)
        for start in range(0, 96_000, 960):
            silence = np.zeros((1, 960), np.float32)
            frame = av.AudioFrame.from_ndarray(silence, format=sample_format, layout="mono")
            frame.sample_rate, frame.pts = 48_000, start + round(seconds * 48_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return data.getvalue()


@pytest.mark.parametrize(
    ("muxer", "codec", "sample_format"),
    [("webm", "libopus", "flt"), ("matroska", "aac", "fltp"), ("flv", "aac", "fltp")],
)
@pytest.mark.parametrize("late", [0.0, 1.5, 40.0])
async def test_what_lies_before_the_sound_is_not_its_length(
    muxer: str, codec: str, sample_format: str, late: float
) -> None:
    data = begins_late(muxer, codec, sample_format, late)
    info = await aioaudio.info(data)
    counted = await aioaudio.info(data, exact=True)
    assert info.duration_from == "header"
    assert info.duration_seconds == pytest.approx(counted.duration_seconds, abs=0.05)
    assert counted.duration_seconds == pytest.approx(2.0, abs=0.05)


async def test_a_chain_of_streams_of_several_rates_has_the_length_of_all(media: MediaLibrary) -> None:
    vorbis, opus = (DATA / "ljspeech.ogg").read_bytes(), (DATA / "jfk.opus").read_bytes()
    other = media.make("vorbis", channels=2, seconds=3.0).path.read_bytes()
    for chain in (vorbis + opus, opus + vorbis, vorbis + other + opus):
        info, audio = await aioaudio.info(chain), await aioaudio.load(chain)
        assert info.duration_from == "header"
        assert info.duration_seconds == pytest.approx(audio.duration_seconds, abs=1e-3)
