"""bench/search/live.py: its arithmetic, and one live comparison on the CPU."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("PLANISH_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "bench" / "search"))

from live_results import Result, best_at, cold_table, curve_of, evaluations_to, final_ms, mean_ratio, warm_table  # noqa: E402
from live_stores import earlier_store  # noqa: E402

TASK = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax({body}, dim=-1)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
"""


def evaluation(region: str, ms: float, outcome: str = "ok", level: str = "screen", genome: str = "threads=1") -> dict[str, Any]:
    return {"region": region, "median_ms": ms, "outcome": outcome, "level": level, "genome": genome}


def shown(evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    regions = [{"id": "r0", "count": 2, "genes": "threads=1,2"}, {"id": "r1", "count": 1, "genes": "threads=1,2"}, {"id": "r2", "count": 1, "genes": ""}]
    return {"regions": regions, "evaluations": evaluations}


def test_a_curve_counts_what_was_screened_and_sums_the_regions() -> None:
    found = shown(
        [
            evaluation("r0", 0.7, genome=""),  # PyTorch's form
            evaluation("r0", 3.0),
            evaluation("r1", 0.0, outcome="wrong"),
            evaluation("r1", 4.0),
            evaluation("r0", 1.0, level="full"),
            evaluation("r0", 5.0),
            evaluation("r0", 2.0),
            evaluation("r1", 1.0, level="full"),
        ]
    )
    assert curve_of(found) == ([[3, 10.0], [5, 8.0]], 5)
    assert final_ms(found) == 3.0
    assert final_ms(shown([evaluation("r0", 1.0, level="full")])) is None
    assert curve_of(shown([evaluation("r0", 3.0)])) == ([], 1)


def test_evaluations_are_read_off_a_curve() -> None:
    curve = [[3, 10.0], [5, 8.0]]
    assert [best_at(curve, n) for n in (2, 3, 4, 5, 99)] == [math.inf, 10.0, 10.0, 8.0, 8.0]
    assert [evaluations_to(curve, ms, 20) for ms in (10.0, 9.9, 8.0, 7.9)] == [3, 5, 5, 21]
    assert mean_ratio([1.0, 4.0]) == pytest.approx(2.0)
    assert mean_ratio([1.0, math.inf]) == math.inf


def test_tables_compare_with_the_best_of_all_runs() -> None:
    cold = [Result("a", "cold", "swarm", 1, [[1, 2.0], [30, 1.0]]), Result("a", "cold", "random", 1, [[1, 2.0], [40, 1.5]])]
    text = cold_table(cold, 50)
    assert "| a | 1 | 2.000 / 1.000 | 2.000 / 1.500 |" in text
    assert "| geometric mean of 1 |  | 2.000 / 1.000 | 2.000 / 1.500 |" in text
    warm = [
        Result("a", "cold", "swarm", 1, [[1, 2.0], [9, 1.04]]),
        Result("a", "same", "swarm", 1001, [[1, 1.0]]),
        Result("b", "cold", "swarm", 1, [[4, 3.0]]),
        Result("b", "same", "swarm", 1001, [[1, 3.2], [60, 3.1]]),
    ]
    text = warm_table(warm, 60)
    assert "| a | 1 | 9 (9) | 1 (1) |" in text
    assert "| b | 3 | 4 (4) | 60 (60) |" in text
    assert f"| geometric mean of 2 |  | 6.0 | {math.sqrt(60):.1f} |" in text


def live(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ) | {"PLANISH_BUILD": str(BUILD), "XDG_CACHE_HOME": str(folder / "cache"), "PLANISH_BUDGET": "60s"}
    environment.setdefault("PLANISH_PYTHON", sys.executable)
    tasks = [str(folder / f"{name}.py") for name in ("one", "two")]
    command = [sys.executable, str(ROOT / "bench" / "search" / "live.py"), *tasks, "--out", str(folder / "out"), "--target", "cpu", "--baselines", "none"]
    return subprocess.run([*command, *more], capture_output=True, text=True, timeout=300, env=environment)


def test_warm_runs_know_what_cold_ones_measured(tmp_path: Path) -> None:
    for name, body in (("one", "x"), ("two", "x * 2")):
        (tmp_path / f"{name}.py").write_text(TASK.format(body=body))
    done = live(tmp_path, "--warm", "--seeds", "1", "--evals", "4")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out" / "live.json").read_text())
    assert sorted((Path(run["task"]).stem, run["kind"]) for run in document["runs"]) == [(t, k) for t in ("one", "two") for k in ("cold", "others", "same")]
    assert all(0 < run["screened"] <= 4 and run["curve"] for run in document["runs"]), document["runs"]
    screened = {(Path(run["task"]).stem, run["kind"]): run["screened"] for run in document["runs"]}
    assert "| task | best, ms | cold | others | same |" in done.stdout

    # What a later run began with: all that the others left, and nothing of its own.
    homes = tmp_path / "out" / "homes"
    [others] = homes.glob("*-one-others-*")
    with sqlite3.connect(others / "store.db") as database:
        found = dict(database.execute("SELECT run, count(*) FROM outcomes GROUP BY run").fetchall())
        [own] = database.execute("SELECT id FROM runs").fetchone()
        assert len(found) == 2
        # What was measured again at the end is there twice.
        assert found.pop(own) >= screened["one", "others"]
        assert next(iter(found.values())) >= screened["two", "cold"]
        assert database.execute("SELECT count(*) FROM kernels").fetchone() == (2,)
    database.close()

    # The same command has nothing left to do; other settings do not mix with these runs.
    again = live(tmp_path, "--warm", "--seeds", "1", "--evals", "4")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert again.stderr == ""
    other = live(tmp_path, "--warm", "--seeds", "1", "--evals", "5")
    assert other.returncode == 1 and "other settings" in other.stderr


def test_earlier_runs_come_from_somewhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no earlier runs"):
        earlier_store(tmp_path / "store.db", [])
