"""Modules that put rows in order, as routers and sampling steps do: kernels do it, with what makes the rows and what follows from the ranks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .check import Check, Options
from .parts import CppBatch, Tool

HEAD = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x{names}):
{body}

def get_inputs():
    return [{inputs}]
"""
VIEWS = frozenset({"aten.view.default", "aten.permute.default", "aten.unsqueeze.default", "aten.slice.Tensor", "aten.select.int", "aten.expand.default"})


@dataclass
class Case:
    body: str
    inputs: str
    kernels: int  # of anchor order
    left: frozenset[str] = frozenset()  # operators that stay PyTorch's, beside views

    def source(self) -> str:
        names = "".join(f", {name}" for name in "yzw"[: len(re.findall(r"torch\.\w+\(", self.inputs)) - 1])
        return HEAD.format(names=names, body="\n".join("        " + line for line in self.body.splitlines()), inputs=self.inputs)


CASES = {
    "router": Case("w, i = torch.topk(torch.softmax(x, -1), 8)\nreturn w / w.sum(-1, keepdim=True), i", "torch.randn(33, 128)", 1),
    "router of bf16": Case("w, i = torch.topk(x.float().softmax(-1), 4, sorted=True)\nreturn w.to(x.dtype), i", "torch.randn(7, 64).bfloat16()", 1),
    "sort": Case("return torch.sort(x * 0.7, descending=True)", "torch.randn(5, 300)", 1),
    "sort of whole numbers": Case("return torch.sort(x, stable=True)", "torch.randint(-9, 9, (5, 300))", 1),
    "sort of columns": Case("return x.sort(0)", "torch.randn(40, 6, dtype=torch.float64)", 1),
    "argsort": Case("return torch.argsort(x.view(-1), stable=True)", "torch.randint(0, 16, (40, 8))", 1),
    "smallest": Case("return torch.topk(x, 5, dim=1, largest=False)", "torch.randn(3, 60, 4).half()", 1),
    "one": Case("return torch.topk(x, 1)", "torch.randn(9, 50)", 0),
    "median": Case("return torch.kthvalue(x, 30, dim=-1)", "torch.randn(9, 61)", 1),
    "kept": Case("return torch.kthvalue(x, 3, dim=0, keepdim=True).values * 2", "torch.randn(9, 61)", 1),
    "threshold": Case(
        "x = x / 0.8\nleast = torch.topk(x, 20).values[..., -1, None]\nreturn x.masked_fill(x < least, -1e4).softmax(-1)", "torch.randn(2, 3000)", 1
    ),
    "nucleus": Case(
        "s, i = x.sort(-1, True)\np = s.softmax(-1)\ndrop = p.cumsum(-1) - p > 0.9\nreturn x.masked_fill(drop.scatter(-1, i, drop), -1e4).softmax(-1)",
        "torch.randn(2, 1000)",
        1,
    ),
    "many": Case("return torch.topk(x, 200)", "torch.randn(2, 700)", 1),
    "one row": Case("return x.sort().values", "torch.randn(2000)", 1),
    "two orders": Case("return torch.sort(x)[0], torch.topk(x, 3)[1]", "torch.randn(4, 30)", 2),
    "counts": Case("return torch.histc(x.view(-1).float(), bins=16, min=0, max=15).int()", "torch.randint(-2, 18, (40, 8))", 0),
    "histogram of ends that are rounded": Case("return torch.histc(x, bins=60, min=0.1, max=0.7)", "torch.arange(0, 8000) * 0.0001", 0),
    "histogram": Case("return torch.histc(x * 2, bins=7, min=-1, max=1.5)", "torch.randn(9, 50)", 0),
    "searched": Case("return torch.searchsorted(x, y), torch.searchsorted(x, y, right=True)", "torch.randn(4, 37).sort(-1).values, torch.randn(4, 50)", 0),
    "buckets": Case("return torch.bucketize(x * 2, y, out_int32=True) + 1", "torch.randn(4, 50), torch.linspace(-2, 2, 9)", 0),
}


@pytest.fixture(scope="module")
def checks(tool: Tool) -> Iterator[dict[str, Check]]:
    """All of them, compiled together."""
    with tempfile.TemporaryDirectory() as folder:
        batch = CppBatch(Path(folder))
        made = {}
        for number, (name, case) in enumerate(CASES.items()):
            blobs = Path(folder) / f"blobs{number}"
            blobs.mkdir()
            made[name] = Check(case, Options(programs=2, seed=number, arch="x86-64-v3"), tool, blobs)  # type: ignore[arg-type]
            made[name].prepare(batch.add)
        batch.build()
        yield made


@pytest.mark.parametrize("name", CASES)
def test_rows_are_put_in_order_by_kernels_as_eager_does(name: str, checks: dict[str, Check]) -> None:
    check, case = checks[name], CASES[name]
    check.finish()  # raises where results differ from eager's
    for item in check.answer["programs"]:
        left = {s["op"] for s in item["program"]["steps"] if s["kind"] == "aten"}
        assert left <= case.left | VIEWS, item["genomes"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_each_order_is_one_kernel(name: str, target: str, checks: dict[str, Check], tool: Tool) -> None:
    check, case = checks[name], CASES[name]
    assert check.captured is not None
    request = {"graph": check.captured.graph, "target": target, "programs": 1, "describe": True, "best": True}
    answer: dict[str, Any] = tool.ask(request)
    assert "error" not in answer, answer["error"]
    assert sum(r["kernel"].startswith("order") for r in answer["regions"]) == case.kernels
