"""Parts of a graph, effects and aliases, ties, and tasks whose reference does not fit."""

import pytest
import torch
from harness import Harness
from planish.errors import PlanishError
from planish.oracle.interpret import Double, Interpreter, Mode

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
TAIL = "\ndef get_init_inputs():\n    return []\n"
DEEP = HEAD + (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(32, 48)\n        self.b = nn.Linear(48, 16)\n"
    "    def forward(self, x):\n        return F.softmax(self.b(F.gelu(self.a(x))), -1)\ndef get_inputs():\n    return [torch.randn(64, 32)]" + TAIL
)


def test_a_region_is_judged_on_its_own_inputs(tmp_path):
    harness = Harness(DEEP, tmp_path)
    graph = harness.graph
    index = next(i for i, n in enumerate(graph["nodes"]) if "gelu" in n["op"])
    node = graph["nodes"][index]
    value = next(a["value"] for a in node["args"] if "value" in a)
    harness.service.region({"region": "r0", "nodes": [index], "inputs": [value], "outputs": [node["outs"][0]]})
    for seed, regime in ((1, "task"), (2, "wide")):
        harness.make(seed, regime, region="r0")
        x = harness.data.inputs[0].view.clone()
        assert x.shape == (64, 48)
        assert harness.judge([torch.nn.functional.gelu(x)])["ok"]
        assert harness.judge([torch.nn.functional.gelu(x * (1 + 1e-5))])["problem"] == "mismatch"
    assert harness.service.mutation_check({"region": "r0"})["degenerate"] == []


def test_intermediate_values_do_not_outlive_their_last_use(tmp_path):
    harness = Harness(DEEP, tmp_path)
    task = harness.service.task
    alive = []

    class Watching(Mode):
        def call(self, node, args, kwargs, dtypes):
            results = super().call(node, args, kwargs, dtypes)
            import weakref

            alive.append([r() is not None for r in seen])
            seen.extend(weakref.ref(r) for r in results if r is not None)
            return results

    seen: list = []
    everything = Interpreter(task.captured, range(len(task.captured.nodes)))
    out = task.graph["outputs"][0]["value"]
    everything.run(task.draw(1, "task"), [out], Watching())
    assert len(alive) >= 4 and not any(alive[-1][:-1])


def test_casts_and_created_tensors_are_promoted(tmp_path):
    source = HEAD + (
        "class Model(nn.Module):\n    def forward(self, x):\n        s = torch.linspace(0, 1, 16, dtype=torch.float32) / 3\n"
        "        return (x.half() * s.half()).float() + torch.full((16,), 0.1) + x.double().to(torch.bfloat16)\n"
        "def get_inputs():\n    return [torch.randn(8, 16)]" + TAIL
    )
    task = Harness(source, tmp_path).service.task
    x = task.draw(1, "task")
    everything = Interpreter(task.captured, range(len(task.captured.nodes)))
    out = task.graph["outputs"][0]["value"]
    exact = everything.run(x, [out], Double())[out]
    tensor = x[task.inputs[-1]].double()
    assert exact.dtype == torch.float64
    right = tensor * (torch.linspace(0, 1, 16, dtype=torch.float64) / 3) + 0.1 + tensor
    assert torch.allclose(exact, right, rtol=1e-13, atol=1e-13)
    assert torch.get_default_dtype() == torch.float32


def test_effects_aliases_and_what_comes_twice_have_outputs(tmp_path):
    source = HEAD + (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('count', torch.zeros(4))\n"
        "    def forward(self, x, y):\n        self.count += x.sum(0)\n        y.mul_(2)\n        return x, x * y, x * y\n"
        "def get_inputs():\n    return [torch.randn(8, 4), torch.randn(8, 4)]" + TAIL
    )
    harness = Harness(source, tmp_path)
    kinds = [o["kind"] for o in harness.graph["outputs"]]
    assert "mutate_buffer" in kinds and "mutate_input" in kinds
    made = harness.make(1)
    named = [b["name"] for b in made["buffers"] if b["role"] == "output"]
    assert named == [f"out{k}" for k in range(len(kinds))] and any(o["value"] in harness.region.inputs for o in harness.graph["outputs"])
    assert harness.judge(harness.eager())["ok"]
    for index in range(len(harness.data.outputs)):
        outputs = harness.eager()
        outputs[index] += 0.5
        assert harness.judge(outputs)["problem"] == "mismatch"


def test_an_output_that_is_an_input_is_it_to_the_bit(tmp_path):
    source = (
        HEAD
        + "class Model(nn.Module):\n    def forward(self, x):\n        h = x * 2\n        return h, x, h\ndef get_inputs():\n    return [torch.randn(8, 64)]"
        + TAIL
    )
    harness = Harness(source, tmp_path)
    harness.make(1)
    h, x, again = harness.eager()
    assert harness.judge([h, x, again])["ok"]
    nearly = x.clone()
    nearly.view(torch.int32)[3, 5] += 1
    for wrong in ([h, nearly, again], [h, torch.zeros_like(x), again], [h, x, torch.randn(8, 64)]):
        assert harness.judge(wrong)["problem"] == "mismatch"
    made = harness.eager()
    harness.data.poison()
    harness.data.outputs[0].view.copy_(made[0])
    harness.data.outputs[1].view.copy_(made[1])
    assert harness.service.check({"data": "d", "stage": "full"})["problem"] == "unwritten"  # the third was never touched


