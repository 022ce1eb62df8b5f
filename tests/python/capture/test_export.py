"""What capture writes, on models with nested inputs, effects, aliases, constants and whole operators."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._decomp.decompositions as decompositions
from planish.capture import Captured, capture
from planish.capture.live import load_live, write_live
from planish.errors import PlanishError
from planish.oracle.interpret import Interpreter, Mode, peak_bytes
from torch import nn


def captured(model: nn.Module, *args: Any, tmp_path: Path, **kwargs: Any) -> Captured:
    result = capture(model, args, kwargs, tmp_path / "blobs")
    json.dumps(result.graph, allow_nan=False)
    return result


def ops(result: Captured) -> list[str]:
    return [node["op"] for node in result.graph["nodes"]]


class Effects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.register_buffer("gain", torch.full((3, 1, 1), 2.0), persistent=False)

    def forward(self, x: torch.Tensor, y: Any = None, *, factor: float = 2.0) -> dict[str, Any]:
        x.add_(1)
        return {"out": self.norm(x) * factor * torch.tensor(3.0), "same": x, "rest": [self.gain, None, 4]}


def test_effects_aliases_and_nesting(tmp_path: Path) -> None:
    model = Effects()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(2, 3, 4, 4)
    kept = x.clone()
    result = captured(model, x, factor=3.0, tmp_path=tmp_path)
    graph = result.graph
    assert torch.equal(x, kept)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    kinds = [output["kind"] for output in graph["outputs"]]
    assert kinds[:5] == ["user", "user", "user", "scalar", "scalar"]
    assert {(o["kind"], o["target"]) for o in graph["outputs"][5:]} == {
        ("mutate_buffer", "norm.running_mean"),
        ("mutate_buffer", "norm.running_var"),
        ("mutate_buffer", "norm.num_batches_tracked"),
        ("mutate_input", 0),
    }
    assert graph["scalars"] == [{"index": 1, "arg": {"float": (3.0).hex()}}]
    gain = next(i["value"] for i in graph["inputs"] if i["name"] == "gain")
    assert graph["outputs"][2]["value"] == gain


def test_an_instance_norm_with_running_statistics_keeps_its_effects(tmp_path: Path) -> None:
    norm = torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
    graph = captured(norm, torch.randn(2, 3, 4, 4), tmp_path=tmp_path).graph
    assert {o["target"] for o in graph["outputs"] if o["kind"] == "mutate_buffer"} == {"running_mean", "running_var"}
    graph = captured(norm.eval(), torch.randn(2, 3, 4, 4), tmp_path=tmp_path).graph
    assert [o["kind"] for o in graph["outputs"]] == ["user"]


@pytest.mark.parametrize(
    ("norm", "shape", "op", "statistics"),
    [
        (nn.GroupNorm(2, 4), (3, 4, 5, 6), "native_group_norm.default", [[3, 2], [3, 2]]),
        (nn.LayerNorm([5, 6]), (3, 4, 5, 6), "native_layer_norm.default", [[3, 4, 1, 1], [3, 4, 1, 1]]),
        (nn.RMSNorm(6), (3, 4, 5, 6), "_fused_rms_norm.default", [[3, 4, 5, 1]]),
        (nn.InstanceNorm2d(4, affine=True), (3, 4, 5, 6), "_native_batch_norm_legit.no_stats", [[12], [12]]),
    ],
    ids=["group", "layer", "rms", "instance"],
)
def test_the_statistics_of_norms_are_values(norm: nn.Module, shape: tuple[int, ...], op: str, statistics: list[list[int]], tmp_path: Path) -> None:
    graph = captured(norm, torch.randn(shape), tmp_path=tmp_path).graph
    [node] = [node for node in graph["nodes"] if "norm" in node["op"]]
    assert node["op"] == f"aten.{op}"
    assert [graph["values"][out]["shape"] for out in node["outs"][1:]] == statistics
    assert {graph["values"][out]["dtype"] for out in node["outs"]} == {"f32"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.GroupNorm(2, 4), (3, 4, 5, 6)),
        (nn.LayerNorm([5, 6]), (3, 4, 5, 6)),
        (nn.InstanceNorm2d(4, affine=True), (3, 4, 5, 6)),
        (nn.BatchNorm2d(4), (3, 4, 5, 6)),
    ],
    ids=["group", "layer", "instance", "batch"],
)
def test_narrow_statistics_are_there_in_fp32_too(norm: nn.Module, shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    result = captured(norm.to(dtype), torch.randn(shape).to(dtype), tmp_path=tmp_path)
    graph, values = result.graph, result.graph["values"]
    own, wide = [i for i, node in enumerate(graph["nodes"]) if "norm" in node["op"]]
    node, twin = graph["nodes"][own], graph["nodes"][wide]
    assert node["op"].split(".")[1].startswith(twin["op"].split(".")[1])
    assert [values[o]["dtype"] for o in node["outs"][1:3]] == ["bf16" if dtype is torch.bfloat16 else "f16"] * 2
    assert [values[o]["dtype"] for o in twin["outs"]] == ["f32"] * 3
    assert [values[o]["shape"] for o in twin["outs"]] == [values[o]["shape"] for o in node["outs"][:3]]
    data = {arg["name"]: arg for arg in node["args"]}["input"]["value"]
    x = torch.randn(values[data]["shape"]).to(dtype) * 2 + 1
    module = result.program.module()  # the module that torch.export gives computes what it did
    given = torch.randn(shape).to(dtype)
    with torch.no_grad():
        assert torch.equal(module(given), norm(given))
    run = Interpreter(result, range(wide - 1, wide + 1)).run({data: x}, twin["outs"][1:], Mode())
    dims = {"native_group_norm": None, "native_layer_norm": (2, 3)}.get(twin["op"].split(".")[1], (0, *range(2, x.ndim)))
    rows = x.float().reshape(3, 2, -1) if dims is None else x.float()
    mean = rows.mean(-1 if dims is None else dims)
    var = rows.var(-1 if dims is None else dims, correction=0)
    torch.testing.assert_close(run[twin["outs"][1]].flatten(), mean.flatten())
    torch.testing.assert_close(run[twin["outs"][2]].flatten(), (var + 1e-5).rsqrt().flatten())


def test_statistics_in_fp32_and_norms_that_make_none_stand_alone(tmp_path: Path) -> None:
    half, whole = torch.randn(3, 4, 5, 6).bfloat16(), torch.randn(3, 4, 5, 6)
    for norm, x in ((nn.RMSNorm(6).bfloat16(), half), (nn.BatchNorm2d(4).bfloat16().eval(), half), (nn.GroupNorm(2, 4), whole)):
        assert sum("norm" in op for op in ops(captured(norm, x, tmp_path=tmp_path))) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_a_softmax_folds_has_values(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    class Soft(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return getattr(nn.functional, name)(x, 1)

    x = torch.randn(3, 4, 5).to(dtype)
    result = captured(Soft(), x, tmp_path=tmp_path)
    found = ops(result)
    assert found == [f"aten._{name}.default", "aten.amax.default", "aten.sub.Tensor", "aten.exp.default", "aten.sum.dim_IntList"]
    most, total = (result.graph["nodes"][i]["outs"][0] for i in (-4, -1))
    run = Interpreter(result, range(len(found))).run({result.graph["inputs"][0]["value"]: x}, [most, total], Mode())
    assert torch.equal(run[most], x.amax(1, keepdim=True))
    torch.testing.assert_close(run[total], (x - run[most]).exp().sum(1, keepdim=True))


@pytest.mark.parametrize(("shape", "dtype"), [((), torch.float32), ((0, 3), torch.float32), ((3, 0), torch.float32), ((3, 4), torch.bfloat16)])
def test_a_softmax_of_no_rows_or_of_16_bits_stands_alone(shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    class Soft(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.softmax(-1)

    assert ops(captured(Soft(), torch.randn(shape).to(dtype), tmp_path=tmp_path)) == ["aten._softmax.default"]


def test_what_nothing_needs_is_not_run(tmp_path: Path) -> None:
    norm = nn.GroupNorm(2, 4).bfloat16()
    result = captured(norm, torch.randn(3, 4, 5, 6).bfloat16(), tmp_path=tmp_path)

    class Recording(Mode):
        def call(self, node: Any, *rest: Any) -> Any:
            seen.append(str(node.target))
            return super().call(node, *rest)

    seen: list[str] = []
    everything = Interpreter(result, range(len(result.nodes)))
    inputs = [i["value"] for i in result.graph["inputs"]]
    flat = dict(zip(inputs, result.flat_inputs((torch.randn(3, 4, 5, 6).bfloat16(),), {}), strict=True))
    wanted = [result.graph["outputs"][0]["value"]]
    everything.run(flat, wanted, Recording())
    assert seen == ["aten.native_group_norm.default"]
    alone = [i for i, node in enumerate(result.graph["nodes"]) if node["outs"][0] == wanted[0]]
    assert peak_bytes(result, range(len(result.nodes)), inputs, wanted) == peak_bytes(result, alone, inputs, wanted)


def test_a_batch_norm_that_averages_over_all_batches_is_captured(tmp_path: Path) -> None:
    norm = torch.nn.BatchNorm2d(3, momentum=None)
    norm(torch.randn(2, 3, 4, 4))
    x = torch.randn(2, 3, 4, 4)
    result = captured(norm, x, tmp_path=tmp_path)
    assert "forward" not in vars(norm)
    effects = [o["target"] for o in result.graph["outputs"] if o["kind"] == "mutate_buffer"]
    assert set(effects) == {"running_mean", "running_var", "num_batches_tracked"}
    module = result.program.module()
    with torch.no_grad():
        torch.testing.assert_close(module(x), norm(x))
    moved = dict(module.named_buffers())
    for name, value in norm.named_buffers():
        torch.testing.assert_close(moved[name], value)


def test_constants_are_stored_by_content(tmp_path: Path) -> None:
    result = captured(Effects(), torch.randn(2, 3, 4, 4), tmp_path=tmp_path)
    constants = [item for item in result.graph["inputs"] if item["kind"] == "const"]
    assert len(constants) == 1
    raw = (tmp_path / "blobs" / constants[0]["blob"]).read_bytes()
    assert hashlib.sha256(raw).hexdigest() == constants[0]["blob"]
    assert torch.frombuffer(bytearray(raw), dtype=torch.float32).item() == 3.0


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 8, num_layers=2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, _ = self.gru(self.norm(x))
        x = nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.roll(nn.functional.gelu(self.proj(x)), 1, 0) + torch.logsumexp(x, -1, keepdim=True)


def test_kept_operators_stay_whole(tmp_path: Path) -> None:
    found = ops(captured(Whole(), torch.randn(2, 5, 8), tmp_path=tmp_path))
    whole = ("gru.input", "native_layer_norm.default", "linear.default", "scaled_dot_product_attention.default", "gelu.default", "logsumexp.default")
    assert {f"aten.{op}" for op in (*whole, "roll.default")} <= set(found)
    assert len(found) < 15


def test_every_schema_argument_is_listed(tmp_path: Path) -> None:
    graph = captured(Whole(), torch.randn(2, 5, 8), tmp_path=tmp_path).graph
    norm = next(node for node in graph["nodes"] if node["op"] == "aten.native_layer_norm.default")
    assert [arg["name"] for arg in norm["args"]] == ["input", "normalized_shape", "weight", "bias", "eps"]
    assert norm["args"][4] == {"name": "eps", "float": (1e-5).hex()}


def test_flat_inputs_are_live(tmp_path: Path) -> None:
    model = Whole()
    x = torch.randn(2, 5, 8)
    result = captured(model, x, tmp_path=tmp_path)
    tensors = result.flat_inputs((x,), {})
    by_name = {item["name"]: tensor for item, tensor in zip(result.graph["inputs"], tensors, strict=True)}
    with torch.no_grad():
        model.proj.weight.zero_()
    assert torch.count_nonzero(by_name["proj.weight"]) == 0
    assert by_name["x"] is x


def test_a_live_module_becomes_a_task(tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.where(mask, x, 0.0)

    x, mask = torch.randn(4, 6), torch.rand(4, 6) > 0.5
    write_live(tmp_path / "live", "local", Local(), (x, mask), {})
    task = load_live(tmp_path / "live")
    (fresh, fresh_mask), _ = task.make_inputs(3, "cpu")
    assert fresh.shape == x.shape and fresh_mask.dtype == torch.bool
    assert set(fresh.flatten().tolist()) <= set(x.flatten().tolist())
    assert torch.equal(task.model(x, mask), torch.where(mask, x, 0.0))


class Written(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.select_scatter(x, x.select(0, 1) * 2, 0, -1)  # a boolean times a number is an integer


def test_what_is_written_into_keeps_its_dtype(tmp_path: Path) -> None:
    graph = captured(Written(), torch.tensor([True, False, False]), tmp_path=tmp_path).graph
    assert graph["values"][graph["outputs"][0]["value"]]["dtype"] == "bool"


class Lerp(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.lerp(x, y, -0.75)


def test_copies_that_torch_makes_for_layouts_are_core_operators(tmp_path: Path) -> None:
    for x, y in ((torch.tensor(0.5), torch.rand(1, 1)), (torch.rand(3, 4), torch.rand(4, 3).t()), (torch.rand(4, 3).t(), torch.rand(4, 3).t())):
        found = captured(Lerp(), x, y, tmp_path=tmp_path)
        assert all(node["op"].startswith("aten.") for node in found.graph["nodes"])
        out = found.program.module()(x, y)
        torch.testing.assert_close(out, torch.lerp(x, y, -0.75))
        assert out.stride() == torch.lerp(x, y, -0.75).stride()


class Changes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = torch.zeros(3)  # no buffer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return x * 2


def test_a_plain_attribute_that_forward_changes_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        captured(Changes(), torch.ones(3), tmp_path=tmp_path)
    assert caught.value.kind == "not_exportable" and "count" in caught.value.message and "register_buffer" in caught.value.hint


class Placed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = Placed.forward.__code__.co_firstlineno
        assert first > 0
        y = self.norm(x)
        return (y * 2).relu()


def test_nodes_name_the_line_that_asked_for_them(tmp_path: Path) -> None:
    first = Placed.forward.__code__.co_firstlineno
    graph = captured(Placed(), torch.randn(4, 8), tmp_path=tmp_path).graph
    places = {node["op"]: node["source"] for node in graph["nodes"] if "source" in node}
    here = Path(__file__).name
    assert places["aten.native_layer_norm.default"] == {"file": here, "line": first + 3}, "a layer of PyTorch's counts as the line that called it"
    assert places["aten.mul.Tensor"] == places["aten.relu.default"] == {"file": here, "line": first + 4}


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bidirectional": True}, {"bias": False}], ids=["plain", "both", "unbiased"])
def test_recurrent_networks_are_captured_without_their_steps(layer: Any, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch finds the shapes of their results by taking apart all steps (and until 2.11 found others on a GPU)."""
    theirs = decompositions._rnn_helper
    for cell in ("one_layer_rnn", "one_layer_lstm", "lstm_cell", "gru_cell"):
        monkeypatch.setattr(decompositions, cell, lambda *_, **__: pytest.fail("steps are taken apart"))
    module = layer(6, 8, 2, **options).eval()
    x = torch.randn(3, 5, 6)
    result = captured(module, x, tmp_path=tmp_path)
    out, states = module(x)
    expected = [out, *(states if isinstance(states, tuple) else [states])]
    values = [result.graph["values"][o["value"]] for o in result.graph["outputs"]]
    assert [v["shape"] for v in values] == [list(t.shape) for t in expected]
    assert [v["strides"] for v in values] == [list(t.stride()) for t in expected]
    assert decompositions._rnn_helper is theirs


