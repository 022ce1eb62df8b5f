"""What is counted and searched in a shorter way than its definition says is the same to the bit."""

import pytest
import torch
from planish.oracle import measure, statistics
from planish.oracle.statistics import Found, View, Yardstick

COUNT = 1 << 16
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def drawn(dtype, seed=3):
    values = torch.randn(COUNT, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    values[::5] = values[::5].relu()
    values[1::7] = values[1::7].to(torch.float16).double().mul(0.5).round()  # many bits of zeros
    return values, values.to(dtype)


def yardstick(dtype):
    exact, eager = drawn(dtype)
    return Yardstick(View([COUNT], torch.device("cpu"), 1), exact, eager, True)


@pytest.mark.parametrize("special", [None, torch.inf, torch.nan])
@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_of_zeros_are_those_of_finite_numbers_but_zero(dtype, special):
    made, (_, values) = yardstick(dtype), drawn(dtype, 4)
    if special is not None:
        values[11::101] = special
    scalars = {}
    made._lattice(values, scalars, Found())
    words = values.view(torch.int16 if dtype.itemsize == 2 else torch.int32)
    alive = (values != 0) & torch.isfinite(values)
    assert set(scalars) == {f"{t} bits of zeros" for t in statistics._BITS[dtype.itemsize]}
    for t in statistics._BITS[dtype.itemsize]:
        share = (((words & ((1 << t) - 1)) == 0) & alive).sum() / alive.sum()
        assert torch.equal(scalars[f"{t} bits of zeros"], share) and share > 0


@pytest.mark.parametrize("count", [64, 1000, 1 << 15])
def test_ranks_are_those_of_sorted_values(count):
    values = torch.randn(count, generator=torch.Generator().manual_seed(count)).abs()
    values[::17] = values[0]
    values[3::400] = torch.inf
    for last in (torch.inf, torch.nan):
        values[-1] = last
        ranked, _ = values.sort()
        found = statistics._at_ranks(values, (0.5, 0.9, 0.99, 0.9999))
        right = [ranked[min(count - 1, int(q * count))] for q in (0.5, 0.9, 0.99, 0.9999)]
        torch.testing.assert_close(found, right, atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_no_draw_has_moved_is_off_by_the_last_rounding_alone(dtype):
    made = yardstick(dtype)
    alone, null = made.v.clone(), dict(made.null.values)
    made.learn([made.exact.clone()], [])
    assert torch.equal(made.v, alone) and torch.equal(made.wide_v, alone)
    assert made.null.values == null


def test_sums_that_overflow_are_looked_at_term_by_term():
    assert measure.all_finite(torch.full((1 << 12,), 60000.0, dtype=torch.float16))
    assert measure.all_finite(torch.tensor([1.7e308, 1.7e308], dtype=torch.float64))
    for special in (torch.inf, -torch.inf, torch.nan):
        assert not measure.all_finite(torch.tensor([1.0, special]))
    assert not measure.all_finite(torch.tensor([torch.inf, -torch.inf]))
