"""An HTTP service that takes audio files, and answers with their duration, loudness, and peaks for a picture of them.

pip install "aioaudio[service]"
python examples/upload_service.py
curl -F file=@talk.mp3 http://127.0.0.1:8000/audio

While files are decoded, the event loop is free: /health answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, HTTPException, UploadFile

import aioaudio

NUM_PEAKS = 200

# What is wrong with a file is its sender's affair; none of these is an error of the service.
STATUSES = {
    aioaudio.LimitError: 413,
    aioaudio.UnsupportedAudioError: 415,
    aioaudio.CorruptAudioError: 422,
    aioaudio.DamagedAudioError: 422,
    aioaudio.AudioTimeout: 422,
}

app = FastAPI()


@app.get("/health")
async def health() -> dict[str, bool]:
    return {"ok": True}


@app.post("/audio")
async def describe(file: UploadFile) -> dict[str, Any]:
    try:
        audio = await aioaudio.load(
            file, sample_rate=16_000, num_channels=1, max_bytes=50_000_000, max_seconds=3600, timeout=30
        )
    except tuple(STATUSES) as error:
        raise HTTPException(STATUSES[type(error)], detail=error.message) from error
    return {"duration_seconds": audio.duration_seconds, **await asyncio.to_thread(measure, audio.waveform[0])}


def measure(samples: torch.Tensor) -> dict[str, Any]:
    """Loudness in dB below full scale (None for silence), and the highest level in each of so many equal parts."""
    if not len(samples):
        return {"loudness_dbfs": None, "peaks": []}
    loudness = 20 * torch.log10(samples.square().mean().sqrt()).item()
    parts = torch.tensor_split(samples.abs(), min(NUM_PEAKS, len(samples)))
    return {
        "loudness_dbfs": round(loudness, 2) if loudness > -200 else None,
        "peaks": [round(part.max().item(), 4) for part in parts],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    torch.set_num_threads(1)  # several measurements run at once: more threads for each would get into each other's way
    uvicorn.run(app, host="127.0.0.1", port=parser.parse_args().port, log_level="warning")


if __name__ == "__main__":
    main()
