"""How numbers err: steps of the noise of replays (noise.py), each one pass over the values. On CUDA each is one kernel.

All of them take fp64 and return the values that err: on a CPU in place, on CUDA as a new tensor. `noise` are random numbers of the values' shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.cuda.jiterator import _create_jit_fn

EQUAL = 1e-5  # how far the square of a sum may be below that of equal terms

# Digits are those of the mantissa, `lowest` the biased exponent of the least normal number, of the type whose neighbours' distance this is.
_SPACING = """
template <typename T> T planish_spacing(T x, T lowest, T digits) {
  const int exponent = (int)((__double_as_longlong((double)x) >> 52) & 0x7ff), least = (int)lowest;
  if (exponent == 0x7ff) return T(0);
  const int found = (exponent > least ? exponent : least) - (int)digits;
  return (T)__longlong_as_double((long long)(found > 1 ? found : 1) << 52);
}
"""
_SCALED = "template <typename T> T planish_scaled(T x, T noise, T by) { return x * (T(1) + by * noise); }"
_SHIFTED = "template <typename T> T planish_shifted(T x, T noise, T spread, T by) { return x + noise * spread * by; }"
_ROUNDED = _SPACING + (
    "template <typename T> T planish_rounded(T x, T noise, T lowest, T digits, T by) { return x + noise * planish_spacing<T>(x, lowest, digits) * by; }"
)
_SUMMED = """
template <typename T> T planish_summed(T x, T squares, T noise, T walk, T drift, T equal, T added, T by) {
  const T total = x * x;
  T spread = ::sqrt(squares * walk + total * drift) * (total >= equal * squares ? added : T(1));
  if (!(spread <= T(1.7976931348623157e308))) spread = T(0);
  return x + noise * spread * by;
}
"""


@cache
def _kernel(code: str, *names: str) -> Callable[..., torch.Tensor]:
    return _create_jit_fn(code, **dict.fromkeys(names, 0.0))


def _fused(*tensors: torch.Tensor) -> bool:
    return all(t.is_cuda and t.dtype is torch.float64 for t in tensors)


def scaled(values: torch.Tensor, noise: torch.Tensor, by: float) -> torch.Tensor:
    """values · (1 + by · noise)."""
    if _fused(values, noise):
        return _kernel(_SCALED, "by")(values, noise, by=by)
    return values.mul_(noise.mul(by).add_(1))


def shifted(values: torch.Tensor, noise: torch.Tensor, spread: torch.Tensor, by: float) -> torch.Tensor:
    """values + by · noise · spread."""
    if _fused(values, noise, spread):
        return _kernel(_SHIFTED, "by")(values, noise, spread, by=by)
    return values.add_(noise.mul(spread).mul_(by))


def rounded(values: torch.Tensor, noise: torch.Tensor, dtype: torch.dtype, by: float) -> torch.Tensor:
    """values + by · noise · the distance of the neighbours in `dtype` there."""
    if _fused(values, noise):
        lowest, digits = _exponents(dtype)
        return _kernel(_ROUNDED, "lowest", "digits", "by")(values, noise, lowest=float(lowest), digits=float(digits), by=by)
    return values.add_(noise.mul(spacing(values, dtype)).mul_(by))


def summed(
    values: torch.Tensor, noise: torch.Tensor, squares: torch.Tensor, terms: float | torch.Tensor, longest: int, alike: bool, unit: float, by: float
) -> torch.Tensor:
    """Sums of `terms` terms, at most `longest` of them in turn, with the noise of their partial sums: a walk over the terms, a drift with what has been
    summed, and its own rounding. `squares`: the sums of the terms' squares. Equal terms (`alike`: known to be) are rounded alike: their errors add up.
    `unit` is that of rounding."""
    added: Any
    if isinstance(terms, torch.Tensor):
        lanes: Any = terms.clamp_max(longest)
        added = (lanes**0.5 / 2).clamp_min(1)
    else:
        lanes = float(min(terms, longest))
        added = max(1.0, lanes**0.5 / 2)
        if _fused(values, noise, squares):
            named = {"walk": lanes / 6, "drift": lanes / 9 + 1 / 3, "equal": 0.0 if alike else (1 - EQUAL) * terms, "added": added, "by": unit * by}
            return _kernel(_SUMMED, *named)(values, squares, noise, **named)
    total = values.square()
    spread = squares.mul(lanes / 6).add_(total.mul(lanes / 9 + 1 / 3)).sqrt_().mul_(unit)
    if alike:
        spread = spread * added
    elif not isinstance(added, float) or added > 1:
        spread = torch.where(total >= (1 - EQUAL) * terms * squares, spread * added, spread)
    return shifted(values, noise, spread.nan_to_num_(0.0, 0.0, 0.0), by)


def spacing(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of `dtype` at fp64 `values`, in fp64; that of the subnormal ones at least. 0 where not finite."""
    lowest, digits = _exponents(dtype)
    exponent = (values.contiguous().view(torch.int64) >> 52) & 0x7FF
    # 2^(e - 1023) · eps, by its bits
    bits = exponent.clamp_min(lowest).sub_(digits).clamp_min_(1) << 52
    return torch.where(exponent == 0x7FF, 0.0, bits.view(torch.float64))


@cache
def _exponents(dtype: torch.dtype) -> tuple[int, int]:
    """Of the least normal number, biased as fp64's are and at least 1, and how far below that of a number the exponent of its spacing is."""
    info = torch.finfo(dtype)
    return max(1, 1023 + _log2(info.smallest_normal)), -_log2(info.eps)


def _log2(value: float) -> int:
    return math.frexp(value)[1] - 1
