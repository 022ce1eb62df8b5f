"""The factor by which a reference lies nearest to an output that is wrong: what tells values that are scaled from values that are rounded."""

from __future__ import annotations

import math

import pytest
import torch
from planish.oracle import measure


def reference(exact: torch.Tensor) -> measure.Reference:
    return measure.reference(exact, exact.float())


def test_a_constant_factor_is_found_and_explains_the_error() -> None:
    exact = torch.randn(1 << 19, generator=torch.Generator().manual_seed(1), dtype=torch.float64)  # more than one piece
    ref, scaled = reference(exact), (1.01 * exact).float()
    slope = measure.slope(scaled, ref)
    assert slope == pytest.approx(1.01, rel=1e-6)
    assert measure.compare(scaled, ref).fro == pytest.approx(0.01, rel=1e-4), "nothing else is wrong with it"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_roundings_err_both_ways(dtype: torch.dtype) -> None:
    exact = torch.randn(1 << 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ref, rounded = reference(exact), exact.to(dtype).float()
    slope, fro = measure.slope(rounded, ref), measure.compare(rounded, ref).fro
    assert slope is not None and abs(slope - 1) < 0.1 * fro, (slope, fro)
    assert math.sqrt(fro**2 - (slope - 1) ** 2) > 0.9 * fro


def test_what_cannot_be_compared_is_left_out() -> None:
    exact = torch.tensor([1.0, 2.0, math.inf, math.nan], dtype=torch.float64)
    assert measure.slope(torch.tensor([2.0, 4.0, math.inf, math.nan]), reference(exact)) == 2
    assert measure.slope(torch.ones(4), reference(torch.zeros(4, dtype=torch.float64))) is None
    assert measure.slope(torch.tensor([math.nan, 1.0]), reference(torch.ones(2, dtype=torch.float64))) is None
