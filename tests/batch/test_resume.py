"""A run that is resumed equals one that was not broken."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aioaudio
from aioaudio import AudioIterableDataset, sync

all_options = st.fixed_dictionaries(
    {
        "shuffle": st.booleans(),
        "shuffle_buffer": st.just(7),
        "bucket": st.sampled_from([None, 5, 11]),
        "drop_last": st.booleans(),
        "epochs": st.integers(1, 2),
        "prefetch": st.integers(1, 3),
        "shard": st.sampled_from([None, (0, 2), (1, 2)]),
    },
    optional={"batch_seconds": st.floats(1, 4)},
)


def names(batches: Any) -> list[list[str]]:
    return [[clip.source.name for clip in batch.clips] for batch in batches]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=all_options, done=st.integers(0, 12), indexed=st.booleans())
def test_in_input_order_exactly_the_batches_that_were_to_come(
    paths: list[Path], broken: Path, options: dict[str, Any], done: int, indexed: bool
) -> None:
    class Stream:
        def __iter__(self) -> Iterator[Path]:
            return iter(clips)

    clips = [*paths[:9], broken, *paths[9:15], broken, broken, *paths[15:]]
    common = {"batch_size": 3, "seed": 5, "on_error": "skip", **options}
    source: Any = clips if indexed else Stream()
    whole = names(sync.batches(source, **common))
    with sync.batches(source, **common) as first:
        before = names(next(first) for _ in range(min(done, len(whole))))
        state = json.loads(json.dumps(first.state_dict()))
    rest = sync.batches(source, **common)
    rest.load_state_dict(state)
    assert before + names(rest) == whole


def test_by_completion_exactly_the_clips_that_were_to_come(paths: list[Path]) -> None:
    for done in (0, 1, 4, 11):
        with sync.batches(paths * 2, batch_size=4, order="completion", prefetch=3) as first:
            before = names(next(first) for _ in range(done))
            state = first.state_dict()
        rest = sync.batches(paths * 2, batch_size=4, order="completion")
        rest.load_state_dict(state)
        come = [name for batch in before + names(rest) for name in batch]
        assert sorted(come) == sorted(path.name for path in paths * 2)


def test_a_state_of_another_run_is_refused(paths: list[Path]) -> None:
    state = sync.batches(paths, batch_size=4).state_dict()
    for options in ({"seed": 1}, {"shuffle": True}, {"shard": (0, 2)}):
        with pytest.raises(ValueError, match=next(iter(options)).replace("shard", "world_size")):
            sync.batches(paths, batch_size=4, **options).load_state_dict(state)
    for wrong in ({}, {"version": 1}):
        with pytest.raises(ValueError, match="no state"):
            sync.batches(paths, batch_size=4).load_state_dict(wrong)
    with sync.batches(paths, batch_size=4) as begun:
        next(begun)
        with pytest.raises(RuntimeError, match="already"):
            begun.load_state_dict(state)


def test_a_run_with_other_batches_goes_on_between_buckets_only(paths: list[Path]) -> None:
    with sync.batches(paths, batch_size=4, bucket=8) as first:
        names([next(first)])
        within = first.state_dict()
        before = names(next(first) for _ in range(1))
        between = first.state_dict()
    other = sync.batches(paths, batch_size=3, bucket=8)
    with pytest.raises(ValueError, match="batch_size=4, this one has 3"):
        other.load_state_dict(within)
    other.load_state_dict(between)
    assert len(before) == 1
    assert sorted(name for batch in names(other) for name in batch) == sorted(path.name for path in paths[8:])


def loader(dataset: AudioIterableDataset) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=0)


def test_a_dataset_gives_an_epoch_each_time(paths: list[Path]) -> None:
    dataset = AudioIterableDataset(paths, batch_size=5, shuffle=True, seed=2)
    first, second = names(loader(dataset)), names(loader(dataset))
    assert first == names(sync.batches(paths, batch_size=5, shuffle=True, seed=2))
    assert second == names(sync.batches(paths, batch_size=5, shuffle=True, seed=2, epoch=1))
    dataset.set_epoch(0)
    assert names(loader(dataset)) == first


def test_a_dataset_that_was_left_early_goes_on_to_the_next_epoch(paths: list[Path]) -> None:
    dataset = AudioIterableDataset(paths, batch_size=5, shuffle=True)
    first = [names([next(iter(loader(dataset)))]) for _ in range(2)]
    whole = [names(sync.batches(paths, batch_size=5, shuffle=True, epoch=epoch)) for epoch in range(2)]
    assert first == [batches[:1] for batches in whole]
    twin = pickle.loads(pickle.dumps(dataset))
    assert names(twin) == names(dataset)


def test_a_dataset_keeps_its_state_until_it_is_used(paths: list[Path]) -> None:
    dataset = AudioIterableDataset(paths, batch_size=5)
    next(iterator := iter(dataset))
    state = dataset.state_dict()
    iterator.close()  # type: ignore[attr-defined]
    dataset.load_state_dict(state)
    dataset.set_epoch(state["epoch"])
    assert dataset.state_dict() == state
    begun = iter(dataset)
    assert dataset.state_dict() == state
    assert len(list(begun)) == 4
    assert dataset.state_dict() == {"epoch": 1, "results": None}


def test_a_dataset_resumes_within_an_epoch_and_goes_on_to_the_next(paths: list[Path]) -> None:
    def make() -> AudioIterableDataset:
        return AudioIterableDataset(paths, batch_size=5, shuffle=True)

    whole = make()
    expected = names(loader(whole)) + names(loader(whole))
    broken_off = make()
    iterator = iter(broken_off)
    before = names(next(iterator) for _ in range(2))
    state = broken_off.state_dict()
    iterator.close()  # type: ignore[attr-defined]
    resumed = make()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert before + names(loader(resumed)) + names(loader(resumed)) == expected


def test_a_dataset_checks_its_options_at_once(paths: list[Path]) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        AudioIterableDataset(paths)
    with pytest.raises(TypeError, match="batchsize"):
        AudioIterableDataset(paths, batchsize=3)
    with pytest.raises(TypeError, match="epochs"):
        AudioIterableDataset(paths, batch_size=3, epochs=2)
    with pytest.raises(TypeError, match="again"):
        AudioIterableDataset(iter(paths), batch_size=3)


def test_a_dataset_is_not_for_many_worker_processes(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Worker:
        num_workers = 2

    monkeypatch.setattr("aioaudio.dataset.get_worker_info", Worker)
    with pytest.raises(RuntimeError, match="num_workers=0"):
        iter(aioaudio.AudioIterableDataset(paths, batch_size=3))
