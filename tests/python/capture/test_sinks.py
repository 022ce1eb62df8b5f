"""Softmaxes over scores and a column that is dropped again: attention with sinks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "random_graphs"))

from parts import Tool
from planish import rt
from planish.capture import capture
from planish.executor import Executor


class Sinks(nn.Module):
    def __init__(self, shifted: bool = False, wide: bool = False) -> None:
        super().__init__()
        self.shifted, self.wide = shifted, wide
        self.sinks = nn.Parameter(torch.tensor([0.5, -200.0, 3.0, 1.0]))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        k, v = (self.repeated(x) for x in (k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + mask
        sinks = self.sinks.to(q.dtype).reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)
        both = torch.cat([scores, sinks], dim=-1)
        if self.shifted:
            both = both - both.max(dim=-1, keepdim=True).values
        weights = torch.softmax(both, dim=-1, dtype=torch.float32 if self.wide else both.dtype)
        return torch.matmul(self.kept(weights).to(q.dtype), v)

    def repeated(self, x: torch.Tensor) -> torch.Tensor:
        batch, heads, places, width = x.shape
        return x[:, :, None].expand(batch, heads, 2, places, width).reshape(batch, 2 * heads, places, width)

    def kept(self, weights: torch.Tensor) -> torch.Tensor:
        return weights[..., :-1]


class OtherColumns(Sinks):
    def kept(self, weights: torch.Tensor) -> torch.Tensor:
        return weights[..., 1:]


class ReadTwice(Sinks):
    def kept(self, weights: torch.Tensor) -> torch.Tensor:
        return weights[..., :-1] * weights[..., -1:]


def call(queries: int, keys: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(3)
    q, k, v = torch.randn(2, 4, queries, width), torch.randn(2, 2, keys, width), torch.randn(2, 2, keys, width)
    mask = torch.randn(2, 1, queries, keys)
    mask[0, 0, 0] = -torch.inf  # no key counts: the sink has all the weight
    return tuple(x.to(dtype) for x in (q, k, v, mask))


def ops(graph: dict[str, Any]) -> list[str]:
    return [node["op"] for node in graph["nodes"]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize(("shifted", "wide"), [(False, False), (True, False), (True, True)])
@torch.no_grad()
def test_scores_are_weighed_where_they_lie(tmp_path: Path, dtype: torch.dtype, shifted: bool, wide: bool) -> None:
    model, given = Sinks(shifted, wide), call(3, 9, 16, dtype)
    captured = capture(model, given, {}, tmp_path)
    found = ops(captured.graph)
    narrowed = wide and dtype == torch.float64  # a cast that loses something stays where it is
    assert ("aten.cat.default" in found) == narrowed
    assert ("aten.maximum.default" in found) != narrowed
    assert narrowed or "aten._softmax.default" not in found
    result = run(captured.graph, tmp_path, model, given)
    close = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float64: 1e-7 if wide else 1e-14}[dtype]
    torch.testing.assert_close(result, model(*given), rtol=close, atol=close)
    assert (result[0, :, 0] == 0).all()


@pytest.mark.parametrize("model", [OtherColumns(), ReadTwice()])
@torch.no_grad()
def test_what_reads_more_of_it_stays(tmp_path: Path, model: nn.Module) -> None:
    found = ops(capture(model, call(3, 9, 16, torch.float32), {}, tmp_path).graph)
    assert "aten.cat.default" in found
    assert "aten._softmax.default" in found


class Plain(nn.Module):
    """A softmax of what `joined` gives, with the last column left out."""

    def __init__(self, joined: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.joined = joined

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.joined(x), dim=-1)[..., :-1]


@torch.no_grad()
def test_softmaxes_of_other_types_and_of_nothing_are_captured(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    model = Plain(lambda x: torch.cat([x, x[:, :1]], -1).double())  # 64 bits from here on
    torch.testing.assert_close(run(capture(model, (x,), {}, tmp_path).graph, tmp_path, model, (x,)), model(x), rtol=0, atol=1e-15)
    assert "aten._softmax.default" in ops(capture(Plain(lambda x: x.float()), (x.to(torch.float8_e4m3fn),), {}, tmp_path).graph)
    assert "aten._softmax.default" in ops(capture(Plain(lambda x: torch.cat([x[:, :0], x[:, :1]], -1)), (x,), {}, tmp_path).graph)


@pytest.mark.parametrize("queries", [1, 64])
@torch.no_grad()
def test_it_is_one_kernel_of_attention_on_hopper(tmp_path: Path, queries: int) -> None:
    graph = capture(Sinks(shifted=True), call(queries, 256, 64, torch.bfloat16), {}, tmp_path).graph
    tool = Tool()
    many = queries > 16  # these are one of the ways to cut the graph; few queries are found before all
    answer = tool.ask({"graph": graph, "target": "cuda", "own": True, "best": True, "programs": 60 if many else 1, "ways": many, "seed": 1})
    tool.close()
    name = "attention<Policy>" if many else "decode_attention<P>"
    programs = [one["program"] for one in answer["programs"]]
    assert any(any(name in kernel["source"] for kernel in p["kernels"]) for p in programs)
    if not many:  # keys of a group are read once, as they lie
        assert sum(step["kind"] == "launch" for step in programs[0]["steps"]) <= 2


def run(graph: dict[str, Any], folder: Path, model: nn.Module, args: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """By PyTorch's steps."""
    tool = Tool()
    program = tool.ask({"graph": graph, "programs": 0})["aten"]
    tool.close()
    executor = Executor(program, [], folder, rt.find_library(), "cpu", effects=[])
    params = {name: value.detach() for name, value in model.named_parameters()}
    result: torch.Tensor = executor.run([args[b.index] if b.kind == "user" else params[b.name] for b in executor.bindings])[0]
    return result
