"""Crops, room, failures, options: what is decided without doing anything."""

from __future__ import annotations

import io
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import aioaudio
from aioaudio.batch.crop import Crop
from aioaudio.batch.failures import FailureLog
from aioaudio.batch.room import Room
from aioaudio.decode.plan import result_range
from aioaudio.options import LoadOptions

rates = st.sampled_from([8_000, 16_000, 22_050, 44_100, 48_000])
places = st.floats(0, 1, exclude_max=True)


@given(st.floats(0.001, 40), places, st.integers(0, 10**6), rates, st.one_of(st.none(), rates))
def test_a_crop_has_its_length_and_lies_within_the_clip(
    seconds: float, place: float, num_samples: int, source_rate: int, asked_rate: int | None
) -> None:
    crop, rate = Crop(seconds, place), asked_rate or source_rate
    options = crop(LoadOptions(sample_rate=asked_rate), num_samples, source_rate)
    total = num_samples * rate // source_rate
    start, stop = result_range(options, rate)
    if total < crop.num_samples(rate):
        assert (start, stop) == (0, None)
    else:
        assert stop is not None
        assert stop - start == crop.num_samples(rate)
        assert 0 <= start < stop <= total


@given(st.floats(0, 5), st.floats(0.5, 5), places, rates)
def test_a_crop_of_a_range_lies_within_the_range(start: float, length: float, place: float, rate: int) -> None:
    options = LoadOptions(start_seconds=start, stop_seconds=start + length)
    cropped = result_range(Crop(0.25, place)(options, 60 * rate, rate), rate)
    first, last = result_range(options, rate)
    assert last is not None
    assert cropped[1] is not None
    assert first <= cropped[0] < cropped[1] <= last


def test_a_crop_may_lie_anywhere() -> None:
    assert {Crop(0.5, place / 100).start(8, 8) for place in range(100)} == {0, 1, 2, 3, 4}


@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 40), st.data())
def test_room_keeps_its_bounds_and_something_always_goes_on(
    prefetch: int, batch_size: int, clip_bytes: int, data: Any
) -> None:
    """A run of clips of one size, in which loads end and batches are taken at random."""
    room = Room(
        prefetch=prefetch, bucket=0, max_bytes=100, batch_clips=batch_size, is_exact=True, least=2, least_clips=2
    )
    open_clips = batches = 0
    for loads in data.draw(st.lists(st.booleans(), min_size=1, max_size=60)):
        begun = room.free()
        for _ in range(begun):
            room.begin()
        if begun and room.batches:
            assert room.ahead <= prefetch * batch_size
            assert room.num_bytes + room.loading * clip_bytes <= 100
        assert room.loading or room.batches, "nothing goes on"
        if loads and room.loading:
            room.loaded(clip_bytes)
            open_clips += 1
            if open_clips == batch_size:
                open_clips, batches = 0, batches + 1
                room.grouped(batch_size)
        elif batches:
            batches -= 1
            room.taken(batch_size, batch_size * clip_bytes)
    assert room.num_bytes == (open_clips + batches * batch_size) * clip_bytes


def a_failure(name: str) -> aioaudio.Failure:
    return aioaudio.Failure(aioaudio.Clip(name), aioaudio.CorruptAudioError("is broken", source=name), "decode")


@pytest.mark.parametrize(
    ("max_failures", "total", "allowed"),
    [(3, None, 3), (0, None, 0), (0.1, 50, 5), (0.1, None, 10), (0.0, 20, 0)],
)
def test_one_failure_too_many_is_told_with_those_before_it(
    max_failures: float, total: int | None, allowed: int
) -> None:
    log = FailureLog(max_failures, total)
    for i in range(allowed):
        assert log.failure(a_failure(f"{i}.wav")) is None
    group = log.failure(a_failure("last.wav"))
    assert group is not None
    assert len(group.exceptions) == allowed + 1
    assert f"{allowed + 1} of {allowed + 1} clips failed, more than max_failures={max_failures}" in str(group)


