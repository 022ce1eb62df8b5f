"""Masks have data of their own, of rows that they cover whole; what chooses elements is none."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import pytest
import torch
from harness import Harness

sys.path.insert(0, str(Path(__file__).parents[3] / "bench" / "gate"))

from seldom import SELDOM

BY_NAME = {operator.name: operator for operator in SELDOM}
X = "torch.randn(24, 40)"
TRUTHS = "torch.rand(24, 40) < 0.5"


def opened(forward: str, inputs: str, args: str = "x, m") -> Harness:
    return Harness(
        f"import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n    def forward(self, {args}):\n        return {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


# By name: the expression, its inputs, and the least and the greatest value of the second where it is a mask.
KNOWN = {
    "truths": ("x.masked_fill(m, 0.0)", f"{X}, {TRUTHS}", (0, 1)),
    "floats": ("x * m", f"{X}, ({TRUTHS}).float()", (0, 1)),
    "floats of -Inf": ("(x + m).softmax(-1)", f"{X}, torch.zeros(24, 40).masked_fill({TRUTHS}, -torch.inf)", (-math.inf, 0)),
    "a bias with -Inf": ("x + m", f"{X}, torch.randn(24, 40).masked_fill({TRUTHS}, -torch.inf)", (-math.inf, None)),
    "integers": ("x * m", f"{X}, torch.randint(0, 2, (24, 40))", (0, 1)),
    "integers that are all one": ("x * m", f"{X}, torch.ones(24, 40, dtype=torch.long)", (0, 1)),
    "numbers": ("x * m", f"{X}, torch.randn(24, 40)", None),
    "one number": ("x * m", f"{X}, torch.full((24, 40), 2.0)", None),
    "places": ("x[m]", f"{X}, torch.randint(0, 2, (4, 4))", None),
    "places that are counted": ("x[(m.cumsum(-1) - 1).clamp(0)]", f"{X}, torch.randint(0, 2, (4, 4))", None),
    "truths that only meet truths": ("m & (x > 0)", f"{X}, {TRUTHS}", None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_a_mask(name: str) -> None:
    forward, inputs, wanted = KNOWN[name]
    task = opened(forward, inputs).service.task
    assert task is not None
    second = next(i["value"] for i in task.graph["inputs"] if i["name"] == "m")
    assert task.has("masks") is (wanted is not None)
    if wanted is not None:
        assert (task.masks[second].low, task.masks[second].high) == wanted


@pytest.mark.parametrize("name", ["truths", "floats", "floats of -Inf", "integers that are all one"])
def test_rows_are_covered_whole_and_not_at_all(name: str) -> None:
    forward, inputs, wanted = KNOWN[name]
    harness = opened(forward, inputs)
    assert wanted is not None and "skipped" not in harness.make(5, "masks") and "masks" in harness.region.regimes()[0]
    rows = harness.inputs()["m"].double()
    for value in wanted:
        assert int((rows == value).all(-1).sum()) >= 6
    assert bool(((rows == wanted[0]).any(-1) & (rows == wanted[1]).any(-1)).any()), "others are as they come"


def test_what_is_expanded_stays_equal() -> None:
    harness = opened("x.masked_fill(m, 0.0)", "torch.randn(6, 24, 40), (torch.rand(24, 40) < 0.5).expand(6, 24, 40)")
    assert "skipped" not in harness.make(5, "masks")
    mask = harness.inputs()["m"]
    assert mask.shape == (6, 24, 40) and torch.equal(mask, mask[:1].expand(6, 24, 40)) and bool(mask.all(-1).any())


def test_a_softmax_of_nothing_has_no_answer_and_its_neighbours_have() -> None:
    harness = opened("(x + m).softmax(-1)", f"torch.randn(24, 40), torch.zeros(24, 40).masked_fill({TRUTHS}, -torch.inf)")
    harness.make(5, "masks")
    right = harness.eager()[0]
    assert harness.judge([right])["ok"] and harness.judge([right.nan_to_num(0.0)])["ok"]
    assert not harness.judge([torch.full_like(right, torch.nan)])["ok"]


def test_what_vanishes_beside_the_least_number_is_no_noise() -> None:
    """Sums of numbers beside it are one number; noise of its size would choose among them."""
    for dtype in ("float32", "bfloat16"):
        operator = BY_NAME["masked_scores"]
        harness = Harness(operator.source(dtype))
        harness.make(17, "masks")
        covered = (harness.inputs()["m"] < -1e4).all(-1)
        right = harness.eager()[0]
        assert bool(covered.any()) and harness.judge([right])["ok"]
        assert not harness.judge([torch.where(covered[:, None], right.roll(1, -1) * torch.linspace(0, 2, 64).to(right.dtype), right)])["ok"]


CASES = [name for name in BY_NAME if "mask" in name]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_honest_ones_pass_and_bad_ones_do_not(name: str, dtype: str) -> None:
    operator, rng = BY_NAME[name], random.Random(1)
    harness = Harness(operator.source(dtype))
    assert "skipped" not in harness.make(17, "masks")
    for kind, variant in operator.honest.items():
        assert harness.judge(variant(harness.inputs(), rng), "full")["ok"], kind
    for kind, variant in operator.bad.items():
        assert not harness.judge(variant(harness.inputs(), rng), "full")["ok"], kind
