"""The gate lets honest code through and catches mutants, on a few draws; bench/gate does it in bulk."""

import random

import pytest
import torch
from harness import Harness
from planish.oracle import flags, gate
from planish.oracle.gate import Accuracy
from variants import CASES, CORRUPTIONS, corrupt


@pytest.fixture(scope="module", params=CASES, ids=lambda c: c.name)
def opened(request, tmp_path_factory):
    return request.param, Harness(request.param.source, tmp_path_factory.mktemp(request.param.name))


def test_honest_variants_pass(opened):
    case, harness = opened
    rng = random.Random(1)
    for seed, regime in [(1, "task"), (2, "task"), (3, "normal"), (4, "offset"), (5, "sparse"), (6, "special")]:
        if "skipped" in harness.make(seed, regime):
            continue
        for name, variant in case.honest.items():
            result = harness.judge(variant(harness.inputs(), rng), "full")
            assert result["ok"], (name, regime, result["message"])
            assert result["reference"] == "fp64"


def test_eager_passes_and_nothing_written_does_not(opened):
    _, harness = opened
    harness.make(11)
    result = harness.service.check({"data": "d", "stage": "full"})
    assert result["problem"] == "unwritten"
    assert harness.judge(harness.eager())["ok"]


def test_mutants_fail(opened):
    case, harness = opened
    rng = random.Random(2)
    for seed in (21, 22):
        harness.make(seed)
        inputs = harness.inputs()
        honest = next(iter(case.honest.values()))(inputs, rng)
        for name, mutant in case.mutants.items():
            result = harness.judge(mutant(inputs, rng))
            assert result["problem"] in ("mismatch", "nan"), name
        if case.name != "argmax":
            for how in CORRUPTIONS:
                assert not harness.judge(corrupt(honest, how, rng))["ok"], how


def test_stale_output_fails(opened):
    case, harness = opened
    harness.make(31)
    before = harness.eager()
    harness.make(32)
    assert harness.judge(before)["problem"] == "mismatch", case.name


def test_trivial_outputs_fail(opened):
    case, harness = opened
    result = harness.service.mutation_check({"region": "task"})
    assert result["tried"]
    # A reference that is itself one of few integers is all that a constant or a coarse precision can hit.
    assert result["degenerate"] == [] or case.name == "argmax", result


def test_one_wrong_element_in_a_million(tmp_path):
    harness = Harness(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.sigmoid(x) * 2 + x\n"
        "def get_inputs():\n    return [torch.randn(1000, 1000)]\ndef get_init_inputs():\n    return []\n",
        tmp_path,
    )
    harness.make(1)
    outputs = harness.eager()
    outputs[0][417, 902] += 1e-4
    result = harness.judge(outputs)
    assert result["problem"] == "mismatch"
    assert result["outputs"][0]["worst"]["index"] == [417, 902]
    worst = result["outputs"][0]["worst"]
    assert worst["actual"] - worst["expected"] == pytest.approx(1e-4, rel=1e-2)


def test_a_zero_gradient_of_work_is_degenerate(tmp_path):
    harness = Harness(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x) * 0.0\n"
        "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n",
        tmp_path,
    )
    assert "zeros" in harness.service.mutation_check({"region": "task"})["degenerate"]


def test_one_number_that_depends_on_the_data_is_not_degenerate(tmp_path):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, y):\n        return RESULT\n"
        "def get_inputs():\n    return [torch.randn(64, 64), torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n"
    )
    for result, found in (("(x - y).square().mean()", []), ("torch.relu(x.sum() * 0 - 1)", ["zeros", "constant"])):
        harness = Harness(source.replace("RESULT", result), tmp_path)
        degenerate = harness.service.mutation_check({"region": "task"})["degenerate"]
        assert [name for name in degenerate if name in ("zeros", "constant")] == found


def test_an_identity_is_degenerate(tmp_path):
    harness = Harness(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 1.0\n"
        "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n",
        tmp_path,
    )
    assert harness.service.mutation_check({"region": "task"})["degenerate"] == ["input x"]


def test_tolerance_is_allclose(tmp_path):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.exp()\n"
        "def get_inputs():\n    return [torch.randn(100, 100)]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path, accuracy=1e-3)
    harness.make(1)
    eager = harness.eager()[0]
    for shift, fine in ((0.9e-3, True), (1.2e-3, False)):
        moved = eager + shift * (1 + eager.abs())
        assert torch.allclose(moved, eager, rtol=1e-3, atol=1e-3) == fine
        result = harness.judge([moved])
        assert result["ok"] == fine and result["outputs"][0]["gate_max"] == 1e-3


def test_tf32_accuracy_admits_tf32_products_only(tmp_path):
    from variants import bf16, tf32

    case = next(c for c in CASES if c.name == "linear")
    harness = Harness(case.source, tmp_path, accuracy="tf32")
    harness.make(1)
    i = harness.inputs()
    assert harness.judge(case.mutants["tf32 products"](i, random.Random(0)))["ok"]
    assert not harness.judge([torch.relu(bf16(i["x"]) @ bf16(i["fc.weight"]).t() + i["fc.bias"])])["ok"]
    assert tf32(torch.tensor([1.0 + 2.0**-11]))[0] == 1.0 + 2.0**-10  # halves away from zero


def test_tf32_counts_where_eager_used_it_unless_asked_for():
    """torch's flags permit it in convolutions; what eager did is in its errors (decision 0063)."""
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert not flags.tf32_operations(gpu, Accuracy("eager"))
    permitted = flags.tf32_operations(gpu, Accuracy("permitted"))
    assert "conv2d" in permitted and "mm" not in permitted
    assert not flags.tf32_operations(cpu, Accuracy("permitted"))
    assert {"conv2d", "mm"} <= flags.tf32_operations(cpu, Accuracy("tf32"))


@pytest.mark.parametrize(
    ("dtype", "fro", "largest"),
    [(torch.float32, 0.3 * 2.0**-23, 2.0**-24), (torch.bfloat16, 0.3 * 2.0**-7, 2.0**-8), (torch.float16, 0.3 * 2.0**-10, 2.0**-11)],
)
def test_floor_is_what_correct_rounding_costs(dtype, fro, largest):
    values = torch.randn(1 << 16, dtype=torch.float64)
    apart = values.to(dtype).double() - values
    assert 0.7 * fro < float(apart.norm() / values.norm()) < fro
    assert float((apart.abs() / values.abs()).max()) <= largest
    assert gate.floor(dtype) == gate.Pair(fro, largest)
    limit = gate.limit(gate.ZERO, dtype)
    assert limit == gate.Pair(2 * fro, 2 * largest)
