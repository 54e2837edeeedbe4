"""What batches hold: the samples that `load` gives, in every shape, with what failed beside them."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from media import Media, MediaLibrary

import aioaudio
from aioaudio import Batch, Clip, Session
from aioaudio.decode import Parts


async def collect(paths: Any, session: Session | None = None, **options: Any) -> list[Batch]:
    make = aioaudio.batches if session is None else session.batches
    async with make(paths, **options) as batches:
        return [batch async for batch in batches]


def rows(batch: Batch) -> list[torch.Tensor]:
    """The clips of a batch without padding, whatever its shape."""
    if isinstance(batch.waveforms, list):
        return batch.waveforms
    if batch.waveforms.is_nested:
        return list(batch.waveforms.unbind())
    return [row[:, :length] for row, length in zip(batch.waveforms, batch.lengths.tolist(), strict=True)]


async def assert_as_loaded(batches: Sequence[Batch], sources: Sequence[Any], **options: Any) -> None:
    found = [(clip.source, row) for batch in batches for clip, row in zip(batch.clips, rows(batch), strict=True)]
    assert [source for source, _ in found] == list(sources)
    for source, row in found:
        assert row.equal((await aioaudio.load(source, **options)).waveform)


@pytest.mark.parametrize("collate", ["padded", "jagged", "list"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int16, torch.int32])
async def test_every_shape_holds_the_samples_of_load(paths: list[Path], collate: Any, dtype: torch.dtype) -> None:
    batches = await collect(paths, batch_size=5, collate=collate, dtype=dtype)
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 4]
    await assert_as_loaded(batches, paths, dtype=dtype)
    assert all(row.dtype == dtype for batch in batches for row in rows(batch))
    assert all(batch.lengths.tolist() == [row.shape[1] for row in rows(batch)] for batch in batches)


async def test_options_of_load_hold_for_every_clip(media: MediaLibrary) -> None:
    paths = [media.make(kind, sample_rate=rate, channels=2).path for kind, rate in [("mp3", 22_050), ("opus", 48_000)]]
    options = {"sample_rate": 16_000, "num_channels": 1}
    [batch] = await collect(paths, batch_size=2, **options)
    assert batch.sample_rate == 16_000
    await assert_as_loaded([batch], paths, **options)


async def test_padding_is_zeros_behind_the_clips_and_the_mask_knows(paths: list[Path]) -> None:
    for batch in await collect(paths, batch_size=5, pad_to_multiple=256):
        assert isinstance(batch.waveforms, torch.Tensor)
        longest = int(batch.lengths.max())
        assert batch.waveforms.shape == (len(batch), 1, -(-longest // 256) * 256)
        mask = batch.mask()
        assert mask.sum(1).equal(batch.lengths)
        assert not batch.waveforms[~mask[:, None]].any()


async def test_only_padded_batches_have_a_mask(paths: list[Path]) -> None:
    for collate in ("jagged", "list"):
        [batch] = await collect(paths[:2], batch_size=2, collate=collate)
        with pytest.raises(ValueError, match="padded"):
            batch.mask()


@pytest.mark.parametrize("collate", ["padded", "jagged", "list"])
async def test_a_batch_moves_and_travels(paths: list[Path], collate: Any) -> None:
    [batch] = await collect([Clip(path, fields={"text": "x"}) for path in paths[:3]], batch_size=3, collate=collate)
    for twin in (batch.to("cpu"), pickle.loads(pickle.dumps(batch))):
        assert all(one.equal(other) for one, other in zip(rows(batch), rows(twin), strict=True))
        assert twin.clips == batch.clips
    assert "8000 Hz" in repr(batch)


async def test_a_slice_of_a_batch_never_changes(paths: list[Path]) -> None:
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    async with aioaudio.batches(paths * 8, batch_size=4) as batches:
        async for batch in batches:
            assert isinstance(batch.waveforms, torch.Tensor)
            kept.append((batch.waveforms[1, :, 100:200], batch.waveforms[1, :, 100:200].clone()))
    assert all(part.equal(copy) for part, copy in kept)


async def test_batches_of_seconds_are_full_and_no_longer(paths: list[Path]) -> None:
    batches = await collect(paths, batch_seconds=2.5, bucket=12)
    assert all(batch.lengths.max() * len(batch) / 8_000 <= 2.5 for batch in batches)
    assert sorted(clip.source for batch in batches for clip in batch.clips) == sorted(paths)
    plain = await collect(paths, batch_seconds=2.5)
    assert len(batches) <= len(plain)


async def test_a_bucket_makes_the_share_of_padding_smaller(paths: list[Path]) -> None:
    shares = []
    for bucket in (None, 24):
        async with aioaudio.batches(paths, batch_size=4, bucket=bucket) as batches:
            made = [batch async for batch in batches]
        samples = sum(int(batch.lengths.sum()) for batch in made)
        assert batches.padding == pytest.approx(1 - samples / sum(batch.mask().numel() for batch in made))
        shares.append(batches.padding)
    assert shares[1] < shares[0] / 2


async def test_ranges_of_clips_and_rows_are_those_of_load(clips: list[Media]) -> None:
    entries = [
        Clip(clips[0].path, 0.02, 0.08, fields={"id": 1}),
        {"audio_filepath": str(clips[1].path), "offset": 0.01, "duration": 0.05, "text": "hello"},
        {"audio": {"bytes": clips[2].path.read_bytes(), "path": None}, "text": "bytes"},
    ]
    [batch] = await collect(entries, batch_size=3)
    expected = [
        await aioaudio.load(clips[0].path, start_seconds=0.02, stop_seconds=0.08),
        await aioaudio.load(clips[1].path, start_seconds=0.01, stop_seconds=0.06),
        await aioaudio.load(clips[2].path),
    ]
    for row, audio in zip(rows(batch), expected, strict=True):
        assert row.equal(audio.waveform)
    assert batch.start_seconds == pytest.approx((0.02, 0.01, 0.0))
    assert [dict(clip.fields) for clip in batch.clips][1:] == [
        {"offset": 0.01, "duration": 0.05, "text": "hello"},
        {"text": "bytes"},
    ]


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "adts"])
async def test_a_crop_is_a_part_of_the_clip_and_always_the_same(media: MediaLibrary, kind: str) -> None:
    paths = [media.make(kind, seconds=3, sample_rate=16_000, seed=i).path for i in range(4)]
    options: dict[str, Any] = {"batch_size": 4, "crop_seconds": 0.5, "seed": 3}
    [batch] = await collect(paths, **options)
    assert batch.lengths.tolist() == [8_000] * 4
    for path, row, start in zip(paths, rows(batch), batch.start_seconds, strict=True):
        whole = (await aioaudio.load(path)).waveform
        first = round(start * 16_000)
        assert torch.allclose(row, whole[:, first : first + 8_000], atol=1e-4 if kind == "adts" else 0)
    [again] = await collect(paths, **options)
    assert again.start_seconds == batch.start_seconds
    [other] = await collect(paths, **options, epoch=1)
    assert other.start_seconds != batch.start_seconds


async def test_what_is_shorter_than_the_crop_is_kept_padded_dropped_or_repeated(media: MediaLibrary) -> None:
    long, short = (media.make("flac", num_samples=n, sample_rate=8_000, seed=n) for n in (4_000, 300))
    whole = (await aioaudio.load(short.path)).waveform
    for how, lengths in {"keep": [800, 300], "pad": [800, 800], "drop": [800], "repeat": [800, 800]}.items():
        [batch] = await collect([long.path, short.path], batch_size=2, crop_seconds=0.1, crop_short=how)
        assert batch.lengths.tolist() == lengths
        if how == "pad":
            assert rows(batch)[1].equal(torch.nn.functional.pad(whole, (0, 500)))
        elif how == "repeat":
            assert rows(batch)[1].equal(torch.cat([whole] * 3, dim=1)[:, :800])


async def test_a_crop_is_never_longer_also_where_resampling_rounds_up(media: MediaLibrary) -> None:
    paths = [media.make("wav", num_samples=n, sample_rate=8_000, seed=n).path for n in (800, 801, 802, 803)]
    for rate in (4_000, 11_025):
        [batch] = await collect(paths, batch_size=4, crop_seconds=0.1, sample_rate=rate)
        assert batch.lengths.max() == int(0.1 * rate + 0.5)


@pytest.mark.parametrize("engine", ["blocks", "waveform"])
def test_a_part_that_is_cut_out_holds_no_more_memory(engine: str) -> None:
    whole = np.zeros((1, 1000), np.float32)
    blocks, waveform = (deque([whole]), None) if engine == "blocks" else (deque(), torch.from_numpy(whole))
    parts = Parts(blocks, waveform, 1, 1000, 8_000, 0.0, "a.aac", (), None)
    parts.cut(100, 200)
    kept = parts.blocks[0].base if waveform is None else parts.waveform.untyped_storage().nbytes()  # type: ignore
    assert kept in (None, 400)
    assert parts.num_bytes == 400


async def test_clips_that_do_not_fit_together_are_named(media: MediaLibrary) -> None:
    first = media.make("wav", sample_rate=8_000)
    for other, option in [
        (media.make("wav", sample_rate=16_000), "sample_rate"),
        (media.make("wav", sample_rate=8_000, channels=2), "num_channels"),
    ]:
        with pytest.raises(ValueError, match=option) as caught:
            await collect([first.path, other.path], batch_size=2, on_error="skip")
        assert str(first.path) in str(caught.value)
        assert str(other.path) in str(caught.value)


async def test_an_error_ends_it_after_the_batches_before_it(paths: list[Path], broken: Path) -> None:
    results = aioaudio.batches([*paths[:5], broken, *paths], batch_size=2)
    come = [await anext(results), await anext(results)]
    await assert_as_loaded(come, paths[:4])
    with pytest.raises(aioaudio.CorruptAudioError, match=r"broken\.wav") as caught:
        await anext(results)
    assert f"source: {broken}" in caught.value.__notes__
    assert "stage: decode" in caught.value.__notes__
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def test_skipped_failures_leave_batches_full_and_are_told(paths: list[Path], broken: Path) -> None:
    missing = broken.with_name("missing.wav")
    async with aioaudio.batches(
        [paths[0], broken, paths[1], missing, paths[2], paths[3]], batch_size=2, on_error="skip"
    ) as batches:
        made = [batch async for batch in batches]
    await assert_as_loaded(made, paths[:4])
    assert [len(batch) for batch in made] == [2, 2]
    assert [(one.clip.source, one.stage) for batch in made for one in batch.failures] == [
        (broken, "decode"),
        (missing, "fetch"),
    ]
    assert batches.failures is not None
    assert "2 of 6 clips failed" in str(batches.failures)
    assert [type(error) for error in batches.failures.exceptions] == [
        aioaudio.CorruptAudioError,
        aioaudio.SourceNotFound,
    ]


async def test_returned_failures_keep_their_place(paths: list[Path], broken: Path) -> None:
    batches = await collect([paths[0], broken, broken, broken, paths[1]], batch_size=2, on_error="return")
    assert [(len(batch), len(batch.failures)) for batch in batches] == [(1, 1), (0, 2), (1, 0)]
    assert batches[1].waveforms.shape == (0, 1, 0)  # type: ignore[union-attr]


@pytest.fixture
def damaged(paths: list[Path], tmp_path: Path) -> Path:
    path = tmp_path / "damaged.wav"
    path.write_bytes(paths[2].read_bytes()[:-200])
    return path


def test_skipped_damage_holds_no_audio_and_returned_damage_goes_with_its_failure(
    paths: list[Path], damaged: Path
) -> None:
    def audio_of(error: Exception) -> Any:
        assert isinstance(error, aioaudio.DamagedAudioError)
        return error.audio

    results = aioaudio.sync.batches([damaged, *paths], batch_size=3, on_error="skip")
    errors = [failure.error for batch in results for failure in batch.failures]
    assert results.failures is not None
    assert [audio_of(error) for error in (*errors, *results.failures.exceptions)] == [None, None]
    gc.disable()
    try:
        for returned in aioaudio.sync.load_many([damaged, *paths], on_error="return"):
            if isinstance(returned, aioaudio.Failure):
                reference = weakref.ref(audio_of(returned.error).waveform)
        del returned
        assert reference() is None
    finally:
        gc.enable()


async def test_one_failure_too_many_stops_with_all_of_them(paths: list[Path], broken: Path) -> None:
    many = [broken if i % 3 == 0 else paths[i % 24] for i in range(60)]
    with pytest.raises(ExceptionGroup, match=r"3 of \d+ clips failed, more than max_failures=2") as caught:
        await collect(many, batch_size=4, on_error="skip", max_failures=2)
    assert len(caught.value.exceptions) == 3


async def test_one_percent_of_corrupt_files_ends_nothing(
    clips: list[Media], tmp_path: Path, soak: Callable[[int], int]
) -> None:
    count = soak(5_000)
    corrupt = {i for i in range(count) if i % 100 == 37}
    sources: list[Any] = []
    for i in range(count):
        source: Any = clips[i % len(clips)].path
        if i in corrupt:
            source = tmp_path / f"{i}.flac"
            source.write_bytes(clips[1].path.read_bytes()[: 60 + i % 50])
        sources.append(source)
    options: dict[str, Any] = {"batch_size": 16, "bucket": 64, "shuffle": True, "on_error": "skip"}
    async with aioaudio.batches(sources, **options, drop_last=False) as batches:
        made = [clip.source async for batch in batches for clip in batch.clips]
    assert sorted(made) == sorted(source for i, source in enumerate(sources) if i not in corrupt)
    assert batches.failures is not None
    assert f"{len(corrupt)} of {count} clips failed" in str(batches.failures)
    assert {getattr(error, "source", None) for error in batches.failures.exceptions} == {
        str(sources[i]) for i in corrupt
    }
    with pytest.raises(ExceptionGroup, match=r"more than max_failures=0\.005"):
        await collect(sources, **options, max_failures=0.005)


async def test_load_many_gives_every_clip_and_failure(paths: list[Path], broken: Path) -> None:
    sources = [*paths[:5], broken, *paths[5:]]
    async with aioaudio.load_many(sources, on_error="return", prefetch=4) as results:
        made = [result async for result in results]
    assert [result.clip.source for result in made if result.clip] == sources
    for result in made:
        if isinstance(result, aioaudio.Audio):
            assert result.clip is not None
            assert result.waveform.equal((await aioaudio.load(result.clip.source)).waveform)
    assert isinstance(made[5], aioaudio.Failure)


async def test_by_completion_every_clip_comes_once(paths: list[Path]) -> None:
    async with aioaudio.load_many(paths * 3, order="completion") as results:
        come = [result.clip.source async for result in results if result.clip]
    assert sorted(come) == sorted(paths * 3)


async def test_what_is_ready_first_comes_first_by_completion(paths: list[Path]) -> None:
    gate, data = asyncio.Event(), paths[0].read_bytes()

    async def slow() -> AsyncIterator[bytes]:
        await gate.wait()
        yield data

    async with aioaudio.load_many([slow(), *paths[1:4]], order="completion") as results:
        first = [await anext(results) for _ in range(3)]
        gate.set()
        last = await anext(results)
    assert {result.clip.source for result in first if result.clip} == set(paths[1:4])
    assert isinstance(last, aioaudio.Audio)


async def test_every_kind_of_source_can_be_a_clip(paths: list[Path]) -> None:
    expected = [(await aioaudio.load(path)).waveform for path in paths[:5]]

    async def chunks() -> AsyncIterator[bytes]:
        assert asyncio.get_running_loop() is here  # the caller's sources belong to the caller's loop
        yield data

    class AsyncFile:
        def __init__(self, data: bytes) -> None:
            self._data = data

        async def read(self, size: int) -> bytes:
            assert asyncio.get_running_loop() is here
            data, self._data = self._data, b""
            return data

    here, data = asyncio.get_running_loop(), paths[3].read_bytes()
    with paths[2].open("rb") as file:
        sources = [str(paths[0]), paths[1].read_bytes(), file, chunks(), AsyncFile(paths[4].read_bytes())]
        [batch] = await collect(sources, batch_size=5)
    assert all(row.equal(one) for row, one in zip(rows(batch), expected, strict=True))


async def test_an_iterable_may_block_and_an_async_one_is_iterated_on_the_callers_loop(paths: list[Path]) -> None:
    threads: set[str] = set()

    def blocking() -> Iterator[Path]:
        threads.add(threading.current_thread().name)
        yield from paths

    async def awaiting() -> AsyncIterator[Path]:
        assert threading.current_thread() is threading.main_thread()
        for path in paths:
            await asyncio.sleep(0)
            yield path

    await assert_as_loaded(await collect(blocking(), batch_size=5), paths)
    assert all(name.startswith("aioaudio-input") for name in threads)
    await assert_as_loaded(await collect(awaiting(), batch_size=5), paths)


async def test_an_error_of_the_input_comes_after_the_batches_before_it(paths: list[Path]) -> None:
    def failing() -> Iterator[Path]:
        yield from paths[:4]
        raise LookupError("the list is broken")

    async def failing_async() -> AsyncIterator[Path]:
        for path in failing():
            yield path

    for clips in (failing(), failing_async()):
        come = []
        with pytest.raises(LookupError, match="the list is broken"):  # noqa: PT012
            async for batch in aioaudio.batches(clips, batch_size=2):
                come.append(batch)  # noqa: PERF401
        await assert_as_loaded(come, paths[:4])


@pytest.mark.parametrize(
    "raised",
    [
        EOFError("cut"),
        StopIteration(),
        StopAsyncIteration(),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
def test_whatever_an_input_or_a_source_raises_is_an_error_and_ends_no_thread(paths: list[Path], raised: Any) -> None:
    def clips() -> Iterator[Path]:
        yield paths[0]
        yield Rows()[1]

    class Rows:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Path:
            if index == 1:
                raise raised
            return paths[index]

    async def awaited() -> AsyncIterator[Path]:
        yield paths[0]
        raise raised

    class Source:
        def read(self, size: int = -1) -> bytes:
            raise raised

    for input in (clips(), Rows(), awaited()):
        results = aioaudio.sync.batches(input, batch_size=1)
        assert [clip.source for clip in next(results).clips] == paths[:1]
        with pytest.raises(Exception, match=r"cut|Error\(\)|Stop|Exit|Interrupt"):
            next(results)
    with aioaudio.sync.batches([paths[0], Source(), paths[1]], batch_size=3, on_error="skip") as results:
        assert [clip.source for batch in results for clip in batch.clips] == paths[:2]
    assert results.failures is not None


async def test_no_clips_are_no_batches() -> None:
    assert await collect([], batch_size=2) == []
    assert await collect([], batch_size=2, epochs=None) == []


async def test_epochs_follow_one_another_and_end_alone(paths: list[Path]) -> None:
    batches = await collect(paths[:5], batch_size=3, epochs=2)
    assert [len(batch) for batch in batches] == [3, 2, 3, 2]
    await assert_as_loaded(batches, paths[:5] * 2)
    assert [len(batch) for batch in await collect(paths[:5], batch_size=3, epochs=2, drop_last=True)] == [3, 3]


async def test_the_same_seed_gives_the_same_batches_with_any_number_of_threads(paths: list[Path]) -> None:
    made = []
    for threads in (1, 2, 5):
        async with Session(read_threads=threads, decode_threads=threads) as session:
            made.append(
                await collect(
                    paths, session, batch_seconds=2, bucket=9, shuffle=True, seed=7, epochs=2, crop_seconds=0.2
                )
            )
    for other in made[1:]:
        assert [batch.clips for batch in other] == [batch.clips for batch in made[0]]
        assert all(a.waveforms.equal(b.waveforms) for a, b in zip(made[0], other, strict=True))  # type: ignore


def test_the_sync_face_gives_the_same(paths: list[Path]) -> None:
    with aioaudio.sync.batches(paths, batch_size=5) as batches:
        made = list(batches)
    assert [clip.source for batch in made for clip in batch.clips] == paths
    assert [result.clip.source for result in aioaudio.sync.load_many(paths) if result.clip] == paths


async def test_the_sync_face_works_beside_a_running_loop(paths: list[Path]) -> None:
    assert sum(len(batch) for batch in aioaudio.sync.batches(paths, batch_size=5)) == len(paths)


@pytest.mark.parametrize("failing", [True, False])
async def test_epochs_without_end_end_where_they_give_nothing(paths: list[Path], failing: bool) -> None:
    clips = ["missing.wav"] if failing else paths[:1]
    with pytest.raises(ValueError, match="gave nothing") as caught:
        await collect(clips, batch_size=2, epochs=None, drop_last=True, on_error="skip")
    assert isinstance(caught.value.__cause__, ExceptionGroup) == failing
