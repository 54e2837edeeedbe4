"""Checks what aioaudio does with a GPU, in less than four minutes and with nothing but aioaudio.

    python scripts/gpu_check.py [--device cuda] [--quick] [--report gpu_check.json]

Equality   every way to the device gives what the CPU gives: to the bit, or within 2e-6 where it resamples
Races      2,000 batches under random delays on both sides, in the default stream and in another, with checksums
Timeline   which share of the copies was hidden by computation of the same length
Bandwidth  of the library's copies, beside a bare copy from pinned memory
Speeds     resampling and G.711 on the device

The first two decide about the exit status; the others are measured. With --device cpu all runs but what needs streams.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import queue
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import aioaudio
from aioaudio import device as transfers

TOLERANCE = 2e-6
RATE = 8_000

SPEECH = [
    Path(__file__).resolve().parents[1] / "tests" / "data" / name for name in ("jfk.flac", "jfk.mp3", "ljspeech.ogg")
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="the device to check (default: cuda)")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the batches, and small ones")
    parser.add_argument("--report", type=Path, help="file for the report, as JSON (default: standard output)")
    options = parser.parse_args()
    try:
        transfers.as_device(options.device)
    except ValueError as error:
        parser.error(str(error))
    report = check_all(options.device, quick=options.quick)
    text = json.dumps(report, indent=2) + "\n"
    if options.report is None:
        print(text, end="")
    else:
        options.report.write_text(text)
    for name, check in report["checks"].items():
        verdict = check.get("skipped") or {True: "passed", False: "FAILED", None: "measured"}[check.get("passed")]
        print(f"{name:10} {check['seconds']:6.1f} s  {verdict}", file=sys.stderr)
    return 0 if report["passed"] else 1


def check_all(name: str, *, quick: bool) -> dict[str, Any]:
    """The whole report. A check that raises has failed, and the others go on."""
    device = transfers.as_device(name)
    assert device is not None
    report: dict[str, Any] = {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "aioaudio": importlib.metadata.version("aioaudio"),
        "checks": {},
    }
    checks: list[Callable[[torch.device, bool], dict[str, Any]]] = [
        check_equality,
        check_races,
        measure_timeline,
        measure_bandwidth,
        measure_speeds,
    ]
    for check in checks:
        began = time.perf_counter()
        try:
            result = check(device, quick)
        except Exception as error:  # whatever it is, it belongs in the report
            result = {"passed": False, "error": f"{type(error).__name__}: {error}"}
        result["seconds"] = round(time.perf_counter() - began, 2)
        report["checks"][check.__name__.split("_")[1]] = result
    report["passed"] = all(check.get("passed") is not False for check in report["checks"].values())
    return report


# Sources: made here, so that their samples are known


def pcm(seed: int, num_samples: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.random.default_rng(seed).integers(-30_000, 30_000, num_samples, dtype=np.int16)


def wav(samples: np.ndarray[Any, Any], tag: int = 1, rate: int = RATE) -> bytes:
    """A WAV file: `tag` 1 is integers, 3 floats, 6 and 7 the codes of A-law and mu-law."""
    width, data = samples.itemsize, samples.tobytes()
    form = np.array([tag, 1], "<u2").tobytes() + np.array([rate, rate * width], "<u4").tobytes()
    form += np.array([width, 8 * width], "<u2").tobytes()
    chunks = [(b"fmt ", form), (b"data", data + b"\0" * (len(data) % 2))]
    body = b"WAVE" + b"".join(name + len(part).to_bytes(4, "little") + part for name, part in chunks)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def sources() -> dict[str, list[Any]]:
    """Clips by the way in which they cross."""
    lengths = range(700, 2_700, 331)
    kinds: dict[str, list[Any]] = {
        "int16": [wav(pcm(i, n)) for i, n in enumerate(lengths)],
        "float32": [wav((pcm(i, n) / 40_000).astype("<f4"), 3) for i, n in enumerate(lengths)],
        "alaw": [wav(pcm(i, n).astype(np.uint8), 6) for i, n in enumerate(lengths)],
        "mulaw": [wav(pcm(i, n).astype(np.uint8), 7) for i, n in enumerate(lengths)],
    }
    kinds["mixed"] = [clips[i] for i, clips in enumerate(kinds.values())]
    if all(path.exists() for path in SPEECH):
        kinds["speech"] = [*SPEECH]
    return kinds


# Equality


def check_equality(device: torch.device, quick: bool) -> dict[str, Any]:
    """Each kind of source, shape and dtype, there and here."""
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.int16]
    exact = compared = 0
    wrong: list[str] = []
    largest = 0.0
    for kind, clips in sources().items():
        common = {"batch_size": 4, "num_channels": 1, "sample_rate": 44_100 if kind == "speech" else RATE}
        for collate in ("padded", "jagged", "list"):
            for dtype in dtypes[:2] if quick else dtypes:
                options = {**common, "collate": collate, "dtype": dtype}
                same, _ = differences(clips, options, {"device": device})
                compared, exact = compared + 1, exact + same
                if not same:
                    wrong.append(f"{kind} {collate} {dtype}: not equal to the bit")
            for rate in (16_000, 11_025):
                options = {
                    **common,
                    "sample_rate": rate,
                    "collate": collate,
                    "crop_seconds": 0.2,
                    "crop_short": "repeat",
                }
                _, error = differences(clips, options, {"device": device, "resample_on": "device"})
                compared, largest = compared + 1, max(largest, error)
                if not error <= TOLERANCE:
                    wrong.append(f"{kind} {collate} to {rate} Hz: off by {error}")
    single = aioaudio.sync.load(sources()["int16"][0], device=device)
    if not single.waveform.cpu().equal(aioaudio.sync.load(sources()["int16"][0]).waveform):
        wrong.append("load: not equal to the bit")
    return {
        "passed": not wrong,
        "compared": compared,
        "exact": exact,
        "largest_resampling_error": largest,
        "wrong": wrong,
    }


def differences(clips: list[Any], options: dict[str, Any], there: dict[str, Any]) -> tuple[bool, float]:
    """Whether the batches are equal to the bit, and by how much of full scale they differ at most."""
    here = [rows(batch) for batch in aioaudio.sync.batches(clips, **options)]
    others = [rows(batch) for batch in aioaudio.sync.batches(clips, **options, **there)]
    pairs = [pair for one, other in zip(here, others, strict=True) for pair in zip(one, other, strict=True)]
    if any((one.shape, one.dtype) != (other.shape, other.dtype) for one, other in pairs):
        return False, float("inf")
    errors = [(one.double() - other.double()).abs().max().item() for one, other in pairs if one.numel()]
    return all(one.equal(other) for one, other in pairs), max(errors, default=0.0)


def rows(batch: aioaudio.Batch) -> list[torch.Tensor]:
    """The clips of a batch, and their lengths, on the CPU."""
    waveforms = batch.waveforms
    if isinstance(waveforms, torch.Tensor) and waveforms.is_nested:
        waveforms = list(waveforms.unbind())
    return [batch.lengths.cpu(), *(row.cpu() for row in waveforms)]


# Races


def check_races(device: torch.device, quick: bool) -> dict[str, Any]:
    """Checksums of many batches that are dropped at once, under delays on both sides."""
    num_batches, batch_size, num_samples = (40, 4, 800) if quick else (2_000, 4, 16_000)
    clips = [pcm(i, num_samples) for i in range(97)]
    files = [wav(clip) for clip in clips]
    weights = torch.arange(num_samples, device=device) % 251 + 1
    here = weights.cpu().numpy()
    wanted = [int((clip.astype(np.int64) * here).sum()) for clip in clips]
    rng = random.Random(0)
    wrong = checked = 0
    for in_stream in (False, True):
        order = [rng.randrange(len(clips)) for _ in range(num_batches // 2 * batch_size)]
        found = []
        with other_stream(device, in_stream):
            results = aioaudio.sync.batches(delayed(files, order), batch_size=batch_size, device=device, streams=3)
            with results:
                for batch in results:
                    delay_device(device, rng.random() * 0.002)
                    values = (batch.waveforms * 32_768).to(torch.int64) * weights
                    del batch
                    found.append(values.sum((1, 2)))
                    if rng.random() < 0.2:
                        time.sleep(rng.random() * 0.004)
            sums = torch.cat(found).tolist()
        checked += len(sums)
        wrong += sum(one != wanted[index] for one, index in zip(sums, order, strict=True))
    return {"passed": wrong == 0 and checked == num_batches * batch_size, "clips": checked, "wrong": wrong}


def delayed(files: list[bytes], order: list[int]) -> Iterator[bytes]:
    rng = random.Random(1)
    for index in order:
        if rng.random() < 0.05:
            time.sleep(rng.random() * 0.005)
        yield files[index]


def other_stream(device: torch.device, wanted: bool) -> Any:
    """A stream that is not the default one, where there are streams."""
    return torch.cuda.stream(torch.cuda.Stream(device) if wanted and device.type == "cuda" else None)


def delay_device(device: torch.device, seconds: float) -> None:
    """Keep the current stream busy."""
    if device.type == "cuda":
        torch.cuda._sleep(int(seconds * 1.5e9))  # in clock cycles
    else:
        time.sleep(seconds / 10)


# Timeline


class Timed(transfers._Cuda):
    """The calls of CUDA, with marks around each copy."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.spans: list[tuple[Any, Any]] = []

    def launch(self, stream: Any, host: torch.Tensor, work: Any) -> list[torch.Tensor]:
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record(stream)
        sent = super().launch(stream, host, work)
        ended.record(stream)
        self.spans.append((began, ended))
        return sent


