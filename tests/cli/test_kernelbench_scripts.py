"""bench/kernelbench: what is drawn of a checkout, what becomes of CUDA-L1's files, and the page of a suite's document."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "kernelbench"))

import cuda_l1
import draw
import suites


def checkout(folder: Path) -> Path:
    for level, count in ((1, 12), (2, 5)):
        (folder / "KernelBench" / f"level{level}").mkdir(parents=True)
        for number in range(1, count + 1):
            (folder / "KernelBench" / f"level{level}" / f"{number}_Task.py").write_text("")
    return folder


def names(tasks: list[Path]) -> list[str]:
    return [f"{task.parent.name}/{task.name}" for task in tasks]


def test_a_seed_draws_the_same_tasks_of_each_level(tmp_path: Path) -> None:
    there = checkout(tmp_path)
    once = names(draw.drawn(there, [1, 2], 7, 1))
    assert once == names(draw.drawn(there, [1, 2], 7, 1)) != names(draw.drawn(there, [1, 2], 7, 2))
    assert [name.split("/")[0] for name in once] == ["level1"] * 4 + ["level2"] * 3
    assert len(draw.drawn(there, [1, 2], 0, 1)) == 17 and len(draw.drawn(there, [2], 40, 1)) == 5
    assert names(draw.drawn(there, [1], 0, 1))[9] == "level1/10_Task.py", "by number"
    with pytest.raises(SystemExit, match="no folder level1"):
        draw.drawn(tmp_path / "nowhere", [1], 1, 1)


def test_files_of_cuda_l1_become_tasks_and_solutions(tmp_path: Path) -> None:
    line = {"level_id": 2, "task_id": 7, "ref_code": "class Model: pass", "custom_code": "class ModelNew: pass"}
    unanswered = {**line, "task_id": 8, "custom_code": None}
    (tmp_path / "h100.json").write_text(f"{json.dumps(line)}\n\n{json.dumps(unanswered)}\n")
    found = cuda_l1.entries(tmp_path / "h100.json")
    assert [entry["problem"] for entry in found] == [7]
    cuda_l1.write(found, tmp_path / "out")
    assert (tmp_path / "out" / "tasks" / "level2" / "7_task.py").read_text() == "class Model: pass"
    assert [path.name for path in (tmp_path / "out" / "solutions").iterdir()] == ["level_2_problem_7_sample_0_kernel.py"]
    (tmp_path / "other.json").write_text('{"level_id": 1}\n')
    with pytest.raises(SystemExit, match=r"line 1: KeyError.*\n.*custom_code"):
        cuda_l1.entries(tmp_path / "other.json")


def test_the_page_counts_and_names_what_became_of_each() -> None:
    rows = [
        {"task": "1_A", "level": 1, "outcome": "verified", "verdict": "ok", "times_ms": {"solution": 0.5}, "speedup": {"eager": 2.0}, "seconds": 3.0},
        {"task": "2_B", "level": 1, "outcome": "refused", "verdict": "wrong", "reason": "a | b\nmore", "seconds": 1.0},
        {"task": "3_C", "level": 1, "outcome": "failed", "error": {"kind": "random_ops", "message": "uses dropout"}},
    ]
    against = {"eager": {"fast_p": {"0": 1.0, "1": 0.5}, "geomean": {"speedup": 2.0, "median": 2.0, "tasks": 1}}}
    text = suites.page({"tasks": rows, "minutes": 2.0, "levels": [{"level": None, "tasks": 3, "correct": 1, "against": against}]}, "Head.")
    assert "3 rows, 2.0 minutes, 1.50 a minute: 1 verified, 1 refused: wrong, 1 failed." in text
    assert "| all | 3 | 1 | eager | 1.00 | 0.50 | – | – | – | 2.00 |" in text
    assert "| 1_A | verified | – | 0.5000 | 2.00 | 3 |  |" in text
    assert r"| 2_B | refused (wrong) | – | – | – | 1 | a \| b |" in text and "uses dropout" in text
