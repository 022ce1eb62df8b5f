"""Strides that later views rely on survive promotion, perturbation and the mutants, whatever the fp64 kernels return."""

import pytest
import torch
from harness import Harness
from planish.capture import channels_last
from planish.oracle import interpret, layout
from planish.oracle.interpret import Double, Interpreter
from planish.oracle.mutation_check import _step, _to_bf16

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
TAIL = "\ndef get_init_inputs():\n    return []\n"


def program(init, forward, inputs, args="x"):
    model = f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, {args}):\n        {forward}\n"
    return f"{HEAD}{model}def get_inputs():\n    return [{inputs}]{TAIL}"


ATTENTION = {
    "no weights": program("self.a = nn.MultiheadAttention(16, 2, batch_first=True)", "return self.a(x, x, x, need_weights=False)[0]", "torch.randn(3, 10, 16)"),
    "with weights": program("self.a = nn.MultiheadAttention(16, 2)", "return self.a(x, x, x)", "torch.randn(10, 3, 16)"),
    "padding": program(
        "self.a = nn.MultiheadAttention(16, 2, batch_first=True)",
        "return self.a(x, x, x, key_padding_mask=p, need_weights=False)[0]",
        "torch.randn(3, 10, 16), torch.arange(10)[None].expand(3, -1) >= torch.tensor([[10], [7], [9]])",
        "x, p",
    ),
    "one projection, written by hand": program(
        "self.a, self.o = nn.Linear(16, 48), nn.Linear(16, 16)",
        "q, k, v = (y.view(3, 10, 2, 8).transpose(1, 2) for y in self.a(x).split(16, 2))\n"
        "        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(3, 10, 16))",
        "torch.randn(3, 10, 16)",
    ),
    "encoder layer": program("self.a = nn.TransformerEncoderLayer(16, 2, 32, 0.0)", "return self.a(x)", "torch.randn(10, 3, 16)"),
}


@pytest.mark.parametrize("source", ATTENTION.values(), ids=ATTENTION)
def test_attention_is_judged_in_every_regime(source, tmp_path):
    harness = Harness(source, tmp_path)
    regimes, skipped = harness.region.regimes()
    assert len(regimes) >= 6, skipped
    assert harness.service.mutation_check({"region": "task"})["degenerate"] == []
    for seed, regime in enumerate(regimes):
        harness.make(seed, regime)
        eager = harness.eager()
        assert harness.judge(eager)["ok"]
    harness.make(50, "normal")
    eager = harness.eager()
    assert harness.judge([eager[0] * (1 + 1e-3), *eager[1:]])["problem"] == "mismatch"


def shapes():
    x = torch.arange(24.0).reshape(2, 3, 4)
    return {
        "whole": (x, True), "permuted": (x.permute(2, 0, 1), True), "expanded whole": (x[None].expand(5, 2, 3, 4), True),
        "expanded": (x[:, :1].expand(2, 3, 4), False), "cut": (x[:, :, 1:3], False), "overlapping": (x.reshape(-1).as_strided((4, 3), (1, 1)), False),
        "one": (torch.tensor(3.0), True), "none": (torch.empty(0, 3), True),
    }  # fmt: skip


@pytest.mark.parametrize("name", shapes())
def test_perturbed_values_and_mutants_keep_values_and_strides(name):
    tensor, is_run = shapes()[name]
    run = layout.run_of(tensor)
    assert (run is not None) == is_run
    if run is not None:
        assert sorted(run.tolist()) == sorted(layout.distinct(tensor).reshape(-1).tolist())
    wide = interpret.promote(tensor)
    assert torch.equal(wide, tensor.double())
    own = tensor.double() if run is None else tensor.double().as_strided(tensor.shape, tensor.stride()) if name == "whole" else wide.clone()
    moved = Double(delta=1e-3, generator=torch.Generator().manual_seed(1))._perturbed(own, torch.float32)
    assert moved.shape == tensor.shape
    ratio = (moved / tensor.double()).nan_to_num(1.0)
    assert torch.equal((ratio - 1).abs() > 5e-4, tensor != 0) and float((ratio - 1).abs().max() if ratio.numel() else 0) < 2e-3
    if run is not None and tensor.numel():
        rounded = _step({torch.float32: _to_bf16})(wide, torch.float32)
        assert rounded.stride() == wide.stride() and torch.equal(rounded, tensor.bfloat16().double())


