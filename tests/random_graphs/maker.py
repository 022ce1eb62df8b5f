"""What an operator of the catalogue draws from: values made so far, partners that broadcast, scalars."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .case import Leaf

FLOATS = ("float32", "float32", "float32", "bfloat16", "float16", "float64")
INTS = ("int64", "int32", "int16", "int8", "uint8")


@dataclass
class Value:
    """`exact`: equal in eager, in fp64 and in any honest kernel, so that a step function of it has one answer."""

    name: str
    tensor: torch.Tensor
    exact: bool

    @property
    def kind(self) -> str:
        return kind_of(self.tensor.dtype)


def kind_of(dtype: torch.dtype) -> str:
    return "f" if dtype.is_floating_point else "b" if dtype == torch.bool else "c" if dtype.is_complex else "i"


class Refused(Exception):
    """The draw does not fit: another operator is drawn."""


@dataclass
class Draft:
    """A step in the making: `keeps`: exact operands give an exact result."""

    text: str
    operands: list[Value]
    keeps: bool = False
    simpler: tuple[str, ...] = ()
    outs: int = 1  # 0: in place


class Maker:
    """`leaf` adds a leaf to the case and returns its value."""

    def __init__(self, rng: random.Random, values: list[Value], leaf: Callable[[Leaf], Value]) -> None:
        self.rng = rng
        self.values = values
        self.leaf = leaf

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, kinds: str = "fib", exact: bool = False, rank: int = 0, accept: Callable[[torch.Tensor], bool] = lambda t: True) -> Value:
        """A value of such a kind; late ones more often, so that graphs grow deep. Raises Refused."""
        found = [v for v in self.values if v.kind in kinds and (v.exact or not exact) and v.tensor.ndim >= rank and accept(v.tensor)]
        if not found:
            raise Refused
        if self.chance(0.5):
            return found[-1 - min(len(found) - 1, int(self.rng.expovariate(0.7)))]
        return self.rng.choice(found)

    def partner(self, value: Value, kinds: str = "fib", exact: bool = False) -> Value:
        """Another value whose shape broadcasts with the first one's without making a large tensor."""
        shape = value.tensor.shape

        def fits(t: torch.Tensor) -> bool:
            try:
                return torch.broadcast_shapes(shape, t.shape).numel() <= 1 << 16
            except RuntimeError:
                return False

        found = [v for v in self.values if v.kind in kinds and (v.exact or not exact) and fits(v.tensor)]
        if not found:
            raise Refused
        same = [v for v in found if v.tensor.shape == shape]
        return self.rng.choice(same if same and self.chance(0.4) else found)

    def dim(self, value: Value) -> int:
        """A dim, counted from either end."""
        rank = value.tensor.ndim
        if rank == 0:
            raise Refused
        return self.rng.randrange(-rank, rank)

    def real(self, positive: bool = False) -> str:
        """A float that every dtype holds exactly."""
        value = self.rng.choice([0.5, 2.0, 0.25, 1.0, 3.0, 1.5] if positive else [0.5, -1.5, 2.0, 0.25, -0.75, 1.0, 0.0, 3.0])
        return repr(value)

    def integer(self, nonzero: bool = False) -> str:
        return repr(self.rng.choice([1, 2, 3, -2, 5] if nonzero else [0, 1, 2, 3, -2, 7]))

    def number(self, value: Value) -> str:
        """A Python number, mostly of the value's kind."""
        if self.chance(0.15):
            return self.rng.choice([self.real(), self.integer(), "True"])
        return self.real() if value.kind == "f" else self.integer()

    def dtype(self, kinds: str = "f") -> str:
        pool = [*(FLOATS if "f" in kinds else ()), *(INTS if "i" in kinds else ()), *(("bool",) if "b" in kinds else ())]
        return self.rng.choice(pool)

    def choice(self, items: Sequence[str]) -> str:
        return self.rng.choice(items)
