"""Whether a timed result is as near the truth as the gate asks (docs/accuracy.md), without the graph and the replays that the oracle has: twice
eager's own error by norm and by the largest, or what rounding costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from planish import float8
from planish.oracle.gate import FACTOR, HUGE, ZERO, Pair, floor, is_narrow

#: In single precision a right program adds in another order: lanes of 1,024 terms added in turn err by up to 16 times what eager's blocked sums do.
#: What replays know of each task is not known here. Beyond what single precision makes of anything (TF32, a chaotic network) it is 2.
_OTHER_ORDER, _SINGLE = 16.0, 2.0**-13
_LANES = 256.0  # eps, in single and double precision: such lanes of equal terms, where eager's result happens to be exact
_FEW, _CHANCE = 64, 2.0  # elements, and eps: of so few in 16 bits eager's may all be rounded right by chance
_PIECE = 1 << 22


def beyond_gate(actual: Any, exact: Any, eagers: list[Any]) -> str:
    """How a floating output is further from the model in fp64 than `eagers` (the model's own on these inputs, then with other roundings) allow; or
    nothing, also where it cannot be told. Shapes and dtypes agree."""
    eager = eagers[0]
    if not (isinstance(exact, torch.Tensor) and isinstance(eager, torch.Tensor)) or not eager.dtype.is_floating_point or exact.shape != eager.shape:
        return ""
    own = _errors(eager, exact, eager)
    if own is None:
        return ""
    ours = _errors(actual, exact, eager)
    if ours is None:
        return "NaN or infinity where eager has numbers"
    single = not is_narrow(eager.dtype) and own.fro <= _SINGLE
    allowed = own.larger(floor(eager.dtype)).times(_OTHER_ORDER if single else FACTOR)
    eps = torch.finfo(eager.dtype).eps
    least = _LANES * eps if not is_narrow(eager.dtype) else _CHANCE * eps if eager.numel() < _FEW else 0.0
    allowed = allowed.larger(Pair(least, least))
    for other in eagers[1:]:
        if isinstance(other, torch.Tensor) and other.shape == exact.shape:
            allowed = allowed.larger(_errors(other, exact, eager) or ZERO)  # its parameters and inputs are moved: no factor besides
    if ours.within(allowed):
        return ""
    ratio = max(ours.fro / allowed.fro, ours.max / allowed.max)
    return f"values that err by {ratio:.2g} times what eager's own error allows ({ours.fro:.1e} by norm, {allowed.fro:.1e} allowed)"


def _errors(tensor: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor) -> Pair | None:
    """The two measures, where eager's and the truth, rounded, are finite; None where there is no such element, or this is not finite there."""
    parts = [t.reshape(-1) for t in (tensor, exact, eager)]
    count, truth2 = 0, 0.0
    for _, x, good in _pieces(*parts):
        count += int(good.sum())
        truth2 += float(torch.where(good, x, 0.0).square().sum())
    if not count:
        return None
    scale = math.sqrt(truth2 / count) or 1.0
    error2 = largest = 0.0
    for a, x, good in _pieces(*parts):
        apart = torch.where(good, a - x, 0.0).abs()
        if not bool(apart.isfinite().all()):
            return None
        error2 += float(apart.square().sum())
        largest = max(largest, float((apart / (torch.where(good, x, 0.0).abs() + scale)).max()))
    norm = math.sqrt(truth2) or math.sqrt(count)
    return Pair(min(math.sqrt(error2) / norm, HUGE), largest)


def _pieces(tensor: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    for a, x, e in zip(tensor.split(_PIECE), exact.split(_PIECE), eager.split(_PIECE), strict=True):
        yield a.double(), x.double(), float8.computable(x.to(e.dtype)).isfinite() & float8.computable(e).isfinite()
