"""An object that is taken for a tensor by whatever asks it for its samples, and has them only then."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

__all__ = ["StandIn"]

# No tensor at run time: torch's C code would look into one that has no samples yet, and find none, without an error.
# Nor may `__class__` claim to be one: that same code would then take this object for one of its own, and crash.
if TYPE_CHECKING:
    _Tensor = torch.Tensor
else:
    _Tensor = object

# What Python looks up on a type, and so never asks `__getattr__` for.
_OPERATORS = """
    abs add and bool complex contains delitem eq float floordiv ge getitem gt index int invert iter le len lshift lt
    matmul mod mul ne neg or pos pow radd rand reversed rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rshift rsub
    rtruediv rxor setitem sub truediv xor
""".split()
_IN_PLACE_OPERATORS = "iadd iand ifloordiv ilshift imod imul ior ipow irshift isub itruediv ixor".split()


class StandIn(_Tensor):
    """Stands for the tensor that `_samples()` gives.

    torch's functions, the methods and attributes of tensors, operators, indices and NumPy ask for it; so do copying and
    pickling, which give the tensor itself.
    """

    __slots__ = ("__weakref__",)

    __array_priority__ = 1000  # so that NumPy leaves operators to this, as it does to tensors

    def _samples(self) -> torch.Tensor:
        """The tensor; may wait for it, and raise."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_loaded(tuple(args)), **_loaded(dict(kwargs or {})))

    def __getattr__(self, name: str) -> Any:
        if not hasattr(torch.Tensor, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}, and neither have tensors")
        if callable(getattr(torch.Tensor, name)):
            return functools.partial(_call_method, self, name)
        return getattr(self._samples(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(torch.Tensor, name) and not hasattr(type(self), name):
            setattr(self._samples(), name, value)
        else:
            object.__setattr__(self, name, value)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(torch.Tensor)})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._samples().numpy(), dtype=dtype, copy=copy)

    def __copy__(self) -> torch.Tensor:
        return copy.copy(self._samples())

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return copy.deepcopy(self._samples(), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        samples: Any = self._samples()
        return samples.__reduce_ex__(protocol)


def _operator(name: str) -> Callable[..., Any]:
    def method(self: StandIn, *args: Any) -> Any:
        return getattr(self._samples(), name)(*args)

    method.__name__ = name
    return method


def _in_place_operator(name: str) -> Callable[..., Any]:
    def method(self: StandIn, *args: Any) -> Any:
        samples = self._samples()
        result = getattr(samples, name)(*args)
        return self if result is samples else result

    method.__name__ = name
    return method


for _name in _OPERATORS:
    setattr(StandIn, f"__{_name}__", _operator(f"__{_name}__"))
for _name in _IN_PLACE_OPERATORS:
    setattr(StandIn, f"__{_name}__", _in_place_operator(f"__{_name}__"))


def _call_method(stand_in: StandIn, name: str, /, *args: Any, **kwargs: Any) -> Any:
    return getattr(stand_in._samples(), name)(*args, **kwargs)


def _loaded(value: Any) -> Any:
    """What a torch function is given, with a tensor in the place of each that stands for one."""
    if isinstance(value, StandIn):
        return value._samples()
    if type(value) in (list, tuple):
        return type(value)(map(_loaded, value))
    if type(value) is dict:
        return {key: _loaded(item) for key, item in value.items()}
    return value