def test_a_summary_counts_all_failures_and_keeps_the_first() -> None:
    log = FailureLog(None, None)
    assert log.summary() is None
    log.success()
    for i in range(1500):
        log.failure(a_failure(f"{i}.wav"))
    group = log.summary()
    assert group is not None
    assert "1500 of 1501 clips failed" in str(group)
    assert len(group.exceptions) == 1000


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"batch_size": None}, ValueError, "batch_size"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": 2.5}, TypeError, "batch_size"),
        ({"batch_seconds": -1}, ValueError, "batch_seconds"),
        ({"batch_seconds": math.inf}, ValueError, "batch_seconds"),
        ({"bucket": 0}, ValueError, "bucket"),
        ({"collate": "stack"}, ValueError, "collate"),
        ({"pad_to_multiple": 0}, ValueError, "pad_to_multiple"),
        ({"pad_to_multiple": 8, "collate": "list"}, ValueError, "pad_to_multiple"),
        ({"crop_seconds": 0}, ValueError, "crop_seconds"),
        ({"crop_short": "pad"}, ValueError, "crop_short"),
        ({"crop_seconds": 1, "crop_short": "wrap"}, ValueError, "crop_short"),
        ({"drop_last": 1}, TypeError, "drop_last"),
        ({"order": "random"}, ValueError, "order"),
        ({"shuffle": 1}, TypeError, "shuffle"),
        ({"shuffle_buffer": 0}, ValueError, "shuffle_buffer"),
        ({"seed": -1}, ValueError, "seed"),
        ({"epoch": -1}, ValueError, "epoch"),
        ({"epochs": 0}, ValueError, "epochs"),
        ({"shard": (2, 2)}, ValueError, "shard"),
        ({"shard": 3}, TypeError, "shard"),
        ({"uneven": "pad"}, ValueError, "uneven"),
        ({"on_error": "ignore"}, ValueError, "on_error"),
        ({"max_failures": 3}, ValueError, "max_failures"),
        ({"max_failures": 1.5, "on_error": "skip"}, ValueError, "max_failures"),
        ({"max_failures": -1, "on_error": "skip"}, ValueError, "max_failures"),
        ({"prefetch": 0}, ValueError, "prefetch"),
        ({"prefetch_bytes": 0}, ValueError, "prefetch_bytes"),
        ({"progress": "yes"}, TypeError, "progress"),
        ({"trace": 1}, TypeError, "trace"),
        ({"sample_rate": 0}, ValueError, "sample_rate"),
        ({"channels": 1}, TypeError, "channels"),
        ({"timeout": 0}, ValueError, "timeout"),
    ],
    ids=str,
)
def test_a_wrong_option_fails_at_once_with_its_name(options: dict[str, Any], error: type[Exception], name: str) -> None:
    for operation in (aioaudio.batches, aioaudio.sync.batches):
        with pytest.raises(error, match=name):
            operation(["a.wav"], **{"batch_size": 2, **options})


def test_numbers_of_numpy_are_numbers() -> None:
    options: dict[str, Any] = {"batch_size": np.int64(2), "batch_seconds": np.float32(2), "seed": np.int32(3)}
    results = aioaudio.batches(["a.wav"], **options, shard=(np.int64(0), np.int64(2)), on_error="skip", max_failures=1)
    assert json.loads(json.dumps(results.state_dict()))["seed"] == 3
    with pytest.raises(ValueError, match="count"):
        aioaudio.batches(["a.wav"], batch_size=2, on_error="skip", max_failures=np.float32(1.5))
    aioaudio.batches(["a.wav"], batch_size=2, on_error="skip", max_failures=np.int64(3))


@pytest.mark.parametrize("clips", [b"RIFF", {"a": 1}, 3, None, io.BytesIO(), torch.zeros(4, dtype=torch.uint8)])
def test_what_is_no_list_of_clips_fails_at_once(clips: Any) -> None:
    with pytest.raises(TypeError, match="clips"):
        aioaudio.load_many(clips)


def test_a_single_path_is_taken_for_a_manifest() -> None:
    with pytest.raises(ValueError, match=r"a manifest must be .*list of sources"):
        aioaudio.load_many("talk.wav")


def test_an_iterator_has_one_epoch() -> None:
    async def awaited() -> AsyncIterator[str]:
        yield "a.wav"

    for clips in (iter(["a.wav"]), awaited()):
        with pytest.raises(ValueError, match="epochs"):
            aioaudio.batches(clips, batch_size=1, epochs=2)
