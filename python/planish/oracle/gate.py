"""The gate: how far an output may be from the reference (docs/accuracy.md has the reasons and the numbers)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

FACTOR = 2.0
RESPONSE_FACTOR = 8.0
RESPONSE_DRAWS = 4
DELTA = 2.0**-24
NARROW_DRAWS = 8
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
    """Whether it is a float of 16 bits or less, which eager rounds every intermediate value to."""
    return dtype.is_floating_point and dtype.itemsize <= 2


def floor(dtype: torch.dtype) -> Pair:
    """What no candidate is refused for: 4 ulp; 16-bit dtypes 1 ulp (2 for the largest error), so that fp8 cannot hide under bf16."""
    ulp = torch.finfo(dtype).eps
    return Pair(ulp, 2 * ulp) if is_narrow(dtype) else Pair(4 * ulp, 4 * ulp)


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


def limit(yardstick: Pair, dtype: torch.dtype, response: Pair = ZERO, narrow: Pair = ZERO) -> Pair:
    """2 × max(eager's own error, floor, 8 × response, response to roundings to 16 bits)."""
    return yardstick.larger(floor(dtype)).larger(response.times(RESPONSE_FACTOR)).larger(narrow).times(FACTOR)


def number(value: float) -> float:
    """A float that JSON can carry."""
    return value if math.isfinite(value) and value < HUGE else HUGE
