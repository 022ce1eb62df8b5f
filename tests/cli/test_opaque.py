"""A task without a graph, through the command: judged by its own module, nothing for the built-in coder, everything for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command import Home

TASK = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(32) + 0.5)

    def forward(self, x, lengths):
        result = torch.zeros(x.shape[0], x.shape[2])
        for row, n in enumerate(lengths.tolist()):
            result[row] = x[row, :n].sum(0) * self.scale
        return result

def get_inputs():
    return [torch.randn(12, 8, 32), torch.randint(1, 9, (12,))]

def get_init_inputs():
    return []
"""

NEW = """import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(32) + 0.5)

    def forward(self, x, lengths):
        seen = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        return torch.where(seen[..., None], x, 0).sum(1) * self.scale
"""

CODER = f"""import json, sys
line = sys.stdin.readline()
assert json.loads(line)
print(json.dumps({{"source": {NEW!r}}}), flush=True)
sys.stdin.readline()
print(json.dumps({{"finished": True}}), flush=True)
"""


@pytest.fixture(scope="module")
def home(warm: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("opaque"), warm)
    home.task(TASK)
    home.task(NEW, "right.py")
    return home


def about(document: dict[str, Any], kind: str) -> str:
    return next(note["text"] for note in document["notes"] if note["kind"] == kind)


def test_a_solution_is_proved(home: Home) -> None:
    code, document = home.document("verify", "task.py", "right.py", "--seeds", "1")
    assert code == 0 and document["verified"], document
    assert {case["reference"] for case in document["cases"]} == {"module"}
    assert "task.py:11" in about(document["accuracy"], "module_reference")


def test_it_can_be_tried(home: Home) -> None:
    assert home.run("try", "task.py").returncode == 0
    _, document = home.document("try", "task.py", "right.py", "--quick")
    assert all(case["ok"] for case in document["evaluation"]["test"]["cases"]), document


def test_the_built_in_coder_has_nothing_to_search(home: Home) -> None:
    code, document = home.document("optimize", "task.py", "--budget", "1s", "--baselines", "eager")
    assert code == 1 and document["outcome"] == "no_improvement", document
    assert document["reason"].startswith("nothing to search: the task has no graph (") and "task.py:11" in document["reason"]
    assert document["shipped_baseline"] == "eager" and (Path(document["shipped"]) / "ship.json").exists()


def test_what_a_coder_in_a_seat_writes_is_judged(home: Home) -> None:
    """Whether it wins is for a quiet machine to say."""
    home.task(CODER, "coder.py")
    _, document = home.document(
        "optimize", "task.py", "--budget", "0s", "--baselines", "eager", "--strategy", "coders", "--coder", "python3 coder.py"
    )  # fmt: skip
    assert document["search"]["coders"][0]["passed"] == 1, document
    assert document["outcome"] in ("improved", "no_improvement")


def test_a_suite_of_solutions_takes_it(home: Home) -> None:
    """A right one, and one that counts one place too many."""
    wrong = NEW.replace("< lengths", "<= lengths")
    for name, text in (("tasks/task.py", TASK), ("solutions/task.py", NEW), ("tasks/other.py", TASK), ("solutions/other.py", wrong)):
        (home.path / name).parent.mkdir(exist_ok=True)
        (home.path / name).write_text(text)
    arguments = ["--baselines", "eager", "--seeds", "1", "--out", "results"]
    code, document = home.document("suite", "tasks", "--solutions", "solutions", *arguments)
    assert code == 0 and {row["task"]: row["verdict"] for row in document["tasks"]} == {"task": "ok", "other": "wrong"}, document