def test_an_expanded_input_stays_expanded():
    wide = interpret.promote(torch.arange(3.0).expand(1000, 3))
    assert wide.stride() == (0, 1) and wide.untyped_storage().nbytes() == 24


def node_of(harness, name):
    return next(n for n in harness.service.task.captured.nodes if interpret.op_name(n) == name)


def test_a_view_of_other_strides_than_declared_has_the_same_elements(tmp_path):
    harness = Harness(program("pass", "return (x.sin().view(4, 2, 3).transpose(0, 1) * 2).cos()", "torch.randn(8, 3)"), tmp_path)
    node = node_of(harness, "view")
    value = torch.randn(3, 8).t()
    assert torch.equal(interpret._call(node, (value, [4, 6]), {}), value.reshape(4, 6))
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        interpret._call(node, (value, [5, 6]), {})


def test_as_strided_reads_the_layout_that_the_graph_declares(tmp_path):
    harness = Harness(program("pass", "return (x * 2).as_strided((6,), (2,)).exp()", "torch.randn(4, 3).t()"), tmp_path)
    node = node_of(harness, "as_strided")
    value = torch.randn(3, 4)
    laid = interpret._call(node, (value, *node.args[1:]), {})
    assert torch.equal(laid, value.t().reshape(-1)[::2])
    task = harness.service.task
    out = task.graph["outputs"][0]["value"]
    drawn = task.draw(1, "task")
    exact = Interpreter(task.captured, range(len(task.captured.nodes))).run(drawn, [out], Double())[out]
    x = next(iter(drawn.values())).double()
    assert torch.allclose(exact, (x * 2).t().reshape(-1)[::2].exp())
    assert harness.service.mutation_check({"region": "task"})["degenerate"] == []


def test_a_result_of_other_dims_takes_those_of_the_graph(tmp_path):
    task = Harness(program("pass", "return x.sin().permute(2, 0, 1).cos()", "torch.randn(2, 3, 4)"), tmp_path).service.task

    class Flattening(Double):
        """A kernel that gives the same elements with a dim less."""

        def call(self, node, args, kwargs, dtypes):
            results = super().call(node, args, kwargs, dtypes)
            return [r.flatten(0, 1) for r in results] if interpret.op_name(node) == "sin" else results

    everything = Interpreter(task.captured, range(len(task.captured.nodes)))
    out = task.graph["outputs"][0]["value"]
    drawn = task.draw(1, "task")
    assert torch.equal(everything.run(drawn, [out], Flattening())[out], everything.run(drawn, [out], Double())[out])


def test_copies_into_elements_that_overlap():
    memory = torch.randn(20)
    source = memory.as_strided((4, 6), (3, 1))
    found = torch.empty(20).as_strided((4, 6), (3, 1))
    layout.copy_into(found, source)
    assert torch.equal(found, source)
    expanded = torch.empty(20).as_strided((2, 4, 6), (0, 3, 1))
    layout.copy_into(expanded, source.expand(2, 4, 6))
    assert torch.equal(expanded[1], source)
    plain = torch.empty(4, 6).t()
    layout.copy_into(plain, source.t())
    assert torch.equal(plain, source.t())


def test_dims_of_size_one_get_the_declared_strides_without_a_copy():
    image = torch.randn(16, 32).as_strided((1, 32, 4, 4), (32, 1, 128, 32))
    laid = layout.as_strides(image, (512, 1, 128, 32))
    assert laid.stride() == (512, 1, 128, 32) and laid.data_ptr() == image.data_ptr() and torch.equal(laid, image)
    assert laid.is_contiguous(memory_format=torch.channels_last)


NORMED = program(
    "self.a, self.n, self.b = nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(4, 64), nn.Conv2d(64, 64, 3, padding=1)",
    "for _ in range(3):\n            x = self.b(F.silu(self.n(self.a(torch.relu(x))).float()).to(x.dtype).clone()) + x\n        return x",
    "torch.randn(2, 64, 6, 6, dtype=torch.bfloat16)",
).replace("    def forward", "        self.bfloat16()\n    def forward", 1)


def test_norms_of_groups_with_channels_last_are_judged(tmp_path, monkeypatch):
    """As on a GPU, where convolutions have their images so."""
    monkeypatch.setattr(channels_last, "DEVICES", ("cuda", "cpu"))
    harness = Harness(NORMED, tmp_path)
    harness.make(3, "normal")
    eager = harness.eager()
    assert harness.judge(eager)["ok"]
    assert harness.judge([eager[0] * (1 + 1e-1), *eager[1:]])["problem"] == "mismatch"
