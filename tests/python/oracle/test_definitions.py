"""Where torch's own algorithm is not the definition: integers that are rounded floats, means that meet an infinity, a sixth in single precision."""

import pytest
import torch
from harness import Harness
from torch.utils._python_dispatch import TorchDispatchMode

QUANTIZE = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        scale = x.abs().amax(-1, keepdim=True) / 127\n"
    "        return torch.round(x / scale).to(torch.int8)\n"
    "def get_inputs():\n    return [torch.randn(2048, 2048)]\ndef get_init_inputs():\n    return []\n"
)


def test_another_order_of_roundings_passes(tmp_path):
    harness = Harness(QUANTIZE, tmp_path)
    harness.make(1)
    x = harness.inputs()["x"]
    mine = torch.round((x * 3) * (1 / (x.abs().amax(-1, keepdim=True) * 3)) * 127).to(torch.int8)
    assert int((mine != harness.eager()[0]).sum()) > 0  # else this shows nothing
    result = harness.judge([mine])
    assert result["ok"], result["message"]
    row = result["outputs"][0]
    assert 0 < row["fro"] <= row["gate_fro"] < 1e-3


def test_less_precision_and_larger_steps_fail(tmp_path):
    harness = Harness(QUANTIZE, tmp_path)
    harness.make(1)
    x, eager = harness.inputs()["x"], harness.eager()[0]
    for narrow in (torch.bfloat16, torch.float16):
        coarse = x.to(narrow).to(torch.float32)
        assert harness.judge([torch.round(coarse / (x.abs().amax(-1, keepdim=True) / 127)).to(torch.int8)])["problem"] in ("mismatch", "unwritten")
    far = eager.clone()
    far[3, 5] += 2  # one rounding moves an element by one
    assert harness.judge([far])["problem"] == "mismatch"


def test_where_no_rounding_matters_every_element_counts(tmp_path):
    source = QUANTIZE.replace("torch.round(x / scale)", "torch.sign(torch.round(x * 8))")
    harness = Harness(source, tmp_path)
    harness.make(1)
    wrong = harness.eager()[0]
    wrong[0, 0] = 1 if wrong[0, 0] < 1 else 0
    assert harness.judge([wrong])["problem"] == "mismatch"


def test_the_mean_beside_a_variance_may_keep_an_infinity(tmp_path):
    """torch's running update makes NaN of it, or not, depending on where the infinity stands."""
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.var_mean(x, dim=(0, 2))\n"
        "def get_inputs():\n    return [torch.randn(3, 16, 64)]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path)
    assert "skipped" not in harness.make(1, "special")
    x = harness.inputs()["x"]
    assert bool(torch.isinf(x).any())
    variance, mean = harness.eager()
    assert harness.judge([variance, mean])["ok"]
    assert harness.judge([variance, x.mean(dim=(0, 2))])["ok"]
    lost = torch.where(torch.isfinite(variance), variance, 1.0)
    assert harness.judge([lost, x.mean(dim=(0, 2))])["problem"] == "nan"


def test_running_means_may_keep_an_infinity(tmp_path):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.norm = torch.nn.BatchNorm1d(16)\n"
        "    def forward(self, x):\n        return self.norm(x)\n"
        "def get_inputs():\n    return [torch.randn(64, 16, 32)]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path)
    assert "skipped" not in harness.make(1, "special")
    eager = harness.eager()
    assert harness.judge(eager)["ok"]
    harness.make(2)
    eager = harness.eager()
    assert harness.judge(eager)["ok"]
    moved = next(i for i, out in enumerate(eager) if out.shape == (16,) and out.is_floating_point())
    eager[moved] = eager[moved] + 1e-4
    assert harness.judge(eager)["problem"] == "mismatch"