class Counting(nn.Module):
    """Changes buffers in every way: by a native norm, in place once and twice, with what is learned, and by what it reads."""

    def __init__(self, momentum: float | None = 0.1) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3, momentum=momentum)
        for name in ("twice", "learned", "seen"):
            self.register_buffer(name, torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x) + self.seen
        self.twice.mul_(0.5).add_(1.0)
        self.learned.copy_(self.norm.weight)
        self.seen.copy_(x[0])
        x.relu_()
        return y


@pytest.mark.parametrize("momentum", [0.1, None])
def test_effects_say_what_eager_does_beside_the_values(momentum: float | None, tmp_path: Path) -> None:
    """With `momentum=None` eager makes a Python number of a buffer: it is observed on a copy."""
    model, x = Counting(momentum), torch.randn(4, 3)
    before = {name: (value.clone(), value._version) for name, value in model.named_buffers()}
    graph = captured(model, x, tmp_path=tmp_path).graph
    assert all(torch.equal(value, before[name][0]) and value._version == before[name][1] for name, value in model.named_buffers())
    effects = {o["target"]: (o["versions"], o["differentiable"], o["read"]) for o in graph["outputs"] if "target" in o}
    assert effects == {
        "norm.running_mean": (0, False, False),
        "norm.running_var": (0, False, False),
        "norm.num_batches_tracked": (1, False, False),
        "twice": (2, False, False),
        "learned": (1, True, False),
        "seen": (1, False, True),
        0: (1, False, True),
    }