def measure_timeline(device: torch.device, quick: bool) -> dict[str, Any]:
    """A loop that computes as long as a copy takes, and what of the copies lay under the computation."""
    if device.type != "cuda":
        return {"skipped": "needs CUDA"}
    num_steps, num_bytes = (10, 1 << 20) if quick else (100, 64 << 20)
    streams = Timed(device)
    transfer = transfers.StreamTransfer(streams, 2, max_in_use=2)
    buffers = [transfer.host_memory(num_bytes).fill_(i) for i in range(4)]
    length = statistics.median(copy_seconds(device, buffers[0]) for _ in range(5))
    ahead: queue.Queue[Any] = queue.Queue(maxsize=2)

    def produce() -> None:
        for step in range(num_steps):
            if transfer.wait is not None:
                transfer.wait()
            ahead.put(transfer.send(buffers[step % len(buffers)], lambda copy: [copy]))

    torch.cuda.synchronize(device)
    base = torch.cuda.Event(enable_timing=True)
    base.record()
    producer = threading.Thread(target=produce)
    producer.start()
    steps = []
    for _ in range(num_steps):
        [copy], arrive = ahead.get()
        arrive()
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        delay_device(device, length)
        ended.record()
        del copy, arrive
        steps.append((began, ended))
    producer.join()
    torch.cuda.synchronize(device)
    copies, computed = (
        [(base.elapsed_time(a), base.elapsed_time(b)) for a, b in spans] for spans in (streams.spans, steps)
    )
    hidden = sum(max(0.0, min(b, d) - max(a, c)) for a, b in copies for c, d in computed)
    total = sum(b - a for a, b in copies)
    return {
        "copies_hidden": round(hidden / total, 3),
        "first_copy_ms": round(copies[0][1] - copies[0][0], 3),
        "copy_ms": round(total / num_steps, 3),
        "compute_ms": round(sum(b - a for a, b in computed) / num_steps, 3),
        "loop_ms": round(computed[-1][1] / num_steps, 3),
        "timeline_ms": {"copies": rounded(copies[:8]), "steps": rounded(computed[:8])},
    }


