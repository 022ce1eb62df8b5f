"""Modules that write places of their buffers and inputs: kernels write these places alone, where the tensors are."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from planish import rt
from planish.executor import Executor

from .check import Check, Options
from .parts import ROOT, CppBatch, Tool

STEP = ROOT / "examples" / "models" / "llama_step.py"
SIZES = "--layers 2 --hidden 32 --heads 4 --kv-heads 2 --head 64 --inner 48 --vocabulary 61 --batch 2 --places 24".split()

VIEWS = frozenset({"aten.view.default", "aten.permute.default"})

HEAD = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.randn(2, 3, 16, 8))

    def forward(self, x, position):
{}

def get_inputs():
    return [torch.randn(2, 3, 2, 8), torch.tensor([{}])]
"""


def cached(body: str, positions: str = "5, 3") -> str:
    return HEAD.format("\n".join("        " + line for line in body.splitlines()), positions)


def step(dtype: str) -> str:
    """One step of a language model; made when it is asked for, as it takes a process that imports PyTorch."""
    return subprocess.run([sys.executable, str(STEP), *SIZES, "--dtype", dtype], capture_output=True, text=True, check=True).stdout


@dataclass
class Case:
    text: str | Callable[[], str]
    left: frozenset[str]  # operators that stay PyTorch's on the CPU, beside views
    direct: int | None  # effects that need no copy; None: it depends on the cut

    def source(self) -> str:
        return self.text if isinstance(self.text, str) else self.text()


def _cases() -> Iterator[tuple[str, Case]]:
    none: frozenset[str] = frozenset()
    yield "index_copy_", Case(cached("self.cache.index_copy_(2, position, x * 2 + 1)\nreturn self.cache.sum(-1)"), none, 1)
    yield "indexed", Case(cached("self.cache[:, :, position] = torch.sin(x)\nreturn self.cache * 2", "-1, 4"), none, 1)
    yield "slice", Case(cached("self.cache[:, :, 3:5].copy_(x)\nreturn self.cache.exp()"), none, 1)
    scattered = "where = position.view(1, 1, 2, 1).expand(2, 3, 2, 8)\nself.cache.scatter_(2, where, x)\nreturn self.cache.amax(-1)"
    yield "scatter_", Case(cached(scattered), none, 1)
    # What was there is kept by a kernel before the write, or read behind it, and then the new value is made beside it.
    yield "before", Case(cached("old = self.cache.clone()\nself.cache.index_copy_(2, position, x)\nreturn self.cache - old"), none, None)
    # A norm, then the write: two kernels.
    yield "norm", Case(cached("x = torch.nn.functional.layer_norm(x, [8])\nself.cache.index_copy_(2, position, x)\nreturn self.cache.cos()"), none, 1)
    # Not a state: of zeros, and of an input that nobody changes.
    yield "fresh", Case(cached("z = self.cache * 0\nz[:, :, position] = x\nreturn z + self.cache"), none, 0)
    yield "zeros", Case(cached("z = torch.zeros(2, 3, 16, 8)\nz[:, :, position] = x\nreturn z + self.cache"), none, 0)
    # What has no value yet, all of which is written: the inverse of an order, as routers of experts make it.
    inverse = "order = position.argsort()\nback = torch.empty_like(order)\nback[order] = torch.arange(2)\nreturn self.cache[:, :, back].cos()"
    yield "inverse", Case(cached(inverse), none, 0)
    # Operators that read the cache through a view do not keep it from being written where it is.
    norms = "self.cache.index_copy_(2, position, x)\nreturn torch.linalg.det(self.cache.view(12, 8, 8))"
    yield "view", Case(cached(norms), frozenset({"aten._linalg_det.default"}), 1)
    products = frozenset({"aten.linear.default", "aten.scaled_dot_product_attention.default"})
    for dtype in ("float32", "bfloat16"):
        yield f"llama {dtype}", Case(functools.partial(step, dtype), products, 4)


CASES = dict(_cases())


@pytest.fixture(scope="module")
def checks(tool: Tool) -> Iterator[dict[str, Check]]:
    """All of them, compiled together."""
    with tempfile.TemporaryDirectory() as folder:
        batch = CppBatch(Path(folder))
        made = {}
        for number, (name, case) in enumerate(CASES.items()):
            blobs = Path(folder) / f"blobs{number}"
            blobs.mkdir()
            made[name] = Check(case, Options(programs=2, seed=number, arch="x86-64-v3", data_seeds=(0,)), tool, blobs)  # type: ignore[arg-type]
            made[name].prepare(batch.add)
        batch.build()
        yield made


@pytest.mark.parametrize("name", CASES)
def test_gives_what_eager_gives_and_writes_where_the_state_is(name: str, checks: dict[str, Check]) -> None:
    check, case = checks[name], CASES[name]
    check.finish()  # raises where results or the state differ from eager's, in the functional form or a caller's
    for builts, item in zip(check.built, check.answer["programs"], strict=True):
        program = item["program"]
        left = {s["op"] for s in program["steps"] if s["kind"] == "aten"}
        assert left <= case.left | VIEWS, item["genomes"]
        executor = Executor(program, [b.path for b in builts], check.blobs, rt.find_library(), "cpu", effects=[])
        assert case.direct in (None, sum(e.direct for e in executor.effects))


def test_the_step_of_a_language_model_is_kernels_alone_on_a_gpu(checks: dict[str, Check], tool: Tool) -> None:
    """Its caches are written by one kernel a layer, and nothing but products and attention is left to choose about."""
    check = checks["llama bfloat16"]
    assert check.captured is not None
    request = {"graph": check.captured.graph, "target": "cuda", "arch": "sm_90a", "programs": 1, "own": True, "describe": True, "best": True}
    answer: dict[str, Any] = tool.ask(request)
    assert "error" not in answer, answer["error"]
    steps = answer["programs"][0]["program"]["steps"]
    assert [s["op"] for s in steps if s["kind"] == "aten"] == []
    writes = [r for r in answer["regions"] if r["kernel"].startswith("scatter")]
    assert len(writes) == 2
    assert sum(r["kernel"].startswith("attention") for r in answer["regions"]) == 2
