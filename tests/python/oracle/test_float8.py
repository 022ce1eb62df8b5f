"""Tensors of 8 bits in data and gate: what rounding permits near a tie passes, one step more does not."""

import pytest
import torch
from harness import Harness
from planish import float8
from planish.oracle.regimes import REGIMES

HEADER = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"

QUANTISE = (
    HEADER
    + """class Model(nn.Module):
    def forward(self, x):
        scale = x.float().abs().amax(-1, keepdim=True) / 448
        return (x.float() / scale).to(torch.float8_e4m3fn), scale


def get_inputs():
    return [torch.randn(64, 256)]
"""
)

OF_A_PRODUCT = (
    HEADER
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(128, 96).bfloat16()

    def forward(self, x):
        return self.layer(x).to(torch.float8_e4m3fn)


def get_inputs():
    return [torch.randn(64, 128).bfloat16()]
"""
)

INT8 = (
    HEADER
    + """class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch.round(x / scale).clamp(-128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(64, 256)]
"""
)

DEQUANTISED = (
    HEADER
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(48, 64).to(torch.DTYPE))
        self.register_buffer("scale", torch.rand(48, 1) + 0.5)

    def forward(self, x):
        return F.linear(x, (self.weight.to(torch.float32) * self.scale).to(torch.bfloat16))


def get_inputs():
    return [torch.randn(8, 64).bfloat16()]
"""
)


def moved(codes: torch.Tensor, share: float) -> torch.Tensor:
    """That share of the codes one step larger."""
    raw = codes.view(torch.uint8).clone()
    some = torch.rand(raw.shape) < share
    raw[some & (raw & 0x7F < 0x70)] += 1
    return raw.view(codes.dtype)


@pytest.mark.parametrize("dtype", float8.KINDS)
def test_places_count_the_numbers_between_two(dtype):
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    values = codes.to(torch.float64)
    places = float8.places(values, dtype)
    numbers = ~values.isnan()
    assert (places[~numbers] == float8.NAN_PLACE).all()
    ordered = torch.argsort(values[numbers], stable=True)
    steps = places[numbers][ordered].diff()
    assert ((steps == 1) | (values[numbers][ordered].diff() == 0)).all()
    assert (float8.stored(torch.tensor([1e9, -1e9]), dtype).float().abs() == torch.finfo(dtype).max).all()


def test_a_quantise_step_may_round_either_way_near_a_tie_alone(tmp_path):
    harness = Harness(QUANTISE, tmp_path)
    harness.make(1)
    codes, scale = harness.eager()
    assert harness.judge([codes, scale])["ok"]
    x = harness.inputs()["x"]
    # Another order of the same arithmetic: the reciprocal of the scale.
    other = (x * (1 / scale)).to(torch.float8_e4m3fn)
    assert harness.judge([other, scale])["ok"]
    for share in (1e-2, 1.0):
        wrong = harness.judge([moved(codes, share), scale])
        assert not wrong["ok"] and wrong["problem"] == "mismatch", share
    # One step beside is too many where no rounding can lead there.
    far = codes.view(torch.uint8).clone()
    far.view(-1)[5] ^= 0x81
    assert not harness.judge([far.view(codes.dtype), scale])["ok"]
    truncated = (x / scale * 0.97).to(torch.float8_e4m3fn)
    assert not harness.judge([truncated, scale])["ok"]
    unwritten = harness.judge([codes, scale])
    harness.data.poison()
    assert unwritten["ok"] and not harness.service.check({"data": "d", "stage": "screen"})["ok"]


def test_what_eager_rounds_on_the_way_may_go_either_way(tmp_path):
    """A sum that is rounded to bf16 before it is quantised lies at a tie every now and then: without that rounding it goes the other way."""
    harness = Harness(OF_A_PRODUCT, tmp_path)
    harness.make(1)
    (codes,) = harness.eager()
    given = harness.inputs()
    once = torch.nn.functional.linear(given["x"].float(), given["layer.weight"].float(), given["layer.bias"].float()).to(torch.float8_e4m3fn)
    differ = once.view(torch.uint8) != codes.view(torch.uint8)
    assert 10 < differ.sum() < 0.1 * differ.numel()
    assert harness.judge([once])["ok"]
    room = harness.region.expected(harness.data).flips(0, harness.data.input_tensors())
    assert (room.high - room.low).max() == 1 and (room.high > room.low).double().mean() < 0.5
    assert not harness.judge([moved(codes, 0.5)])["ok"] and not harness.judge([moved(moved(codes, 0.05), 0.05)])["ok"]


def test_integers_of_a_quantise_step_are_judged_alike(tmp_path):
    harness = Harness(INT8, tmp_path)
    harness.make(1)
    (codes,) = harness.eager()
    x = harness.inputs()["x"]
    scale = x.abs().amax(-1, keepdim=True) / 127
    assert harness.judge([torch.round(x * (1 / scale)).clamp(-128, 127).to(torch.int8)])["ok"]
    assert not harness.judge([torch.trunc(x / scale).to(torch.int8)])["ok"]
    assert not harness.judge([(codes + (torch.rand(codes.shape) < 0.01)).to(torch.int8)])["ok"]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
def test_stored_weights_have_data_in_every_regime(dtype, tmp_path):
    harness = Harness(DEQUANTISED.replace("DTYPE", dtype), tmp_path)
    found, skipped = harness.region.regimes()
    of_others = {"labels", "no_labels", "integers", "masks"}
    assert {"task", "normal", "uniform", "wide", "sparse"} <= set(found) and set(found) | set(skipped) | of_others == set(REGIMES)
    for regime in found:
        harness.make(7, regime)
        assert harness.judge(harness.eager(), "full")["ok"], regime
    harness.make(7)
    given = harness.inputs()
    weight = given["weight"]
    assert weight.dtype == getattr(torch, dtype) and weight.float().isfinite().all() and weight.float().unique().numel() > 20
    coarse = torch.nn.functional.linear(given["x"], (torch.round(weight.float()) * given["scale"]).bfloat16())
    assert not harness.judge([coarse])["ok"]
    assert "zeros" in (tried := harness.service.mutation_check({"region": "task"}))["tried"] and tried["degenerate"] == []
