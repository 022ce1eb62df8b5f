"""Kinds of wrong outputs that pass where the whole is measured alone, each with honest ones: bench/gate/run.py has many more."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch
from harness import Harness
from planish.errors import PlanishError
from planish.oracle import regimes
from planish.oracle.erring import spacing
from planish.oracle.statistics import Pool, Small, View

sys.path.insert(0, str(Path(__file__).parents[3] / "bench" / "gate"))

from rewrites import OPERATORS, bits

BY_NAME = {operator.name: operator for operator in OPERATORS}
CASES = [
    ("linear", "bfloat16", "task", ["rounded to 5 bits", "1.2 % too large", "1 % noise", "int8 groups of 64", "one bit less", "a quarter unit too large"]),
    ("linear", "float16", "task", ["fp16 rounded to bf16", "truncating store"]),
    ("softmax", "float32", "normal", ["last term missing", "smallest channel tripled", "an index of the first dim low"]),
    ("softmax", "float32", "rows", ["nothing taken off below 80", "largest of all but the last"]),
    ("softmax", "bfloat16", "sparse", ["0.2 % too large", "exponentials in 6 bits"]),
    ("masked_logits", "bfloat16", "task", ["three times too large", "1 % too large", "filled with -1e4"]),
    ("variance", "float32", "rows", ["biased", "one pass"]),
    ("argmax_scores", "bfloat16", "task", ["within twelve units", "scores in 5 bits"]),
    ("argmax_input", "float16", "rows", ["last of equals"]),
    ("returned_input", "float32", "special", ["zeros", "one unit off"]),
    ("repeated_output", "bfloat16", "task", ["the second is noise"]),
    ("quantised_rows", "float32", "task", ["truncated", "every tenth one step off"]),
    ("cross_entropy", "float32", "labels", ["ignored ones counted", "the neighbour's label"]),
]


@pytest.mark.parametrize(("name", "dtype", "regime", "bad"), CASES, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in CASES])
def test_honest_ones_pass_and_bad_ones_do_not(name, dtype, regime, bad):
    operator = BY_NAME[name]
    harness = Harness(operator.source(dtype))
    rng = random.Random(5)
    assert "skipped" not in harness.make(11, regime)
    variants = {label: (sort, variant) for label, sort, variant in operator.variants(dtype)}
    for label, (sort, variant) in variants.items():
        if sort == "honest" or label in bad:
            result = harness.judge(variant(harness.inputs(), rng), "full")
            assert result["ok"] == (sort == "honest"), (label, result["message"])
    assert set(bad) <= set(variants)


def test_small_channels_do_not_hide():
    """Scaled by 1e-7 and tripled: nothing of the whole's norm."""
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, s):\n        return x * s\n"
        "def get_inputs():\n    s = torch.rand(32)\n    s[7] *= 1e-7\n    return [torch.randn(64, 32), s]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source)
    harness.make(1)
    (right,) = harness.eager()
    wrong = right.clone()
    wrong[:, 7] *= 3
    assert harness.judge([right])["ok"] and harness.judge([wrong])["problem"] == "mismatch"


def test_algebra_that_spreads_nan_is_told_apart():
    for name in ("linear", "conv", "cdist"):
        operator = BY_NAME[name]
        harness = Harness(operator.source("float32"))
        harness.make(2000, "special")
        spread = operator.algebra["direct" if name == "cdist" else "three TF32 products" if name == "linear" else "Winograd F(2, 3)"]
        result = harness.judge(spread(harness.inputs(), random.Random(1)), "full")
        assert result["problem"] == "finite_only" and result["outputs"][0]["ratio"] <= 1, result["message"]
    harness = Harness(BY_NAME["linear"].source("float32"))
    harness.make(2000, "special")
    (wrong,) = harness.eager()
    wrong[torch.isfinite(harness.inputs()["x"]).all(1).nonzero()[0]] = torch.nan  # beside nothing that is not finite
    assert harness.judge([wrong], "full")["problem"] == "nan"


def test_a_loss_without_labels_is_not_a_number():
    harness = Harness(BY_NAME["mean_cross_entropy"].source("float32"))
    assert "no_labels" in harness.region.regimes()[0], "every proof has such a data set"
    harness.make(1, "no_labels")
    assert bool((harness.inputs()["y"] == -100).all())
    assert bool(harness.eager()[0].isnan()) and harness.judge(harness.eager())["ok"]
    assert harness.judge([torch.zeros(())])["problem"] == "nan"


def test_rows_of_all_kinds():
    profile = regimes.profile(torch.randn(64, 32))
    drawn = regimes.draw_input(torch.empty(64, 32), profile, "rows", torch.Generator().manual_seed(3), False, False)
    assert bool((drawn == 0).all(1).any()) and bool((drawn == drawn[:, :1]).all(1).any())
    negative = (drawn == 0) & torch.signbit(drawn)
    assert bool(negative.any()) and float(drawn.abs().max()) > 500
    assert bool((drawn < -100).all(1).any()) and bool(((drawn[:, -1] > 100) & (drawn[:, :-1] < 10).all(1)).any())
    large = regimes.draw_input(torch.empty(64, 32), profile, "large", torch.Generator().manual_seed(3), False, False)
    assert bool(torch.isfinite(large).all()) and not bool(torch.isfinite(large.square()).all())


