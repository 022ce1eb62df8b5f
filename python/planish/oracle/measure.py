"""The two error measures, and where an output is not what it should be at all.

Everything works on flat runs in pieces, so a temporary is small however large the tensor. Formulas: docs/accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

CUDA_PIECE = 1 << 26
_COMPARED = 92  # bytes an fp32 element, measured
CPU_PIECE = 1 << 18  # the pieces' fp64 temporaries stay in the cache


@dataclass
class Reference:
    """What one floating output should be. `exact` (fp64) and `eager` (the output's dtype) are flat, in storage order.

    `scale` is the RMS of the reference over the compared elements (1 when that is 0); `ref2` the sum of squares. `clean`: every element
    is finite in both. `lo`..`hi`: the part of eager's run that `exact` covers (the slice path), else everything."""

    exact: torch.Tensor
    eager: torch.Tensor
    clean: bool
    scale: float
    ref2: float
    count: int
    skipped: int


@dataclass
class Errors:
    """What `compare` found. `fro` and `max` are relative; `worst` is a flat position. `problem`: None, `nan` or `unwritten`, at `worst`."""

    fro: float
    max: float
    worst: int
    err2: float = 0.0
    problem: str | None = None
    bad: int = 0


def pieces(count: int, device: torch.device) -> Iterator[slice]:
    size = CUDA_PIECE if device.type == "cuda" else CPU_PIECE
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def compare_bytes(count: int, device: torch.device) -> int:
    """What comparing `count` elements takes beside them."""
    return min(count, CUDA_PIECE if device.type == "cuda" else CPU_PIECE) * _COMPARED


def reference(exact: torch.Tensor, eager: torch.Tensor) -> Reference:
    """Prepares a comparison: which elements can be compared, and their scale."""
    clean, ref2, count, skipped = True, 0.0, 0, 0
    for part in pieces(exact.numel(), exact.device):
        x, e = exact[part].to(torch.float64), eager[part]
        total = float(x.square().sum())
        if math.isfinite(total) and all_finite(e) and all_finite(x.to(e.dtype)):
            ref2 += total
            count += x.numel()
            continue
        clean = False
        compared, special = masks(x, e)
        ref2 += float(torch.where(compared, x, 0.0).square().sum())
        count += int(compared.sum())
        skipped += int((~compared & ~special).sum())
    scale = math.sqrt(ref2 / count) if count else 1.0
    return Reference(exact, eager, clean, scale if scale > 0 and math.isfinite(scale) else 1.0, ref2, count, skipped)


def all_finite(values: torch.Tensor) -> bool:
    """A sum is no number where one of its terms is none, and takes a tenth of looking at each; it may overflow, which then decides."""
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def masks(exact: torch.Tensor, eager: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(elements that are finite in both, elements where both agree that the value is NaN, +Inf or -Inf). The reference counts as it
    reads in the output's dtype; what is in neither set is not judged."""
    rounded = exact.to(eager.dtype)
    both = torch.isfinite(rounded) & torch.isfinite(eager)
    agree = (torch.isnan(rounded) & torch.isnan(eager)) | (torch.isinf(rounded) & (rounded == eager))
    return both, agree


def compare(actual: torch.Tensor, ref: Reference, poison: int | None = None) -> Errors:
    """Measures `actual` (flat, storage order, same dtype as eager or fp64). `poison` is the bit pattern of an element never written."""
    actual = actual.detach()  # an output may be a parameter
    err2, largest, worst = 0.0, -1.0, 0
    problem: str | None = None
    at = bad = 0
    for part in pieces(actual.numel(), actual.device):
        a, x = actual[part], ref.exact[part].to(torch.float64)
        # With every temporary that can be saved: what it takes is _COMPARED.
        diff = a.to(torch.float64).sub_(x) if a.device.type == "cpu" and a.dtype != torch.float64 else a - x
        if ref.clean:
            square = float(torch.dot(diff, diff)) if diff.device.type == "cpu" else float(torch.linalg.vector_norm(diff)) ** 2
        else:
            compared, _ = masks(x, ref.eager[part])
            diff = torch.where(compared, diff, 0.0)
            square = float(diff.square().sum())
        if not math.isfinite(square) or not ref.clean:
            wrong = misplaced(a, x, ref.eager[part])
            count = int(wrong.sum())
            if count:
                first = int(wrong.to(torch.uint8).argmax())
                if poison is not None:
                    unwritten = wrong & (a.view(int_view(a.dtype)) == poison)
                    if problem != "unwritten" and bool(unwritten.any()):
                        problem, at = "unwritten", part.start + int(unwritten.to(torch.uint8).argmax())
                if problem is None:
                    problem, at = "nan", part.start + first
                bad += count
                diff = torch.where(torch.isfinite(diff), diff, 0.0)
                square = float(diff.square().sum())
        err2 += square
        # diff is ours: err / (|ref| + scale) in place
        relative = diff.div_(x.abs().add_(ref.scale))
        if not ref.clean:
            relative = torch.nan_to_num(relative, nan=0.0)
        low, high = torch.aminmax(relative)
        value = float(torch.maximum(-low, high))
        if value > largest:
            largest, worst = value, part.start + int(relative.abs_().argmax())
    ref2 = ref.ref2 if ref.ref2 > 0 else max(1, ref.count) * ref.scale**2
    fro = math.sqrt(err2 / ref2)
    if problem is not None:
        return Errors(math.inf, math.inf, at, err2, problem, bad)
    return Errors(fro, max(0.0, largest), worst, err2)


def zero_signs(actual: torch.Tensor, ref: Reference) -> int:
    """Zeros whose sign is another than the one that eager and the reference both have."""
    count = 0
    for part in pieces(actual.numel(), actual.device):
        a, e, x = actual.detach()[part], ref.eager[part], ref.exact[part]
        if int(a.count_nonzero()) == a.numel():
            continue
        zeros = (a == 0) & (e == 0) & (x == 0)
        count += int((zeros & (torch.signbit(a) != torch.signbit(e)) & (torch.signbit(e) == torch.signbit(x))).sum())
    return count


def slope(actual: torch.Tensor, ref: Reference) -> float | None:
    """The factor by which the reference lies nearest to `actual`, over the elements that can be compared: what tells values that are
    scaled from values that are rounded. None where the reference is zero, or a value is not finite."""
    along = total = 0.0
    for part in pieces(actual.numel(), actual.device):
        a, x = actual.detach()[part].to(torch.float64), ref.exact[part].to(torch.float64)
        if not ref.clean:
            compared, _ = masks(x, ref.eager[part])
            a, x = torch.where(compared, a, 0.0), torch.where(compared, x, 0.0)
        along += float((a * x).sum())
        total += float(x.square().sum())
    found = along / total if total > 0 else math.nan
    return found if math.isfinite(found) else None


def misplaced(actual: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """Where a NaN or Inf is that should not be, or is not where it should be."""
    compared, special = masks(exact, eager)
    same = (torch.isnan(actual) & torch.isnan(eager)) | (actual == eager)
    return (compared & ~torch.isfinite(actual)) | (special & ~same)


@dataclass
class ExactErrors:
    """Integers and booleans: how many are wrong, and the first of them."""

    wrong: int
    worst: int
    unwritten: int = 0
    first_unwritten: int = 0


def compare_exact(actual: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor, poison: int | None) -> tuple[ExactErrors, torch.Tensor | None]:
    """Equal to eager or to the reference (they may differ where a float behind them rounds across a boundary). Also returns the mask of
    wrong elements when there are any."""
    a = actual.view(torch.uint8) if actual.dtype == torch.bool else actual
    e = eager.to(torch.uint8) if eager.dtype == torch.bool else eager
    x = exact.to(torch.uint8) if exact.dtype == torch.bool else exact.to(e.dtype)
    wrong = (a != e) & (a != x)
    count = int(wrong.sum())
    if not count:
        return ExactErrors(0, 0), None
    found = ExactErrors(count, int(wrong.to(torch.uint8).argmax()))
    if poison is not None:
        unwritten = wrong & (a == poison)
        found.unwritten = int(unwritten.sum())
        found.first_unwritten = int(unwritten.to(torch.uint8).argmax())
    return found, wrong


def int_view(dtype: torch.dtype) -> torch.dtype:
    """The integer dtype of the same size; of complex128 that of its parts."""
    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}[dtype.itemsize]


def finite_only(ref: Reference) -> Reference:
    """The same reference, comparing against itself where it is not finite (so that a variant's NaN there is no news)."""
    if ref.clean:
        return ref
    exact = torch.where(torch.isfinite(ref.exact), ref.exact, 0.0)
    return Reference(exact, ref.eager, ref.clean, ref.scale, ref.ref2, ref.count, ref.skipped)
