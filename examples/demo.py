"""Load audio files all at once to 16 kHz mono, show that the event loop stays free, and draw what was loaded.

Prints a table and writes a picture of the waveforms and their log-mel spectrograms.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import torch
from tqdm import tqdm

import aioaudio

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage

CLIPS = Path(__file__).resolve().parents[1] / "tests" / "data"
SUFFIXES = {".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav"}

SAMPLE_RATE = 16_000
HEARTBEAT_SECONDS = 0.005
MAX_PANELS = 12

FFT_SAMPLES = 512
HOP_SAMPLES = 160
NUM_MELS = 80
MAX_COLUMNS = 2_000
RANGE_DB = 80.0

STYLE = {
    "axes.edgecolor": "#999999",
    "axes.labelcolor": "#555555",
    "axes.linewidth": 0.6,
    "axes.titlesize": 9.5,
    "figure.dpi": 110,
    "font.size": 8.5,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
}


@dataclass
class Loaded:
    """One file: what it says of itself, its samples, and how long after the start they were there."""

    name: str
    info: aioaudio.AudioInfo
    audio: aioaudio.Audio
    milliseconds: float


async def load_all(paths: Sequence[str]) -> tuple[list[Loaded | aioaudio.AudioError], float, float]:
    """What came of each path, the seconds that all of them took, and the largest gap of the heartbeat in seconds."""
    gaps: list[float] = []
    heart = asyncio.create_task(beat(gaps))
    started = time.perf_counter()
    with tqdm(total=len(paths), unit="file", desc="loading") as bar:
        tasks = [asyncio.create_task(load_one(path, started)) for path in paths]
        for task in tasks:
            task.add_done_callback(lambda _: bar.update())
        results = await asyncio.gather(*tasks)
    seconds = time.perf_counter() - started
    await asyncio.sleep(2 * HEARTBEAT_SECONDS)  # so that the last gap is noted, too
    heart.cancel()
    return results, seconds, max(gaps)


async def load_one(path: str, started: float) -> Loaded | aioaudio.AudioError:
    try:
        audio = await aioaudio.load(path, sample_rate=SAMPLE_RATE, num_channels=1)
        milliseconds = (time.perf_counter() - started) * 1e3
        return Loaded(Path(path).name, await aioaudio.info(path), audio, milliseconds)
    except aioaudio.AudioError as error:
        return error


async def beat(gaps: list[float]) -> None:
    """Note the time from each beat to the next. A blocked event loop would show as a long one."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


def print_table(files: Sequence[Loaded]) -> None:
    rows = [("file", "codec", "rate", "channels", "seconds", "ms")]
    for file in files:
        info, seconds = file.info, file.audio.duration_seconds
        numbers = (f"{info.sample_rate}", f"{info.num_channels}", f"{seconds:.3f}", f"{file.milliseconds:.1f}")
        rows.append((file.name, info.codec, *numbers))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for row in rows:
        texts = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        print("  ".join([*texts, *numbers]))


def count_files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def hertz_to_mel(hertz: float) -> float:
    # The mel scale as the HTK Book gives it (section 5.4), after D. O'Shaughnessy, Speech Communication (1987).
    return 2595.0 * math.log10(1.0 + hertz / 700.0)


