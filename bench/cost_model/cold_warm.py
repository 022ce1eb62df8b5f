"""What earlier runs are worth to a later one: evaluations until a search is within 5 % of the best that any run found.

    python bench/cost_model/cold_warm.py PLANISH FOLDER [--evals 40] [--seeds 2] [--strategy swarm] [--tasks softmax,layer_norm]

Each task is searched `cold` (nothing known), `others` (all other tasks' cold runs are known) and `same` (all tasks' cold runs are known, its own of other seeds
among them). What was finished is not run again, so the command may be broken off and repeated. Writes FOLDER/cold_warm.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from record import SOURCE, TASKS


def optimise(planish: Path, task: Path, store: Path, seed: int, options: argparse.Namespace, *more: str) -> str:
    """Runs one search; the run's id."""
    flags = ["--target", "cpu", "--evals", str(options.evals), "--budget", "300s", "--baselines", "none", "--seed", str(seed), "--strategy", options.strategy]
    command = [str(planish), "optimize", str(task), *flags, "--store", str(store), "--out", str(store.parent / "out"), "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    return str(json.loads(done.stdout)["run"])


def screened(planish: Path, store: Path, run: str) -> dict[str, list[float]]:
    """The times of each region's candidates in the order of their evaluation; 0 where one did not pass."""
    shown = json.loads(subprocess.run([str(planish), "show", run, "--store", str(store), "--json"], capture_output=True, text=True, check=True).stdout)
    out: dict[str, list[float]] = {}
    for row in shown["evaluations"]:
        if row["genome"] and row["level"] == "screen":
            out.setdefault(row["region"], []).append(row["median_ms"] if row["outcome"] == "ok" else 0.0)
    return out | {"correlation": [r["rank_correlation"] for r in shown["learned"]["regions"] if r["rank_correlation"] is not None]}


def forget(store: Path, runs: list[str]) -> None:
    """Takes what these runs taught out of a store."""
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        database.executemany("delete from outcomes where run=?", [(run,) for run in runs])


def reached(times: list[float], goal: float, evals: int) -> int:
    return next((i + 1 for i, ms in enumerate(times) if 0 < ms <= goal), evals + 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("planish", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--evals", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--strategy", default="swarm")
    parser.add_argument("--tasks", default="softmax,layer_norm,gelu_residual,transpose_scale")
    options = parser.parse_args()
    planish, folder = options.planish.resolve(), options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kept_file = folder / "runs.json"
    kept: dict[str, Any] = json.loads(kept_file.read_text()) if kept_file.exists() else {}
    names = options.tasks.split(",")
    cold_store = folder / "cold" / "store.db"
    for way in ("cold", "others", "same"):
        for name in names:
            task = folder / f"{name}.py"
            task.write_text(SOURCE.format(body=TASKS[name][0], shape=TASKS[name][1]))
            for seed in range(options.seeds):
                label = f"{way} {name} {seed}"
                if label in kept:
                    continue
                store = cold_store
                if way != "cold":
                    # Seeds of its own, so that nothing is found merely because it is drawn again.
                    shutil.rmtree(folder / "warm", ignore_errors=True)
                    shutil.copytree(folder / "cold", folder / "warm")
                    store = folder / "warm" / "store.db"
                    forget(store, [kept[f"cold {name} {s}"]["run"] for s in range(options.seeds) if way == "others" or s == seed])
                run = optimise(planish, task, store, seed, options, *(["--cold"] if way == "cold" else []))
                kept[label] = {"run": run, "regions": screened(planish, store, run)}
                kept_file.write_text(json.dumps(kept))
                print(label, {region: min((ms for ms in times if ms > 0), default=0) for region, times in kept[label]["regions"].items()}, flush=True)
    table = []
    for name in names:
        mine = {label: one for label, one in kept.items() if label.split()[1] == name}
        region = next(iter(next(iter(mine.values()))["regions"]))
        goal = min(ms for one in mine.values() for ms in one["regions"][region] if ms > 0) / 0.95
        row: dict[str, Any] = {"task": name, "goal_ms": goal}
        for way in ("cold", "others", "same"):
            counts = [reached(mine[f"{way} {name} {seed}"]["regions"][region], goal, options.evals) for seed in range(options.seeds)]
            row[way] = {"evaluations": counts, "median": statistics.median(counts)}
            row[way]["correlation"] = [c for seed in range(options.seeds) for c in mine[f"{way} {name} {seed}"]["regions"]["correlation"]]
        table.append(row)
        print(f"{name:16} {goal:8.4f} ms", *(f"{way} {row[way]['evaluations']}" for way in ("cold", "others", "same")))
    (folder / "cold_warm.json").write_text(json.dumps({"evals": options.evals, "strategy": options.strategy, "tasks": table}, indent=1) + "\n")


main()
