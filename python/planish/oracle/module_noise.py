"""The noise of a module that has no graph: each operator errs as it reaches torch (noise.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from planish.capture.opaque import Module
from planish.oracle import module_runs
from planish.oracle.noise import DOUBLE_UNIT, LIBRARY, PICKS, SINGLE, Known, Noise, Steps
from planish.oracle.promoted import Arithmetic, has_16_bits


class _Counted(Arithmetic):
    """Numbers the values that torch would store in 16 bits. Attention keeps single precision between its steps, but for its probabilities."""

    moves = frozenset(PICKS)

    def __init__(self) -> None:
        self.stores = 0
        self._inside = False

    def made(self, value: torch.Tensor, dtype: torch.dtype, name: str) -> torch.Tensor:
        if not has_16_bits(dtype):
            return value
        if self._inside:
            return self.stored(value, dtype, None) if "softmax" in name else value
        self.stores += 1
        return self.stored(value, dtype, self.stores - 1)

    def stored(self, value: torch.Tensor, dtype: torch.dtype, number: int | None) -> torch.Tensor:
        return value

    def whole(self, function: Callable[[], torch.Tensor]) -> torch.Tensor:
        self._inside = True
        try:
            with sdpa_kernel(SDPBackend.MATH):
                return function()
        finally:
            self._inside = False


class _Stores(_Counted):
    """Tells which of them an operator computes with later: what is only returned is rounded once, by its type."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()
        self._in: dict[int, set[int]] = {}  # by memory: the numbers of what lies there

    def made(self, value: torch.Tensor, dtype: torch.dtype, name: str) -> torch.Tensor:
        self._in[_memory(value)] = set()
        return super().made(value, dtype, name)

    def stored(self, value: torch.Tensor, dtype: torch.dtype, number: int | None) -> torch.Tensor:
        if number is not None:
            self._in[_memory(value)] = {number}
        return value

    def moved(self, to: torch.Tensor, sources: Sequence[torch.Tensor], fresh: bool = False) -> None:
        found = set().union(*(self._in.get(_memory(t), set()) for t in sources))
        self._in[_memory(to)] = found if fresh else self._in.get(_memory(to), set()) | found

    def reads(self, operands: Sequence[torch.Tensor]) -> None:
        for tensor in operands:
            self.read |= self._in.get(_memory(tensor), set())


class _Erring(_Counted):
    def __init__(self, noise: Noise, tf32: bool, read: frozenset[int]) -> None:
        super().__init__()
        self.noise, self.tf32, self.read = noise, tf32, read

    def call(self, func: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
        with Steps(self.noise, DOUBLE_UNIT if dtype is torch.float64 else SINGLE, self.tf32 and dtype is torch.float32, None, Known({}, "")):
            return func(*args, **kwargs)

    def narrow(self, value: torch.Tensor) -> torch.Tensor:
        return self.noise.relative(value, LIBRARY * SINGLE) if value.is_floating_point() else value

    def stored(self, value: torch.Tensor, dtype: torch.dtype, number: int | None) -> torch.Tensor:
        return self.noise.rounding(value, dtype) if number is None or number in self.read else value


def replay(module: Module, tensors: Sequence[torch.Tensor], noise: Noise, tf32: bool, known: dict[str, Any]) -> list[torch.Tensor]:
    """The module in double, erring. `known` keeps what is the same for all replays on these inputs. A run in which Python goes another way
    than it does without noise says nothing of rounding: the one without takes its place."""
    if "read" not in known:
        stores = _Stores()
        known["results"] = module_runs.wide(module, tensors, stores)
        known["read"], known["reads"] = frozenset(stores.read), module.reads
    try:
        results = module_runs.wide(module, tensors, _Erring(noise, tf32, known["read"]))
    except (torch.OutOfMemoryError, module_runs.TooLongError):
        raise
    except (RuntimeError, IndexError, ValueError):  # another way that leads nowhere
        return [t.clone() for t in known["results"]]
    return results if module.reads == known["reads"] else [t.clone() for t in known["results"]]


def _memory(tensor: torch.Tensor) -> int:
    """What tensors in one memory have in common. A sparse one has that of its values; of other layouts nothing is known."""
    if tensor.layout is not torch.strided:
        held = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values() if str(tensor.layout).startswith("torch.sparse") else None
        return 0 if held is None else held.untyped_storage()._cdata
    return tensor.untyped_storage()._cdata