def mel_filters() -> torch.Tensor:
    """Triangles `(NUM_MELS, FFT_SAMPLES // 2 + 1)`, evenly spaced in mel from 0 Hz to half the sample rate."""
    corners_mel = torch.linspace(0.0, hertz_to_mel(SAMPLE_RATE / 2), NUM_MELS + 2, dtype=torch.float64)
    corners = 700.0 * (10.0 ** (corners_mel / 2595.0) - 1.0)
    bins = torch.linspace(0.0, SAMPLE_RATE / 2, FFT_SAMPLES // 2 + 1, dtype=torch.float64)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    return torch.minimum(rising, falling).clamp(min=0.0).float()


def log_mel(waveform: torch.Tensor) -> torch.Tensor:
    """Power in dB `(NUM_MELS, columns)` of a mono waveform; a long one is averaged down to MAX_COLUMNS columns."""
    padded = torch.nn.functional.pad(waveform, (0, max(0, FFT_SAMPLES - waveform.shape[1])))
    spectrum = torch.stft(
        padded[0], FFT_SAMPLES, HOP_SAMPLES, window=torch.hann_window(FFT_SAMPLES), return_complex=True
    )
    power = mel_filters() @ spectrum.abs().square()
    if power.shape[1] > MAX_COLUMNS:
        power = torch.nn.functional.adaptive_avg_pool1d(power[None], MAX_COLUMNS)[0]
    return 10.0 * torch.log10(power.clamp(min=1e-10))


def draw(files: Sequence[Loaded], png: str) -> None:
    """Draw waveform and spectrogram of each file, with one scale for all, into the file `png`."""
    spectrograms = [log_mel(file.audio.waveform) for file in files]
    loudest = max(float(spectrogram.max()) for spectrogram in spectrograms)
    peak = max(1e-3, *(float(file.audio.waveform.abs().max()) for file in files))
    columns = 1 if len(files) < 3 else 2
    rows = math.ceil(len(files) / columns)

    plt.rcParams.update(STYLE)
    width, height = 7.5 * columns + 0.6, 2.3 * rows + 1.1
    figure = plt.figure(figsize=(width, height))
    margins = {"left": 0.8 / width, "right": 1 - 1.0 / width, "bottom": 0.4 / height, "top": 1 - 1.05 / height}
    title = f"{count_files(len(files))}, loaded as {SAMPLE_RATE // 1000} kHz mono"
    figure.text(margins["left"], 1 - 0.33 / height, title, fontsize=14, weight="bold", va="center")
    subtitle = f"waveform and log-mel spectrogram ({NUM_MELS} bands, dB below the loudest); one scale for all"
    figure.text(margins["left"], 1 - 0.56 / height, subtitle, color="#555555", va="center")
    grid = figure.add_gridspec(rows, columns, hspace=0.32, wspace=0.12, **margins)
    for index, (file, spectrogram) in enumerate(zip(files, spectrograms, strict=True)):
        column, row = divmod(index, rows)  # down the columns, so that neighbours in the list are neighbours here
        upper, lower = grid[row, column].subgridspec(2, 1, height_ratios=(1, 2.4), hspace=0.03)
        mel_axes = figure.add_subplot(lower)
        draw_waveform(figure.add_subplot(upper, sharex=mel_axes), file, peak)
        image = draw_spectrogram(mel_axes, spectrogram - loudest, file.audio.duration_seconds)
    bar = figure.add_axes((1 - 0.8 / width, margins["bottom"], 0.12 / width, margins["top"] - margins["bottom"]))
    figure.colorbar(image, cax=bar, label="dB")
    figure.savefig(png)
    plt.close(figure)


def draw_waveform(axes: Axes, file: Loaded, peak: float) -> None:
    waveform, seconds = file.audio.waveform[0], file.audio.duration_seconds
    columns = min(MAX_COLUMNS, len(waveform))
    pieces = waveform.tensor_split(columns)
    times = torch.linspace(0.0, seconds, columns).numpy()
    lowest, highest = [float(piece.min()) for piece in pieces], [float(piece.max()) for piece in pieces]
    axes.fill_between(times, lowest, highest, color="#31688e", linewidth=0.4)
    axes.set_ylim(-peak, peak)
    axes.set_yticks([])
    axes.tick_params(labelbottom=False, bottom=False)
    axes.set_title(file.name, loc="left", weight="bold")
    axes.set_title(describe(file.info), loc="right", color="#555555")


def describe(info: aioaudio.AudioInfo) -> str:
    channels = {1: "mono", 2: "stereo"}.get(info.num_channels, f"{info.num_channels} channels")
    return f"{info.codec}, {info.sample_rate / 1000:g} kHz, {channels}"


def draw_spectrogram(axes: Axes, spectrogram: torch.Tensor, seconds: float) -> AxesImage:
    hertz = [250, 1000, 2000, 4000, 8000]
    axes.set_yticks([hertz_to_mel(f) for f in hertz], [f"{f / 1000:g} kHz" for f in hertz])
    axes.xaxis.set_major_formatter("{x:g} s")
    extent = (0.0, seconds, 0.0, hertz_to_mel(SAMPLE_RATE / 2))
    scale = Normalize(-RANGE_DB, 0.0)
    return axes.imshow(spectrogram.numpy(), origin="lower", aspect="auto", extent=extent, norm=scale, cmap="magma")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="FILE", help="audio files (default: the clips in tests/data)")
    parser.add_argument("--png", default="demo.png", help="the picture to write (default: %(default)s)")
    arguments = parser.parse_args()
    paths = arguments.paths or sorted(str(path) for path in CLIPS.iterdir() if path.suffix in SUFFIXES)

    results, seconds, gap = aioaudio.run(load_all(paths))
    errors = [result for result in results if isinstance(result, aioaudio.AudioError)]
    loaded = [result for result in results if isinstance(result, Loaded)]
    if loaded:
        print_table(loaded)
    for error in errors:
        print(f"\n{type(error).__name__}: {error}")
    audio_seconds = sum(file.audio.duration_seconds for file in loaded)
    print(f"\n{count_files(len(loaded))}, {audio_seconds:.1f} s of audio, in {seconds * 1e3:.0f} ms")
    print(f"largest gap of the heartbeat, due every {HEARTBEAT_SECONDS * 1e3:.0f} ms: {gap * 1e3:.1f} ms")
    drawn = [file for file in loaded if file.audio.num_samples > 0][:MAX_PANELS]
    if drawn:
        draw(drawn, arguments.png)
        print(f"wrote {arguments.png}" + (f" (the first {MAX_PANELS} files)" if len(loaded) > MAX_PANELS else ""))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