@pytest.mark.parametrize(
    ("forward", "pick"),
    [
        ("return x.max(-1).indices", lambda x: x.shape[-1] - 1 - x.flip(-1).argmax(-1)),
        ("return x.argmin(0)", lambda x: x.shape[0] - 1 - x.flip(0).argmin(0)),
        ("return x.argmax(1, keepdim=True)", lambda x: (x.shape[1] - 1 - x.flip(1).argmax(1)).unsqueeze(1)),
        ("return torch.argmax(x)", lambda x: torch.tensor(x.numel() - 1) - x.flatten().flip(0).argmax()),
        ("return torch.sort(x, -1).indices", lambda x: x.shape[-1] - 1 - torch.sort(x.flip(-1), dim=-1, stable=True).indices),
        ("return torch.sort(x, dim=-1, stable=True)[1]", lambda x: x.shape[-1] - 1 - torch.sort(x.flip(-1), dim=-1, stable=True).indices),
    ],
)
def test_ties_among_inputs_are_broken_as_torch_says(forward, pick, tmp_path):
    """argmax and its kin name the first of equals, a stable sort keeps their order; of other sorts nothing is promised."""
    source = (
        HEAD
        + f"class Model(nn.Module):\n    def forward(self, x):\n        {forward}\ndef get_inputs():\n    return [torch.randint(0, 5, (12, 20)).float()]"
        + TAIL
    )
    harness = Harness(source, tmp_path)
    harness.make(1)
    x = harness.inputs()["x"]
    right = harness.eager()[0]
    other = pick(x)
    assert not torch.equal(other, right)
    result = harness.judge([other])
    assert result["ok"] == ("sort" in forward and "stable" not in forward) and result["reference"] == "exact", result["message"]
    assert harness.judge([right])["ok"]
    opposite = {"argmin": x.argmax(0), "argmax(x)": x.argmin()}.get(next((k for k in ("argmin", "argmax(x)") if k in forward), ""))
    assert harness.judge([right.flip(-1) + 1 - right.flip(-1) if opposite is None else opposite])["problem"] == "mismatch"
    assert harness.judge([right + 10**6])["problem"] == "mismatch"
    if "sort" in forward:
        repeated = right.clone()
        repeated[:, 1] = repeated[:, 0]
        assert harness.judge([repeated])["problem"] == "mismatch"


def test_infinities_are_tied_with_their_equals_alone(tmp_path):
    source = (
        HEAD
        + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.topk(x, 6, -1).indices\ndef get_inputs():\n"
        + "    x = torch.randn(12, 20)\n    x[0, 3] = x[0, 7] = float('inf')\n    x[1, 2] = x[1, 9] = float('nan')\n    x[2, 4] = float('inf')\n    return [x]"
        + TAIL
    )
    harness = Harness(source, tmp_path)
    harness.make(1)
    right = harness.eager()[0]
    swapped = right.clone()
    swapped[:2, [0, 1]] = swapped[:2, [1, 0]]
    assert not torch.equal(swapped, right)
    assert harness.judge([swapped])["ok"]
    for row in (0, 2, 5):  # beside an infinity, finite values are no more alike than without one
        wrong = right.clone()
        wrong[row, [4, 5]] = wrong[row, [5, 4]]
        assert harness.judge([wrong])["problem"] == "mismatch", row
    ahead = right.clone()
    ahead[2, [0, 1]] = ahead[2, [1, 0]]
    assert harness.judge([ahead])["problem"] == "mismatch"


def test_a_reference_that_does_not_fit_is_checked_on_a_slice(tmp_path):
    harness = Harness(DEEP, tmp_path)
    harness.region.memory_limit = 1000
    harness.make(1)
    eager = harness.eager()
    result = harness.judge(eager)
    assert result["ok"] and result["reference"] == "slice", result["message"]
    start, rows = harness.region._slicer.start, harness.region._slicer.rows
    assert 1 <= rows <= 32
    for row in (start, (start + rows) % 64):
        wrong = [eager[0].clone()]
        wrong[0][row] *= 1.001
        assert harness.judge(wrong)["problem"] == "mismatch", row
    half = [eager[0].bfloat16().float()]
    assert harness.judge(half)["problem"] == "mismatch"
    assert harness.service.mutation_check({"region": "task"})["degenerate"] == []


@pytest.mark.parametrize("forward", ["return x.sum(0)", "return (x - x.mean(0)).relu()", "return x.flip(0)"])
def test_no_slice_without_a_batch(forward, tmp_path):
    source = HEAD + f"class Model(nn.Module):\n    def forward(self, x):\n        {forward}\ndef get_inputs():\n    return [torch.randn(16, 20)]" + TAIL
    harness = Harness(source, tmp_path)
    harness.region.memory_limit = 10
    harness.make(1)
    with pytest.raises(PlanishError) as caught:
        harness.service.check({"data": "d", "stage": "screen"})
    assert caught.value.kind == "out_of_memory" and "bytes" in caught.value.message


def test_expectations_are_computed_once_and_replays_only_when_needed(tmp_path):
    harness = Harness(DEEP, tmp_path)
    harness.make(1)
    eager = harness.eager()
    harness.judge(eager)
    first = harness.region.expected(harness.data)
    harness.judge(eager)
    assert harness.region.expected(harness.data) is first and first.draws == 0
    harness.judge([eager[0] * 1.01])
    assert first.draws == 1 and first.replays[0].fro > 2.0**-27  # one is enough for the hopeless
    gate_fro = harness.judge([eager[0] * 1.01])["outputs"][0]["gate_fro"]
    assert not harness.judge([eager[0] * (1 + 2 * gate_fro)], "full")["ok"]
    assert first.draws >= 4
    harness.make(2)
    assert harness.region.expected(harness.data) is not first