@pytest.mark.parametrize("norm", ["GroupNorm(4, 16)", "LayerNorm(32)", "InstanceNorm1d(16)"])
def test_the_mean_that_a_norm_keeps_may_keep_an_infinity(norm, tmp_path):
    """As a kernel that stores the statistics alone gives it; its 1/σ is NaN there."""
    source = (
        f"import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.norm = torch.nn.{norm}\n"
        "    def forward(self, x):\n        return self.norm(x).mean(1)\n"
        "def get_inputs():\n    return [torch.randn(64, 16, 32)]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path)
    graph = harness.graph
    index = next(i for i, n in enumerate(graph["nodes"]) if "norm" in n["op"])
    node = graph["nodes"][index]
    inputs = [a["value"] for a in node["args"] if "value" in a]
    harness.service.region({"region": "r0", "nodes": [index], "inputs": inputs, "outputs": node["outs"][1:]})
    assert "skipped" not in harness.make(1, "special", region="r0")
    x = harness.data.inputs[inputs.index(node["args"][0]["value"])].view.clone()
    assert bool(torch.isinf(x).any())
    rows = {"G": x.reshape(64, 4, -1), "L": x, "I": x.reshape(-1, 32)}[norm[0]]
    mean, rstd = rows.mean(-1), (rows.var(-1, correction=0) + 1e-5).rsqrt()
    shape = harness.data.outputs[0].view.shape
    assert harness.judge([mean.reshape(shape), rstd.reshape(shape)])["ok"]
    assert harness.judge([mean.reshape(shape), torch.nan_to_num(rstd).reshape(shape)])["problem"] == "nan"


def test_an_rms_norm_has_its_own_epsilon_and_keeps_finite_what_an_infinity_leaves(tmp_path):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.nn.functional.rms_norm(x, (16,))\n"
        "def get_inputs():\n    return [1e-4 * torch.randn(64, 16)]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path)
    harness.make(1)
    x = harness.inputs()["x"]
    exact = (x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + torch.finfo(torch.float32).eps)).float()
    assert harness.judge([exact])["ok"]
    other = (x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + torch.finfo(torch.float64).eps)).float()
    assert harness.judge([other])["problem"] == "mismatch"

    from planish.oracle import interpret

    bound = {"input": torch.tensor([[1.0, torch.inf, 2.0], [1.0, 1.0, 1.0]], dtype=torch.float64), "normalized_shape": [3], "weight": None, "eps": 0.0}
    result, rstd = interpret._defined_rms_norm(bound)
    assert torch.equal(result[0].isnan(), torch.tensor([False, True, False])) and result[0, 0] == 0 and rstd[0] == 0
    torch.testing.assert_close(result[1], torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(torch.ops.aten._fused_rms_norm(bound["input"][1:], [3], None, 0.0)[0], result[1:])


class SixthInSingle(TorchDispatchMode):
    """On any device what torch's CUDA kernels do: in place of a division by six they multiply by a sixth of single precision, doubles as well."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        sixth = float(torch.tensor(1 / 6, dtype=torch.float32))
        if func is torch.ops.aten.hardswish.default:
            return args[0] * (args[0] + 3).clamp(0, 6) * sixth
        if func is torch.ops.aten.hardsigmoid.default:
            return (args[0] + 3).clamp(0, 6) * sixth
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["hardswish", "hardsigmoid"])
@pytest.mark.parametrize("regime", ["task", "special"])
def test_doubles_are_judged_by_a_division_where_torch_multiplies_by_a_sixth_in_single_precision(name, regime, tmp_path):
    source = (
        f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.tanh(torch.nn.functional.{name}(x))\n"
        "def get_inputs():\n    return [torch.randn(64, 48, dtype=torch.float64)]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path)
    with SixthInSingle():
        assert "skipped" not in harness.make(1, regime)
        eager = harness.eager()
        x = harness.inputs()["x"]
        gate = (x + 3).clamp(0, 6)
        exact = torch.tanh((x * gate if name == "hardswish" else gate) / 6)
        assert float((eager[0] - exact).nan_to_num().abs().max()) > 1e-9  # else this shows nothing
        result = harness.judge([exact])
        assert result["ok"], result["message"]
        assert result["outputs"][0]["fro"] < 1e-15
        assert harness.judge(eager)["ok"]
        assert harness.judge([exact * (1 + 1e-6)])["problem"] == "mismatch"


def test_a_running_sum_of_floats_as_integers_is_exact(tmp_path):
    """How many tokens each expert has, counted in floats and summed as integers."""
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, e):\n        counts = torch.histc(e.float(), bins=4, min=0, max=3)\n"
        "        return x.exp() * 2, torch.cumsum(counts, 0, dtype=torch.int32)\n"
        "def get_inputs():\n    return [torch.randn(64), torch.randint(4, (64,))]\ndef get_init_inputs():\n    return []\n"
    )
    harness = Harness(source, tmp_path)
    harness.make(1)
    result, counts = harness.eager()
    assert harness.judge([result * (1 + 1e-5), counts])["problem"] == "mismatch"  # which asks for the noise of all outputs
    assert harness.judge([result, counts])["ok"]
    assert harness.judge([result, counts + 1])["problem"] == "mismatch"
