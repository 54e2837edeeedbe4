"""Signals for test media: the same for the same seed, and different in every channel and every second."""

from __future__ import annotations

import functools
import wave
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"

Array = NDArray[Any]
Signal = Literal["speech", "tones", "noise"]


def make_signal(signal: Signal, num_samples: int, sample_rate: int, channels: int, seed: int) -> Array:
    """Float64 `(channels, num_samples)` within ±0.9; every channel and every second of it is different."""
    make = {"speech": _speech, "tones": _tones, "noise": _noise}[signal]
    rows = [make(num_samples, sample_rate, np.random.default_rng((seed, channel))) for channel in range(channels)]
    return np.stack(rows)


def _speech(num_samples: int, sample_rate: int, rng: np.random.Generator) -> Array:
    """Recorded speech, one phrase after another from random places at random loudness."""
    recorded = _recorded_speech(sample_rate)
    pieces: list[Array] = []
    missing = num_samples
    while missing > 0:
        start = int(rng.integers(0, len(recorded) // 2))
        piece = recorded[start : start + missing] * rng.uniform(0.3, 1.0) * rng.choice([-1, 1])
        pieces.append(piece)
        missing -= len(piece)
    return np.concatenate(pieces) if pieces else np.zeros(0)


@functools.lru_cache
def _recorded_speech(sample_rate: int) -> Array:
    with wave.open(str(DATA / "ljspeech.wav")) as file:
        rate, recorded = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
    times = np.arange(int(len(recorded) / rate * sample_rate)) / sample_rate
    resampled = np.interp(times, np.arange(len(recorded)) / rate, recorded.astype(np.float64))
    return 0.9 * resampled / np.abs(resampled).max()


def _tones(num_samples: int, sample_rate: int, rng: np.random.Generator) -> Array:
    """Three tones that glide slowly, so that no stretch of them repeats."""
    seconds = np.arange(num_samples) / sample_rate
    frequencies, glides = rng.uniform(0.002, 0.2, 3) * sample_rate, rng.uniform(1.0, 5.0, 3)
    tones = [np.sin(2 * np.pi * (f + g * seconds) * seconds) for f, g in zip(frequencies, glides, strict=True)]
    return 0.3 * np.sum(tones, axis=0)


def _noise(num_samples: int, sample_rate: int, rng: np.random.Generator) -> Array:
    return rng.uniform(-0.5, 0.5, num_samples)
