"""What `planish verify` says of its proof: the seed that repeats it, its regimes, tasks on which it proves nothing, what is right for finite values alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from command import Home

HEAD = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return {}\n\n"
    "def get_inputs():\n    return [torch.randn(64, 48)]\n"
)
NEW = "import torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return {}\n"


def verdict(warm: dict[str, str], folder: Path, task: str, solution: str, *options: str) -> tuple[int, dict[str, Any]]:
    home = Home(folder)
    (folder / "task.py").write_text(HEAD.format(task))
    (folder / "solution.py").write_text(NEW.format(solution))
    return home.document("verify", "task.py", "solution.py", "--target", "cpu", "--seeds", "1", "--compat", "none", *options, env=warm)


def test_a_seed_repeats_a_proof(warm: dict[str, str], tmp_path: Path) -> None:
    code, first = verdict(
        warm, tmp_path, "torch.softmax(x, 1)", "torch.exp(x - x.amax(1, keepdim=True)) / torch.exp(x - x.amax(1, keepdim=True)).sum(1, keepdim=True)"
    )
    assert code == 0 and first["verified"] and {"rows", "large"} <= {case["regime"] for case in first["cases"]}, first["message"]
    again = Home(tmp_path).document(
        "verify", "task.py", "solution.py", "--target", "cpu", "--seeds", "1", "--compat", "none", "--seed", str(first["seed"]), env=warm
    )[1]

    def measured(document: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [(case["seed"], case["regime"], case["outputs"][0]["fro"], case["outputs"][0]["ratio"]) for case in document["cases"]]

    assert again["seed"] == first["seed"] and measured(again) == measured(first)


def test_a_degenerate_task_is_no_success(warm: dict[str, str], tmp_path: Path) -> None:
    code, document = verdict(warm, tmp_path, "torch.relu(x) * 0.0", "torch.relu(x) * 0.0")
    assert code == 1 and not document["verified"] and document["outcome"] == "degenerate", document
    assert "zeros" in document["accuracy"]["degenerate"] and "zeros" in document["message"]


def test_what_is_right_for_finite_values_alone_is_accepted_where_that_is_asked_for(warm: dict[str, str], tmp_path: Path) -> None:
    squares = "torch.cdist(x, x.flip(0))", "(x[:, None] - x.flip(0)[None]).square().sum(-1).sqrt()"
    code, document = verdict(warm, tmp_path, *squares)
    assert code == 1 and document["outcome"] == "finite_only", document["message"]
    code, document = verdict(warm, tmp_path, *squares, "--finite-only")
    assert code == 0 and "finite_only" in [note["kind"] for note in document["accuracy"]["notes"]], document["message"]