def test_inputs_have_equal_numbers():
    harness = Harness(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, y, z):\n        return torch.where(x > y, x * 2, y) + z.sum()\n"
        "def get_inputs():\n    return [torch.randn(24, 40), torch.randn(24, 40), torch.randn(7)]\ndef get_init_inputs():\n    return []\n"
    )
    harness.make(1, "rows")
    x, y, z = (harness.inputs()[name] for name in "xyz")
    equal = (x == y) & (x != 0)
    assert bool(equal.all(-1).any()) and not bool(equal.all())
    assert harness.judge([torch.where(x > y, x * 2, y) + z.sum()])["ok"]
    assert not harness.judge([torch.where(x >= y, x * 2, y) + z.sum()])["ok"], "nothing else tells > from >="
    task = harness.service.task
    assert task is not None
    for value, tensor in task.draw(5, "rows").items():  # of some inputs alone they are the same
        assert torch.equal(tensor, task.draw(5, "rows", only={value})[value])


def test_segments_may_be_empty():
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, i):\n        return torch.zeros(8, 4, device=x.device).index_add(0, i, x)\n"
        "def get_inputs():\n    return [torch.randn(40, 4), torch.randint(0, 8, (40,))]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source)
    found = harness.region.regimes()[0]
    assert "labels" in found and "no_labels" not in found
    harness.make(1, "labels")
    assert harness.inputs()["i"].unique().numel() == 1
    plain = Harness(BY_NAME["softmax"].source("float32"))
    found, skipped = plain.region.regimes()
    assert "labels" not in found and "labels" not in skipped
    with pytest.raises(PlanishError, match="labels"):
        plain.region.create(1, "labels")


def test_spacing():
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        info = torch.finfo(dtype)
        values = torch.tensor([1.0, 1.5, -3.0, 0.0, info.smallest_normal, info.smallest_normal / 2, float("inf")], dtype=torch.float64)
        least = info.smallest_normal * info.eps
        assert spacing(values, dtype).tolist() == [info.eps, info.eps, 2 * info.eps, least, least, least, 0.0]
    assert bits(3)(torch.tensor(1.1)).item() == 1.0


def test_of_a_large_output_random_rows_are_looked_at():
    for shape in ((3000, 400), (7, 1 << 18), (1 << 20,), (2, 600, 700)):
        flat = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
        view = View(shape, flat.device, 5)
        some = view.take(flat)
        assert some.numel() == torch.Size(view.shape).numel() <= 1 << 19 and some.unique().numel() == some.numel()
        rows = some.view(view.shape[0], -1)
        assert bool((rows.diff(dim=1) == 1).all())
        assert not torch.equal(some, View(shape, flat.device, 6).take(flat))
    small = View((5, 7), torch.device("cpu"), 1)
    assert small.shape == (5, 7) and small.take(torch.arange(35)).numel() == 35


def test_subnormal_numbers_may_be_zeros():
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.exp(x)\n"
        "def get_inputs():\n    return [torch.randn(64, 64) * 30]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source)
    harness.make(1)
    (right,) = harness.eager()
    flushed = torch.where(right < torch.finfo(torch.float32).tiny, 0.0, right)
    assert not torch.equal(flushed, right) and harness.judge([flushed])["ok"]
    assert not harness.judge([torch.where(right < 1e-30, 0.0, right)])["ok"]


@pytest.mark.parametrize(("dtype", "factor", "first"), [("bfloat16", 1.001, 300), ("float16", 1.00015, 100)])
def test_one_number_that_leans_is_told_from_rounding_over_all_data_sets(dtype, factor, first):
    """On each data set it is what is right, or a neighbour hardly further off, and passes. Honest ones pass, whose last places go both ways."""
    operator = BY_NAME["mean_square"]
    harness, rng = Harness(operator.source(dtype)), random.Random(3)
    honest = {label: variant for label, sort, variant in operator.variants(dtype) if sort == "honest"}
    pools = {label: {} for label in ("leaning", *honest)}
    messages = []
    for seed in range(first, first + 12):
        harness.make(seed)
        inputs = harness.inputs()
        leaning = [(operator.exact(inputs, rng)[0] * factor).to(inputs["x"].dtype)]
        for label, pool in pools.items():
            harness.data.pools = pool
            result = harness.judge(leaning if label == "leaning" else honest[label](inputs, rng), "full")
            assert result["ok"] or label == "leaning", (label, result["message"])
            messages += [] if result["ok"] else [result["message"]]
    assert messages and all("data sets of this proof" in message and "pooled bias" in message for message in messages), messages


def test_a_pool_asks_for_the_data_sets_of_a_proof_and_no_more():
    pool = Pool()

    def small(error, eager=0.5):
        return Small(*(torch.tensor(v, dtype=torch.float64) for v in ([error], [[eager], [0.5]], [0.0])))

    for k in range(7):
        pool.add((k, "task"), small(3.0))
        assert pool.judge(torch.float32) == (0.0, "")  # too few to say anything
    pool.add((7, "task"), small(3.0))
    assert pool.judge(torch.float32) == (1.5, "pooled") and pool.judge(torch.bfloat16)[0] > 1.5
    pool.add((7, "task"), small(0.5, eager=9.0))  # eager itself is lost there
    assert len(pool) == 7
    for k in range(20):
        if pool.takes((k, "normal")):
            pool.add((k, "normal"), small(0.5))
    assert len(pool) == 16 and pool.takes((0, "task"))
