"""The operations on many clips: their options are checked here, and the flow in `batch` is set up."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from aioaudio.audio import Audio, Batch, Clip, Failure
from aioaudio.batch import (
    BatchOptions,
    BatchStages,
    Collate,
    FlowOptions,
    Layout,
    LoadStages,
    OnError,
    OrderOptions,
    ResultOrder,
    Results,
    RunPlan,
    Short,
    Sizes,
    Uneven,
    checked_clips,
)
from aioaudio.decode import Leave, Narrow, Parts
from aioaudio.device import DeviceOptions
from aioaudio.fetch import Source
from aioaudio.loading import Times, load_audio, load_parts
from aioaudio.options import LoadOptions, RawPCM, as_channels, check_timeout
from aioaudio.workers import Workers

__all__ = ["ManyOperations"]

Clips = (
    Iterable[Source | Clip | Mapping[str, Any]]
    | AsyncIterable[Source | Clip | Mapping[str, Any]]
    | str
    | os.PathLike[str]
)

# How many clips a batch of so many seconds has is not known before the first one; after that it is.
_GUESSED_CLIPS = 16


class ManyOperations:
    """`load_many` and `batches`, for a class that has `workers`."""

    @property
    def workers(self) -> Workers:
        """The threads that do the work."""
        raise NotImplementedError

    def load_many(
        self,
        clips: Clips,
        *,
        order: ResultOrder = "input",
        on_error: OnError = "raise",
        max_failures: int | float | None = None,
        prefetch: int = 64,
        prefetch_bytes: int = 256 << 20,
        progress: bool = False,
        trace: str | os.PathLike[str] | None = None,
        device: torch.device | str | None = None,
        streams: int = 2,
        resample_on: Literal["cpu", "device"] = "cpu",
        sample_rate: int | None = None,
        num_channels: int | None = None,
        channels: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        on_damage: Literal["raise", "conceal"] = "raise",
        verify: bool = False,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> Results[Audio | Failure]:
        """Load any number of clips, ahead of whoever consumes them and in bounded memory.

        `clips`, `order`, `on_error`, `max_failures`, `prefetch_bytes`, `progress`, `trace`, `device`, `streams` and
        `resample_on` are as in `batches`, the options from `sample_rate` on as in `load`. `prefetch` is how many clips
        are loaded ahead of the consumer.

        Returns:
            `Results`, for `async for`: an `Audio` for each clip, whose `clip` is that clip. With `on_error="return"`,
            a `Failure` stands in the place of each that failed; with "skip" nothing does.

        Raises, at once, ValueError and TypeError for wrong options; as results are asked for, what `batches` raises.
        """
        flow = FlowOptions(
            order=order,
            on_error=on_error,
            max_failures=max_failures,
            prefetch=prefetch,
            prefetch_bytes=prefetch_bytes,
            progress=progress,
            trace=trace,
        )
        options = LoadOptions(
            sample_rate=sample_rate,
            num_channels=num_channels,
            channels=as_channels(channels),
            dtype=dtype,
            track=track,
            format=format,
            on_damage=on_damage,
            verify=verify,
            max_seconds=max_seconds,
            max_bytes=max_bytes,
        )
        check_timeout(timeout)
        where = DeviceOptions(device=device, streams=streams, resample_on=resample_on)
        plan = RunPlan(checked_clips(clips, 1), OrderOptions(), flow, Sizes(batch_size=1), batch_clips=1)

        def stages(workers: Workers, input: Mapping[str, Any]) -> LoadStages:
            layout = Layout(dtype=dtype, transfer=where.transfer(prefetch))
            leave = Leave(resampling=resample_on == "device")
            ahead = {"priority": 1, "home": input["home"]}

            async def load(clip: Clip, times: Times) -> Audio | Parts:
                ranged = _ranged(options, clip)
                if layout.transfer is None:
                    return await load_audio(workers, clip.source, ranged, timeout, times=times, **ahead)
                return await load_parts(workers, clip.source, ranged, timeout, times=times, leave=leave, **ahead)

            return LoadStages(load, layout, **input)

        return Results(plan.run(lambda: self.workers, stages))

    def batches(
        self,
        clips: Clips,
        *,
        batch_size: int | None = None,
        batch_seconds: float | None = None,
        bucket: int | None = None,
        drop_last: bool = False,
        collate: Collate = "padded",
        pad_to_multiple: int = 1,
        crop_seconds: float | None = None,
        crop_short: Short = "keep",
        order: ResultOrder = "input",
        shuffle: bool = False,
        shuffle_buffer: int = 10_000,
        seed: int = 0,
        epoch: int = 0,
        epochs: int | None = 1,
        shard: tuple[int, int] | Literal["auto"] | None = None,
        uneven: Uneven = "allow",
        on_error: OnError = "raise",
        max_failures: int | float | None = None,
        prefetch: int = 4,
        prefetch_bytes: int = 256 << 20,
        progress: bool = False,
        trace: str | os.PathLike[str] | None = None,
        device: torch.device | str | None = None,
        streams: int = 2,
        resample_on: Literal["cpu", "device"] = "cpu",
        sample_rate: int | None = None,
        num_channels: int | None = None,
        channels: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        on_damage: Literal["raise", "conceal"] = "raise",
        verify: bool = False,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> Results[Batch]:
        """Load any number of clips in batches, ahead of whoever consumes them and in bounded memory.

        Reading and decoding go on while the consumer blocks its event loop: for a training step, say.

        Args:
            clips: Sources, `Clip`s, or mappings such as rows of a dataset: a list or another sequence, any iterable
                (iterated in a thread, so it may block), or an async one (iterated on the caller's event loop). A path
                names a manifest, read lazily: JSON lines, CSV or TSV. A row has its source under `audio_filepath`,
                `audio` (a path, or a mapping with `bytes` or `path`), `path`, `file_name` or `source`, and may have
                `offset` and `duration` in seconds.
            batch_size: Clips in a batch, at most.
            batch_seconds: Seconds of audio in a batch, after padding, at most; a clip that is longer comes alone.
            bucket: Sort so many clips by length before they are batched, so that padding shrinks. As many are held
                decoded, but fewer where they would take half of `prefetch_bytes`.
            drop_last: Leave out the last batch of an epoch if it has room for more.
            collate: "padded" to one tensor `(num_clips, num_channels, num_samples)`, "jagged" for a nested one without
                padding, or "list" for a list of tensors.
            pad_to_multiple: Make the length of a padded batch a multiple of this, in samples.
            crop_seconds: Take a random part of this length of each clip; which, depends on seed, epoch and the place in
                the order alone. Only its bytes are read, where the format allows it.
            crop_short: What to do with clips that are shorter: "keep" them, "pad" them with zeros (which then count as
                samples), "drop" them, or "repeat" them until they are long enough.
            order: "input", or "completion": what is ready first comes first.
            shuffle: Shuffle anew in each epoch: completely where the clips have a length and an index, else within a
                buffer of `shuffle_buffer` clips.
            shuffle_buffer: See there.
            seed: Of everything that is random.
            epoch: Number of the first epoch.
            epochs: How many times to go through the clips; None is without end.
            shard: `(rank, world_size)`: take every `world_size`-th clip only. "auto" asks torch.distributed, and where
                that is not initialized, the environment that torchrun sets.
            uneven: What ranks do at the end of an epoch: "allow" them to have different numbers of batches, "drop" what
                not all of them have, or "repeat" clips on those that have fewer. The latter two need an initialized
                torch.distributed, and every rank has to make its batches in the same order.
            on_error: What to do about a clip that fails: "raise" its error, "skip" it, or "return": let it have its
                place in a batch, which then has a row less. Either way it is among the `failures` of a batch.
            max_failures: Raise an ExceptionGroup of all failures once there are more: a count (int), or a share (float)
                of the clips, or of at least 100 where their number is not known.
            prefetch: Batches that are made ahead of the consumer.
            prefetch_bytes: Bytes of decoded audio ahead of the consumer, on a device too; more only where a single
                batch takes more.
            progress: Show a bar with clips, seconds of audio per second, and failures.
            trace: File to write what happened when to, in Chrome's trace format.
            device: Where `waveforms` and `lengths` are to be; None is the CPU, as they are made. To a CUDA device each
                batch goes in one copy on a side stream. The stream that is current where a batch is taken waits for
                it, not the host; in other streams use it only after these have waited for that one, and after
                `record_stream`.
            streams: Side streams that the copies take in turn.
            resample_on: "cpu", or "device": resample there, where there is a `device`. Equal to 2e-6 of full scale.
            sample_rate: This, and what follows, are as in `load`. Clips of different rates or numbers of channels
                cannot share a batch: give one.

        Returns:
            `Results`, for `async for`; each is a `Batch`.

        Raises:
            ValueError, TypeError: At once: an option is wrong. Later: clips differ in rate or channels, or a manifest
                is wrong; its line is named.
            AudioError: What `load` raises, for the first clip that fails, with `on_error="raise"`.
            ExceptionGroup: More than `max_failures` failed.
            ClosedError: The session was closed meanwhile.

        In input order, the same seed gives the same batches with any number of threads.
        """
        flow = FlowOptions(
            order=order,
            on_error=on_error,
            max_failures=max_failures,
            prefetch=prefetch,
            prefetch_bytes=prefetch_bytes,
            progress=progress,
            trace=trace,
        )
        which = OrderOptions(
            shuffle=shuffle,
            shuffle_buffer=shuffle_buffer,
            seed=seed,
            epoch=epoch,
            epochs=epochs,
            shard=shard,
            uneven=uneven,
        )
        what = BatchOptions(
            batch_size=batch_size,
            batch_seconds=batch_seconds,
            bucket=bucket,
            drop_last=drop_last,
            collate=collate,
            pad_to_multiple=pad_to_multiple,
            crop_seconds=crop_seconds,
            crop_short=crop_short,
        )
        options = LoadOptions(
            sample_rate=sample_rate,
            num_channels=num_channels,
            channels=as_channels(channels),
            dtype=dtype,
            track=track,
            format=format,
            on_damage=on_damage,
            verify=verify,
            max_seconds=max_seconds,
            max_bytes=max_bytes,
        )
        check_timeout(timeout)
        sizes = Sizes(
            batch_size=what.batch_size,
            batch_seconds=what.batch_seconds,
            pad_to_multiple=what.pad_to_multiple,
            bucket=what.bucket,
            window_bytes=flow.prefetch_bytes // 2,
            drop_last=drop_last,
        )
        where = DeviceOptions(device=device, streams=streams, resample_on=resample_on)
        layout = Layout(
            collate=collate,
            pad_to_multiple=what.pad_to_multiple,
            dtype=dtype,
            sample_rate=options.sample_rate,
            num_channels=options.num_channels if options.channels is None else len(options.channels),
        )
        batch_clips = what.batch_size or _GUESSED_CLIPS
        plan = RunPlan(checked_clips(clips, which.epochs), which, flow, sizes, batch_clips=batch_clips)

        def stages(workers: Workers, input: Mapping[str, Any]) -> BatchStages:
            leave = None if where.device is None else Leave(resampling=resample_on == "device")
            there = replace(layout, transfer=where.transfer(prefetch))

            async def load(clip: Clip, times: Times, narrow: Narrow | None) -> Parts:
                how = {"narrow": narrow, "home": input["home"], "times": times, "leave": leave}
                return await load_parts(workers, clip.source, _ranged(options, clip), timeout, **how)

            return BatchStages(load, there, what.crop_seconds, what.crop_short, **input)

        return Results(plan.run(lambda: self.workers, stages))


def _ranged(options: LoadOptions, clip: Clip) -> LoadOptions:
    track = options.track if clip.track is None else clip.track
    if not clip.start_seconds and clip.stop_seconds is None and track == options.track:
        return options
    return replace(options, start_seconds=clip.start_seconds, stop_seconds=clip.stop_seconds, track=track)
