"""`planish import`: the examples of each collection become tasks and solutions, are judged, and results go back in its form."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, Home

EXAMPLES = ROOT / "examples" / "formats"


def imported(tmp_path: Path, *arguments: str) -> tuple[Home, dict[str, Any]]:
    home = Home(tmp_path)
    code, document = home.document("import", *arguments, "--out", "in")
    assert code == 0, document
    assert document["left_out"] == []
    return home, document


def judged(home: Home, author: str, out: str = "out") -> dict[str, str]:
    """Task → verdict."""
    arguments = ["--target", "cpu", "--no-times", "--seeds", "1", "--out", out]
    _, document = home.document("suite", "in/tasks", "--solutions", f"in/solutions/{author}", *arguments)
    return {row["task"]: row["verdict"] or row["outcome"] for row in document["tasks"]}


def test_gpu_mode(tmp_path: Path) -> None:
    home, document = imported(tmp_path, str(EXAMPLES / "gpu-mode"))
    assert document["format"] == "gpu-mode" and document["authors"] == ["submission", "submission_wrong"]
    (home.path / "in" / "tasks" / "scaled_add-test-0.py").unlink()  # one of the two will do
    assert judged(home, "submission_wrong") == {"scaled_add-benchmark-0": "wrong"}
    lines = (home.path / "out" / "gpu-mode" / "scaled_add.benchmark.txt").read_text().splitlines()
    assert lines[0] == "benchmark-count: 1" and "benchmark.0.status: fail" in lines and lines[-1] == "check: fail"


def test_flashinfer_bench(tmp_path: Path) -> None:
    home, document = imported(tmp_path, str(EXAMPLES / "flashinfer-bench"))
    assert document["format"] == "flashinfer-bench"
    assert judged(home, "by_parts") == {"rms_norm_h64-b8": "ok"}
    (trace,) = [json.loads(line) for line in (home.path / "out" / "flashinfer-bench" / "traces" / "rms_norm_h64.jsonl").read_text().splitlines()]
    assert trace["solution"] == "by_parts" and trace["workload"]["uuid"] == "b8" and trace["evaluation"]["status"] == "PASSED"


def test_backendbench(tmp_path: Path) -> None:
    folder = EXAMPLES / "backendbench"
    home, _ = imported(tmp_path, str(folder / "traces.txt"), "--solutions", str(folder / "operators"))
    assert judged(home, "kernels") == {"add__Tensor-0": "unanswered", "relu__default-0": "ok"}
    with (home.path / "out" / "backendbench" / "operator_summary.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["operator"] == "aten.relu.default" and row["passed_tests"] == "1"


def test_tritonbench(tmp_path: Path) -> None:
    folder = EXAMPLES / "tritonbench"
    home, _ = imported(tmp_path, str(folder), "--solutions", str(folder / "predictions.jsonl"))
    (home.path / "in" / "tasks" / "twice_relu-twice_relu-0.py").unlink()
    assert judged(home, "predictions") == {"twice_relu-twice_relu-1": "ok"}


def test_atrex_bench(tmp_path: Path) -> None:
    """Its folder of operators, and one operator's: a task a shape, whose inputs are keyword arguments and whose outputs have names."""
    home, document = imported(tmp_path, str(EXAMPLES / "atrex-bench"))
    assert document["format"] == "atrex-bench" and document["tasks"] == 2
    right = "scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)"
    for author, line in (("right", right), ("wrong", right.replace("mean", "amax"))):
        solution = f"""import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, x, weight):
        {line}
        return {{"y": x * scale * weight, "scale": scale}}
"""
        folder = home.path / "in" / "solutions" / author
        folder.mkdir(parents=True)
        for name in ("scaled_norm-0", "scaled_norm-1"):
            (folder / f"{name}.py").write_text(solution)
    (home.path / "in" / "tasks" / "scaled_norm-1.py").unlink()
    assert judged(home, "right") == {"scaled_norm-0": "ok"}
    assert judged(home, "wrong", "other") == {"scaled_norm-0": "wrong"}
    _, alone = home.document("import", str(EXAMPLES / "atrex-bench" / "scaled_norm"), "--out", "alone")
    assert alone["format"] == "atrex-bench" and alone["tasks"] == 2


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [(["gone"], "no_such_file"), (["."], "usage"), ([".", "--format", "other"], "usage"), ([".", "--format", "gpu-mode"], "no_tasks"),
     ([".", "--format", "flashinfer-bench"], "no_tasks"), ([".", "--format", "tritonbench"], "no_tasks"), ([".", "--format", "backendbench"], "not_a_file"),
     ([".", "--format", "atrex-bench"], "no_tasks")],
)  # fmt: skip
def test_bad_input_is_an_error_by_name(tmp_path: Path, arguments: list[str], kind: str) -> None:
    code, document = Home(tmp_path).document("import", *arguments)
    assert code == 2 and document["error"]["kind"] == kind, document