def rounded(spans: list[tuple[float, float]]) -> list[list[float]]:
    return [[round(time, 3) for time in span] for span in spans]


def copy_seconds(device: torch.device, pinned: torch.Tensor) -> float:
    """A bare copy from pinned memory."""
    target = torch.empty_like(pinned, device=device)
    return seconds_of(device, lambda: target.copy_(pinned, non_blocking=True))


def seconds_of(device: torch.device, work: Callable[[], object]) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


# Bandwidth and speeds


def measure_bandwidth(device: torch.device, quick: bool) -> dict[str, Any]:
    """The library's copies beside bare ones, in turn."""
    num_bytes, num_rounds = (1 << 20, 3) if quick else (256 << 20, 20)
    transfer = transfers.transfer_to(device, streams=2)
    host = transfer.host_memory(num_bytes).fill_(1)
    bare, ours = [], []
    for _ in range(num_rounds + 1):  # the first is for warming up
        bare.append(copy_seconds(device, host))
        ours.append(seconds_of(device, lambda: transfer.send(host, lambda copy: [copy])))
    rates = [num_bytes / statistics.median(times[1:]) / 1e9 for times in (ours, bare)]
    return {"gigabytes_per_second": round(rates[0], 2), "bare": round(rates[1], 2), "is_pinned": host.is_pinned()}


def measure_speeds(device: torch.device, quick: bool) -> dict[str, Any]:
    """Seconds of audio that are resampled, and samples of G.711 that are expanded, in a second on the device."""
    from aioaudio.decode import convolve, expanded, make_kernel, table_of
    from aioaudio.decode.plan import Resampling

    num_rows, seconds = (2, 1) if quick else (32, 30)
    result: dict[str, Any] = {}
    for source, target in ((44_100, 16_000), (48_000, 16_000), (8_000, 16_000)):
        resampling = Resampling(source, target)
        kernel = make_kernel(resampling).float().to(device)
        batch = torch.zeros((num_rows, 1, seconds * source), device=device)
        times = [seconds_of(device, lambda: convolve(batch, kernel, resampling)) for _ in range(4)]  # noqa: B023
        result[f"{source} to {target} Hz, seconds of audio in a second"] = round(num_rows * seconds / min(times[1:]))
    table = table_of("alaw").to(device)
    codes = torch.zeros(num_rows * seconds * RATE, dtype=torch.uint8, device=device)
    times = [seconds_of(device, lambda: expanded(codes, table, torch.float32, torch.float32)) for _ in range(4)]
    result["G.711, million samples in a second"] = round(codes.numel() / min(times[1:]) / 1e6, 1)
    return result


if __name__ == "__main__":
    sys.exit(main())
