"""The gate: how far an output may be from the reference (docs/accuracy.md has the reasons and the numbers)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

FACTOR = 2.0
DRAWS = {"screen": 2, "full": 4, "caller": 4}  # of the reference with eager's roundings drawn again: for the noise, and as many for what is honest
MORE_DRAWS = 4  # for whoever is near the gate
NEAR = 4.0  # times the gate
HOPELESS = 50.0  # times the gate that one draw of each gives
RESPONSE_DRAWS, DELTA = 4, 2.0**-24  # agreement.py: whether graph and model differ by rounding
HUGE = 1e300  # JSON has no infinity


@dataclass(frozen=True)
class Pair:
    """The two measures of one output."""

    fro: float
    max: float

    def larger(self, other: Pair) -> Pair:
        return Pair(max(self.fro, other.fro), max(self.max, other.max))

    def times(self, factor: float) -> Pair:
        return Pair(self.fro * factor, self.max * factor)

    def within(self, other: Pair) -> bool:
        """False for NaN."""
        return self.fro <= other.fro and self.max <= other.max


ZERO = Pair(0.0, 0.0)


def is_narrow(dtype: torch.dtype) -> bool:
    """Whether it is a float of 16 bits, which eager rounds every intermediate value to. Of 8 bits the program's own roundings are part of the
    reference."""
    return dtype.is_floating_point and dtype.itemsize == 2


def floor(dtype: torch.dtype) -> Pair:
    """What rounding the reference to `dtype` costs: about 0.3 eps of the norm (a uniform error of half a unit at most, of 1 to 2), half an eps at most."""
    eps = torch.finfo(dtype).eps
    return Pair(0.3 * eps, 0.5 * eps)


@dataclass(frozen=True)
class Accuracy:
    """`--accuracy`: `eager`, `permitted`, `tf32`, or an allclose tolerance."""

    mode: str
    tolerance: float = 0.0

    @classmethod
    def parse(cls, text: object) -> Accuracy:
        """Raises ValueError."""
        if text in ("eager", "permitted", "tf32"):
            return cls(str(text))
        value = float(text)  # type: ignore[arg-type]
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"the tolerance must be positive, not {text}")
        return cls("tolerance", value)


def limit(yardstick: Pair, dtype: torch.dtype, replays: Pair = ZERO) -> Pair:
    """2 × max(eager's own error, what correct rounding costs, what eager's roundings do when they are drawn again)."""
    return yardstick.larger(floor(dtype)).larger(replays).times(FACTOR)


def number(value: float) -> float:
    """A float that JSON can carry."""
    return value if math.isfinite(value) and value < HUGE else HUGE
