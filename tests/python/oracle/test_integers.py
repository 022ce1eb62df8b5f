"""Integers that only meet arithmetic have data of their own; what chooses elements has the task's."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch
from harness import Harness

sys.path.insert(0, str(Path(__file__).parents[3] / "bench" / "gate"))

from seldom import SELDOM

BY_NAME = {operator.name: operator for operator in SELDOM}
ONES = "torch.randint(0, 9, (24, 40))"


def opened(forward: str, inputs: str, args: str = "x, y") -> Harness:
    return Harness(
        f"import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n    def forward(self, {args}):\n        return {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


# By name: the expression and its inputs, and of which inputs any number will do, or those that the generator gives.
KNOWN = {
    "sums and products": ("(x * y + 3).sum(-1)", f"{ONES}, {ONES}", {0: True, 1: True}),
    "bits": ("(x >> 2) & 15, y ^ 3", f"{ONES}, {ONES}", {0: True, 1: True}),
    "numbers among floats": ("x.float() * 0.5 + y", f"{ONES}, torch.randn(24, 40)", {0: False}),
    "codes": ("x.float() * y", "torch.randint(0, 100, (24, 40), dtype=torch.uint8), torch.rand(40)", {0: True}),
    "chosen numbers": ("torch.where(x > 3, x, y)", f"{ONES}, {ONES}", {0: True, 1: True}),
    "a lookup": ("y[x]", "torch.randint(0, 9, (24,)), torch.randn(9, 4)", {}),
    "a lookup of what was computed": ("y[x + 1]", "torch.randint(0, 8, (24,)), torch.randn(9, 4)", {}),
    "lengths": ("torch.arange(40) < x[:, None]", "torch.randint(1, 40, (24,))", {}),
    "a mask of floats": ("y.masked_fill(x, 0.0)", "torch.rand(24, 40) < 0.5, torch.randn(24, 40)", {}),
    "a mask that is computed": ("y.masked_fill(x == 0, 0.0)", f"{ONES}, torch.randn(24, 40)", {}),
    "a divisor": ("y // x", "torch.randint(1, 9, (24, 40)), torch.randn(24, 40)", {}),
    "a distance that is shifted by": ("1 << x", "torch.randint(0, 9, (24, 40))", {}),
    "labels": ("F.cross_entropy(y, x)", "torch.randint(0, 9, (24,)), torch.randn(24, 9)", {}),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_may_be_any_number(name: str) -> None:
    forward, inputs, expected = KNOWN[name]
    harness = opened(forward, inputs, "x, y" if "y" in forward else "x")
    task = harness.service.task
    assert task is not None and task.integers == expected
    assert ("integers" in harness.region.regimes()[0]) == bool(expected)


def test_drawn_ones_are_at_both_ends_and_equal_now_and_then() -> None:
    harness = opened("x > y", "torch.randint(0, 2**31 - 1, (60, 40), dtype=torch.int32), torch.randint(0, 2**31 - 1, (60, 40), dtype=torch.int32)")
    harness.make(3, "integers")
    x, y = harness.inputs()["x"], harness.inputs()["y"]
    info = torch.iinfo(torch.int32)
    assert bool((x == info.min).all(-1).any()) and bool((x == info.max).all(-1).any())
    assert bool((x == y).any()) and bool(((x - y).abs() == 1).any()) and int((x == y).sum()) < x.numel() // 2
    task = harness.service.task
    assert task is not None
    for value, tensor in task.draw(5, "integers").items():  # of some inputs alone they are the same
        assert torch.equal(tensor, task.draw(5, "integers", only={value})[value])


def test_among_floats_they_stay_between_those_of_the_generator() -> None:
    harness = opened("x.float() * 0.5", "torch.randint(3, 9, (60, 40))", "x")
    harness.make(3, "integers")
    assert harness.inputs()["x"].unique().tolist() == [3, 4, 5, 6, 7, 8]


CASES = [
    ("largest", "infinite"), ("place_of_largest", "infinite"), ("logsumexp_of_parts", "infinite"), ("equal_numbers", "infinite"), ("pooled", "infinite"),
    *[(name, "integers") for name in ("int_product", "int_remainder", "int_order", "byte_sum", "int_places", "any_truth", "byte_products", "byte_scaled")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "regime"), CASES, ids=[name for name, _ in CASES])
def test_honest_ones_pass_and_bad_ones_do_not(name: str, regime: str) -> None:
    operator, rng = BY_NAME[name], random.Random(1)
    harness = Harness(operator.source("float32"))
    assert "skipped" not in harness.make(17, regime)
    for kind, variant in operator.honest.items():
        assert harness.judge(variant(harness.inputs(), rng), "full")["ok"], kind
    for kind, variant in operator.bad.items():
        assert not harness.judge(variant(harness.inputs(), rng), "full")["ok"], kind
