"""Where eager rounds to 16 bits in between, a softmax of large numbers is one choice or another by it: the gate has room for that, and for no more."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import Harness
from planish.oracle import gate, layout, measure

SOURCE = """
import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(64, 192, dtype=torch.DTYPE)
    def forward(self, x, g, b):
        h = F.layer_norm(x, (64,)) * (1 + g) + b
        q, k, v = self.qkv(h).view(4, 48, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v)
def get_inputs():
    return [torch.randn(4, 48, 64, dtype=torch.DTYPE), torch.randn(64, dtype=torch.DTYPE), torch.randn(64, dtype=torch.DTYPE)]
def get_init_inputs():
    return []
"""
# Eager is near the reference there by chance, and rounding once where it rounds three times makes another choice.
UNLUCKY = [
    ("bfloat16", "wide", 107),
    ("bfloat16", "special", 123),
    ("bfloat16", "offset", 117),
    ("float16", "wide", 104),
    ("float16", "special", 118),
    ("float16", "offset", 107),
    ("float16", "offset", 128),
]


def made(dtype: str, seed: int, regime: str) -> Harness:
    harness = Harness(SOURCE.replace("DTYPE", dtype))
    assert "skipped" not in harness.make(seed, regime)
    return harness


def fused(harness: Harness, rounded: bool = False) -> torch.Tensor:
    """In fp32, with roundings only where a kernel stores. `rounded`: factors have 4 significant bits."""
    i = harness.inputs()
    x, g, b, weight, bias = (i[name].float() for name in ("x", "g", "b", "qkv.weight", "qkv.bias"))
    dtype = i["x"].dtype

    def factor(t: torch.Tensor) -> torch.Tensor:
        mantissa, exponent = torch.frexp(t)
        return torch.ldexp(torch.round(mantissa * 16) / 16, exponent) if rounded else t

    h = (F.layer_norm(x, (64,)) * (1 + g) + b).to(dtype).float()
    q, k, v = F.linear(factor(h), factor(weight), bias).to(dtype).float().view(4, 48, 3, 4, 16).permute(2, 0, 3, 1, 4)
    return (torch.softmax(q @ k.transpose(-1, -2) / 4, -1).to(dtype).float() @ v).to(dtype)


@pytest.mark.parametrize(("dtype", "regime", "seed"), UNLUCKY)
def test_another_place_to_round_passes(dtype, regime, seed):
    harness = made(dtype, seed, regime)
    assert harness.judge([fused(harness)], "full")["ok"]


def test_it_is_the_roundings_to_16_bits_that_make_room():
    """With an eager that happens to be exact, as it may be: what it does is another machine's affair."""
    without = 0
    for dtype, regime, seed in UNLUCKY:
        harness = made(dtype, seed, regime)
        expected = harness.region.expected(harness.data)
        out = expected.outputs[0]
        out.eager_error = out.yardstick = gate.ZERO
        assert out.ref is not None
        errors = measure.compare(layout.flat(fused(harness), out.order), out.ref)
        error, inputs = gate.Pair(errors.fro, errors.max), harness.data.input_tensors()
        without += error.within(gate.limit(gate.ZERO, out.dtype))
        assert error.within(expected.limit(0, error, inputs)) or expected.draws == 1
    assert without <= 2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("regime", ["task", "normal", "uniform", "sparse"])
def test_less_precision_fails_where_nothing_is_a_choice(dtype, regime):
    for seed in (1, 2, 3):
        harness = made(dtype, seed, regime)
        assert harness.judge([fused(harness)], "full")["ok"]
        assert not harness.judge([fused(harness, rounded=True)], "full")["ok"]
        assert not harness.judge([fused(harness) * 1.02], "full")["ok"]


def test_what_nobody_reads_is_rounded_by_the_output_alone():
    """The noise of a value that is stored and read: not of the last one, whose rounding is the floor's affair."""
    plain = SOURCE.replace("DTYPE", "float32")
    alone, between = Harness(plain.replace("(q, k, v)", "(q, k, v).half()")), made("float16", 1, "task")
    alone.make(1)
    moved = []
    for harness in (alone, between):
        expected = harness.region.expected(harness.data)
        expected._replay(harness.data.input_tensors(), 2)
        moved.append(expected.replays[0].fro)
    assert moved[0] < 2.0**-18 < 2.0**-12 < moved[1]
