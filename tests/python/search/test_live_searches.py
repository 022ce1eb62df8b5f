"""bench/search/live.py: its arithmetic, and one live comparison on the CPU."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("PLANISH_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "bench" / "search"))

from live_results import (  # noqa: E402
    END,
    Result,
    Standing,
    best_at,
    cold_table,
    curve_of,
    evaluations_to,
    final_ms,
    mean_ratio,
    standings,
    time_table,
    warm_table,
)
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
    assert "| a | 1 | 25 | 2.000* (2.000–2.000) | 2.000* (2.000–2.000) |" in text
    assert "| a | 1 | 50 | 1.000* (1.000–1.000) | 1.500 (1.500–1.500) |" in text
    assert "| geometric mean (leads) |  | 50 | 1.000 (1 of 1) | 1.500 (0 of 1) |" in text
    assert END not in text.split("again.")[1]
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


def test_a_strategy_leads_unless_another_is_better_beyond_the_noise() -> None:
    steady, better, unsure = Standing.of([1.1, 1.1, 1.1]), Standing.of([1.0, 1.0, 1.0]), Standing.of([1.0, 1.1, 1.21])
    assert better.leads([steady, better, unsure])
    assert not steady.leads([steady, better])
    # 1.1 ± 0.095 / √3: one tenth above the others is less than twice that.
    assert unsure.error == pytest.approx(math.log(1.1) / math.sqrt(3))
    assert unsure.leads([better, unsure]) and steady.leads([steady, unsure])
    assert Standing.of([1.002]).leads([Standing.of([1.0])])
    nothing = Standing.of([math.inf, 1.0])
    assert not nothing.leads([better]) and better.leads([nothing]) and nothing.error == 0


def test_winners_are_compared_where_all_were_measured_again() -> None:
    runs = [Result("a", "cold", "swarm", 1, [[1, 2.0]], 1.5), Result("a", "cold", "random", 1, [[1, 1.0]], 3.0)]
    assert standings(runs, 100)["a"][END]["random"].median == 2.0
    assert END not in standings([*runs, Result("a", "cold", "random", 2, [[1, 1.0]])], 100)["a"]


def test_time_is_accounted_for_by_strategy() -> None:
    text = time_table([("swarm", {"start": 1.0, "search": 10.0}), ("swarm", {"start": 2.0, "search": 20.0}), ("random", {"start": 1.0})])
    assert "| strategy | runs | start | search | in all |" in text
    assert "| swarm | 2 | 1.5 | 15.0 | 16.5 |" in text and "| random | 1 | 1.0 | 0.0 | 1.0 |" in text
    assert time_table([]) == ""


def live_command(folder: Path, names: tuple[str, ...] = ("one", "two")) -> tuple[list[str], dict[str, str]]:
    environment = dict(os.environ) | {"PLANISH_BUILD": str(BUILD), "XDG_CACHE_HOME": str(folder / "cache"), "PLANISH_BUDGET": "60s"}
    environment.setdefault("PLANISH_PYTHON", sys.executable)
    tasks = [str(folder / f"{name}.py") for name in names]
    command = [sys.executable, str(ROOT / "bench" / "search" / "live.py"), *tasks, "--out", str(folder / "out"), "--target", "cpu", "--baselines", "none"]
    return command, environment


def live(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command, environment = live_command(folder)
    return subprocess.run([*command, *more], capture_output=True, text=True, timeout=300, env=environment)


def recorded(store: Path) -> list[tuple[Any, ...]]:
    if not store.exists():
        return []
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        try:
            return database.execute("SELECT run, program, level, median_ms FROM evaluations WHERE genome != '' ORDER BY rowid").fetchall()
        except sqlite3.OperationalError:
            return []  # being made


def test_a_run_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(TASK.format(body="x"))
    command, environment = live_command(tmp_path, ("one",))
    command += ["--seeds", "1", "--strategies", "swarm", "--evals", "30"]
    store = tmp_path / "out" / "homes" / f"{tmp_path.name}-one-cold-swarm-1" / "store.db"
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    deadline = time.monotonic() + 120
    while not recorded(store) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    children = Path(f"/proc/{first.pid}/task").glob("*/children")
    under_way = [int(pid) for one in children for pid in one.read_text().split()]
    first.kill()
    first.wait()
    for pid in under_way:
        os.kill(pid, signal.SIGKILL)
    before = recorded(store)
    assert under_way and before, "it ended before it could be killed"
    second = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert second.returncode == 0, second.stderr
    [row] = json.loads((tmp_path / "out" / "live.json").read_text())["runs"]
    assert row["resumed"] and row["screened"] <= 30
    after = recorded(store)
    # Where it was killed behind its search, all that was proposed had been measured already.
    searched = any(level == "full" for _, _, level, _ in before)
    assert after[: len(before)] == before and (searched or len(after) > len(before))


def test_warm_runs_know_what_cold_ones_measured(tmp_path: Path) -> None:
    for name, body in (("one", "x"), ("two", "x * 2")):
        (tmp_path / f"{name}.py").write_text(TASK.format(body=body))
    done = live(tmp_path, "--warm", "--seeds", "1", "--evals", "4")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out" / "live.json").read_text())
    assert sorted((Path(run["task"]).stem, run["kind"]) for run in document["runs"]) == [(t, k) for t in ("one", "two") for k in ("cold", "others", "same")]
    assert all(0 < run["screened"] <= 4 and run["curve"] for run in document["runs"]), document["runs"]
    assert {(run["outcome"], *run["seconds_in"]) for run in document["runs"]} == {("searched", "start", "capture", "check", "prepare", "search")}
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
    late = live(tmp_path, "--warm", "--seeds", "7", "--evals", "4", "--time", "0.001")
    assert late.returncode == 130 and "6 runs are missing" in late.stderr
    other = live(tmp_path, "--warm", "--seeds", "1", "--evals", "5")
    assert other.returncode == 1 and "other settings" in other.stderr


def test_earlier_runs_come_from_somewhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no earlier runs"):
        earlier_store(tmp_path / "store.db", [])
