"""The hand-over to a device with streams, on a fake one whose copies are done late and out of order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_gpu import Computation, FakeGpu

import aioaudio
import aioaudio.device
from aioaudio import Batch, Session
from aioaudio.device import StreamTransfer, Transfer

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeGpu], FakeGpu]:
    """Have the device be a fake one."""

    def use(gpu: FakeGpu) -> FakeGpu:
        def transfer_to(device: torch.device, *, streams: int, max_in_use: int | None = None) -> Transfer:
            return StreamTransfer(gpu, streams, max_in_use)

        monkeypatch.setattr(aioaudio.device, "transfer_to", transfer_to)
        return gpu

    return use


def tensors(batch: Batch) -> list[torch.Tensor]:
    waveforms = batch.waveforms
    if isinstance(waveforms, list):
        return [batch.lengths, *waveforms]
    return [batch.lengths, *([waveforms.values(), waveforms.offsets()] if waveforms.is_nested else [waveforms])]


def as_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


async def train(gpu: FakeGpu, paths: list[Path], session: Session, **options: Any) -> list[list[Computation]]:
    """Have the device read every batch, and drop each at once, as a training loop does."""
    steps = []
    async with session.batches(paths, batch_size=3, device="cpu", **options) as batches:
        async for batch in batches:
            steps.append([gpu.compute(tensor) for tensor in tensors(batch)])
            del batch
            gpu.advance(len(steps) % 7)
    gpu.finish()
    return steps


async def expected(paths: list[Path], session: Session, **options: Any) -> list[list[bytes]]:
    async with session.batches(paths, batch_size=3, device="cpu", **options) as batches:
        return [[as_bytes(tensor) for tensor in tensors(batch)] async for batch in batches]


def found(steps: list[list[Computation]]) -> list[list[bytes | None]]:
    return [[one.found for one in step] for step in steps]


@pytest.fixture
async def session() -> Any:
    async with Session(decode_threads=2) as session:
        yield session


@pytest.fixture(scope="module")
def alike(media: Any) -> list[Path]:
    """Clips of one length, so that the memory of one batch fits the next."""
    return [media.make("wav", num_samples=500, sample_rate=8_000, seed=i).path for i in range(36)]


@pytest.mark.parametrize("collate", ["padded", "jagged", "list"])
@pytest.mark.parametrize("streams", [1, 2, 3])
async def test_late_copies_are_seen_in_order_and_nothing_is_reused_early(
    use: Callable[[FakeGpu], FakeGpu], session: Session, alike: list[Path], collate: Any, streams: int
) -> None:
    wanted = await expected(alike, session, collate=collate)
    for seed in range(4):
        gpu = use(FakeGpu(seed))
        assert found(await train(gpu, alike, session, collate=collate, streams=streams)) == wanted
        assert gpu.launched == len(wanted)
        assert gpu.reused > 0
        assert len(gpu.streams) == 1 + streams


@pytest.mark.parametrize("forgotten", ["forgets_to_keep", "forgets_to_wait"])
async def test_the_fake_shows_what_goes_wrong_without_the_guards(
    use: Callable[[FakeGpu], FakeGpu], session: Session, alike: list[Path], forgotten: str
) -> None:
    wanted = await expected(alike, session)
    wrong = 0
    for seed in range(4):
        gpu = use(FakeGpu(seed, **{forgotten: True}))
        wrong += found(await train(gpu, alike, session, streams=1)) != wanted
    assert wrong


async def test_resampling_there_is_late_as_well(
    use: Callable[[FakeGpu], FakeGpu], session: Session, paths: list[Path]
) -> None:
    options = {"sample_rate": 16_000, "resample_on": "device"}
    wanted = await expected(paths, session, **options)
    gpu = use(FakeGpu())
    assert found(await train(gpu, paths, session, **options)) == wanted


async def test_single_clips_are_handed_over_too(
    use: Callable[[FakeGpu], FakeGpu], session: Session, alike: list[Path]
) -> None:
    gpu = use(FakeGpu())
    steps = []
    async with session.load_many(alike, device="cpu", prefetch=3) as clips:
        async for audio in clips:
            assert isinstance(audio, aioaudio.Audio)
            steps.append(gpu.compute(audio.waveform))
            del audio
    gpu.finish()
    assert [step.found for step in steps] == [as_bytes((await session.load(path)).waveform) for path in alike]
    assert gpu.reused > 0


async def test_a_consumer_that_runs_ahead_of_the_device_is_held_up(
    use: Callable[[FakeGpu], FakeGpu], session: Session, alike: list[Path]
) -> None:
    gpu = use(FakeGpu())
    async with session.batches(alike, batch_size=1, prefetch=2, device="cpu") as batches:
        async for batch in batches:
            gpu.compute(batch.waveforms)  # type: ignore[arg-type]
    # In its stream, each step is a mark, the wait for the copy, and the computation. Taken and not done are at most
    # prefetch batches when a copy begins, and prefetch more are made by then, and one is being asked for.
    assert gpu.most_unfinished <= 3 * (2 + 2 + 2)
    assert gpu.synchronized >= len(alike) - 2 * 2 - 2
    gpu.finish()


@pytest.mark.parametrize("on_error", ["raise", "skip"])
async def test_an_error_of_a_copy_travels_behind_the_batches_before_it(
    use: Callable[[FakeGpu], FakeGpu], alike: list[Path], on_error: Any
) -> None:
    async with Session(read_threads=1) as session:  # so that copies begin in the order of the batches
        for make in (session.batches, session.load_many):
            gpu = use(FakeGpu())
            gpu.fail_at = 3
            options = {"batch_size": 1} if make == session.batches else {}
            async with make(alike, device="cpu", prefetch=1, on_error=on_error, **options) as results:
                await anext(results)
                await anext(results)
                with pytest.raises(RuntimeError, match="the copy failed"):
                    await anext(results)
            gpu.finish()


async def test_an_error_of_the_device_travels(
    use: Callable[[FakeGpu], FakeGpu], session: Session, alike: list[Path]
) -> None:
    gpu = use(FakeGpu())
    gpu.fail_synchronize = True
    async with session.batches(alike, batch_size=1, prefetch=1, device="cpu") as batches:
        with pytest.raises(RuntimeError, match="the device has failed"):
            async for _ in batches:
                pass
    gpu.finish()
