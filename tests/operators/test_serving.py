"""Operators that serving spends its time on, written down with PyTorch's own (`serving/`, each a task as a user has it): each is taken, gives what eager gives
in every regime of data, and as kernels of ours; what is left to PyTorch is products, and what is named here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import capture, load_task

from tests.random_graphs.check import Check, Options
from tests.random_graphs.parts import CppBatch, Tool

from .judge import TAKEN, judge

FOLDER = Path(__file__).parent / "serving"
NAMES = sorted(file.stem for file in FOLDER.glob("*.py"))
PRODUCTS = frozenset(f"aten.{name}.default" for name in "linear mm addmm bmm matmul baddbmm".split())
VIEWS = frozenset(f"aten.{name}" for name in "view.default permute.default unsqueeze.default select.int split_with_sizes.default".split())
FULL = frozenset({"aten.full.default", "aten.full_like.default"})
#: Steps that stay PyTorch's on a processor beside products and views.
LEFT = {
    "expert_blocks": FULL | {"aten.scatter.src"},
    "sampling_filters": FULL | {"aten.scatter_add.default"},
}


@pytest.mark.parametrize("name", NAMES)
def test_is_taken(name: str, tool: Tool, tmp_path: Path) -> None:
    found = judge(load_task(FOLDER / f"{name}.py"), tool, tmp_path)
    assert found.kind == TAKEN, found


@dataclass
class Case:
    file: Path

    def source(self) -> str:
        return self.file.read_text()


@pytest.fixture(scope="module")
def checks(tool: Tool) -> Iterator[dict[str, Check]]:
    """Kernels of all of them, compiled together."""
    with tempfile.TemporaryDirectory() as folder:
        batch = CppBatch(Path(folder))
        made = {}
        for number, name in enumerate(NAMES):
            blobs = Path(folder) / f"blobs{number}"
            blobs.mkdir()
            options = Options(programs=1, seed=number, arch="x86-64-v3", data_seeds=(0,))
            made[name] = Check(Case(FOLDER / f"{name}.py"), options, tool, blobs)  # type: ignore[arg-type]
            made[name].prepare(batch.add)
        batch.build()
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_kernels_give_what_eager_gives(name: str, checks: dict[str, Check]) -> None:
    check = checks[name]
    check.finish()
    for item in check.answer["programs"]:
        left = {s["op"] for s in item["program"]["steps"] if s["kind"] == "aten"}
        assert left <= PRODUCTS | VIEWS | LEFT.get(name, frozenset()), item["genomes"]


def planned(check: Check, tool: Tool) -> int:
    """How many kernels a GPU's program has, where nothing stays PyTorch's."""
    assert check.captured is not None
    request = {"graph": check.captured.graph, "target": "cuda", "arch": "sm_90a", "programs": 1, "own": True, "best": True}
    answer = tool.ask(request)
    assert "error" not in answer, answer["error"]
    assert [s["op"] for s in answer["programs"][0]["program"]["steps"] if s["kind"] == "aten" and s["op"] not in VIEWS] == []
    return len(answer["regions"])


@pytest.mark.parametrize("name", ["gptq_linear", "gptq_groups", "awq_linear", "nf4_linear"])
def test_weights_in_4_bits_are_written_out_once_on_a_gpu(name: str, checks: dict[str, Check], tool: Tool) -> None:
    assert planned(checks[name], tool) == {"gptq_linear": 3}.get(name, 2)  # of zero points, which a table of groups is asked for; of weights; the product


@pytest.mark.parametrize(("name", "lies"), [("gptq_groups", "across"), ("gptq_linear", "across"), ("awq_linear", "turned"), ("nf4_linear", "")])
def test_codes_are_read_where_they_lie_for_a_few_rows_on_a_gpu(name: str, lies: str, tool: Tool, tmp_path: Path) -> None:
    """Words beside those of other rows, with groups in order or in none, words of eight rows, and codes of a table, at a size whose bytes count: one
    launch, and no weights in 16 bits."""
    space: dict[str, Any] = {}
    exec(compile((FOLDER / f"{name}.py").read_text(), f"{name}.py", "exec"), space)
    space |= {"K": 1024, "N": 2048, "GROUP": 128}
    graph = capture(space["Model"](), (torch.randn(3, 1024).bfloat16(),), {}, tmp_path).graph
    answer = tool.ask({"graph": graph, "target": "cuda", "arch": "sm_90a", "programs": 1, "own": True, "best": True, "describe": True})
    assert "error" not in answer, answer["error"]
    (program,) = answer["programs"]
    assert [step["kind"] for step in program["program"]["steps"]] == ["launch"]
    (kernel,) = program["program"]["kernels"]
    assert "skinny_product" in kernel["source"]
    assert [word for word in ("across", "turned") if f"{word} = true" in kernel["source"]] == [lies] * bool(lies)
