"""Every function of torch that takes one tensor, and every method, gives the same on a LazyAudio as on its samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import get_testing_overrides, resolve_name

import aioaudio
from aioaudio import LazyAudio, RawPCM
from aioaudio.lazy.stand_in import StandIn

# A square matrix of values between 0 and 1 suits the most of them. Those that need more arguments may have these.
NUM_CHANNELS = NUM_SAMPLES = 4
ARGUMENTS: tuple[Callable[[], tuple[Any, ...]], ...] = (
    lambda: (),
    lambda: (0,),
    lambda: (1, 0),
    lambda: (torch.full((4, 4), 0.5),),
    lambda: (torch.full((4, 4), 0.5), torch.full((4, 4), 0.25)),
    lambda: (torch.zeros(4, 4, dtype=torch.int64),),
    lambda: ((2, 8),),
)

# What no two tensors have in common, or what nobody has written yet.
NOT_OF_THE_SAMPLES = {"data_ptr", "const_data_ptr", "fbgemm_pack_gemm_matrix_fp16"}

# Of the names that every object has, those that tensors take for themselves.
COMPARISONS = {"__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"}

# Its first argument is no tensor.
NOT_OF_A_TENSOR = {"einsum"}


class _OtherError(Exception):
    """A function takes other arguments than these, or gives what cannot be compared."""


def without_mkldnn(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_dense() if tensor.is_mkldnn else tensor


def is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """LAPACK rounds by where in memory a matrix lies, so that the last bits of its results may differ."""
    try:
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
    except AssertionError:
        return False
    return True


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and a.layout == b.layout and is_close(*map(without_mkldnn, (a, b)))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    if isinstance(a, torch.UntypedStorage | torch.TypedStorage):
        return type(a) is type(b) and a.tolist() == b.tolist()
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_same, a, b))
    if type(a).__eq__ is object.__eq__ and a is not b:
        raise _OtherError
    return bool(a == b) or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """torch's functions, and the methods of tensors."""
    for function in get_testing_overrides():
        name = resolve_name(function) or ""
        if name and not name.startswith("torch.Tensor."):
            yield name, function
    for name in dir(torch.Tensor):
        if not hasattr(object, name) or name in COMPARISONS:

            def use(it: Any, *args: Any, name: str = name) -> Any:
                value = getattr(it, name)
                return value(*args) if callable(value) else value

            yield f"torch.Tensor.{name}", use


def is_tested(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    is_private = last.startswith("_") and not last.startswith("__")
    return not (is_private or "empty" in last or last in NOT_OF_THE_SAMPLES | NOT_OF_A_TENSOR)


def outcome(function: Callable[..., Any], it: Any, arguments: Callable[[], tuple[Any, ...]]) -> Any:
    torch.manual_seed(0)
    return function(it, *arguments())


def lazy_of(samples: torch.Tensor) -> LazyAudio:
    """A new one, since there are functions that change it."""
    return aioaudio.submit(samples.T.contiguous().numpy().tobytes(), format=RawPCM("f32le", 8_000, NUM_CHANNELS))


@pytest.mark.filterwarnings("ignore")  # torch deprecates some of its functions, and says so for each
def test_functions_give_the_same_as_on_a_tensor() -> None:
    torch.manual_seed(1)
    samples = torch.rand(NUM_CHANNELS, NUM_SAMPLES) * 0.8 + 0.1
    same, different = set(), []
    for name, function in functions():
        if not is_tested(name):
            continue
        try:
            if compare(function, samples):
                same.add(name)
            else:
                different.append(name)
        except _OtherError:
            pass
        except Exception as error:
            different.append(f"{name}: {error!r}")
    assert different == []
    assert len({name for name in same if not name.startswith("torch.Tensor.")}) > 400
    assert len(same) > 850


def compare(function: Callable[..., Any], samples: torch.Tensor) -> bool:
    """Whether `function`, with the first arguments that it takes, gives the same for both and does the same to both."""
    for arguments in ARGUMENTS:
        tensor = samples.clone()
        try:
            expected = outcome(function, tensor, arguments)
        except Exception:  # it takes no such arguments
            continue
        lazy = lazy_of(samples)
        return is_same(expected, outcome(function, lazy, arguments)) and is_same(tensor, lazy.result().waveform)
    raise _OtherError


def test_every_operator_of_tensors_is_one_of_its_own() -> None:
    """Python looks for these on the type, and asks no `__getattr__`."""
    special = {name for name in dir(torch.Tensor) if name.startswith("__") and callable(getattr(torch.Tensor, name))}
    by_attribute = {"__array_wrap__", "__dlpack__", "__dlpack_device__", "__setstate__", "__torch_dispatch__"}
    python_2 = {"__div__", "__idiv__", "__rdiv__", "__long__", "__nonzero__"}
    own = set(vars(StandIn)) | set(vars(LazyAudio))
    assert (special - set(dir(object))) | COMPARISONS <= own | by_attribute | python_2
