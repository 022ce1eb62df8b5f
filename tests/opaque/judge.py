"""Judges the solutions of these tasks as a proof does, in one process: how many right ones are refused, how many wrong ones pass.

PYTHONPATH=python PLANISH_BUILD=build python tests/opaque/judge.py [--seeds N] [--json FILE] [TASK...]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from planish.capture.opaque import Module
from planish.oracle.gate import Accuracy
from planish.oracle.region import WHOLE, Region
from planish.oracle.task import Task

HERE = Path(__file__).parent
TASKS = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "judge")


def open_task(path: Path, blobs: str) -> tuple[Task, Region]:
    task = Task(str(path), torch.device("cpu"), blobs)
    outputs = [o["value"] for o in task.graph["outputs"] if "value" in o]
    return task, Region(task, WHOLE, range(len(task.graph["nodes"])), task.inputs, outputs, Accuracy("eager"))


def solutions(task: Task) -> dict[str, tuple[bool, Module]]:
    """By name: whether it is right, and how it is called. What the task itself is called by is the first."""
    module = sys.modules[type(task.model).__module__]
    found: dict[str, tuple[bool, Module]] = {}
    own = task.module
    assert own is not None
    for right, classes in ((True, [type(task.model), *module.RIGHT]), (False, module.WRONG)):
        for made in classes:
            torch.manual_seed(42)
            args, kwargs = task.loaded.make_inputs(0, "cpu")
            called = Module(made(), args, kwargs, task.path)
            called.written, called.shapes, called.plain = own.written, own.shapes, own.plain
            found[made.__name__] = right, called
    return found


def judge(task: Task, region: Region, seeds: int = 3) -> dict[str, dict[str, Any]]:
    """By solution: {right, passed, cases, failed: the regime and the words of the first case that it failed}."""
    regimes, _ = region.regimes()
    rows = {name: {"right": right, "passed": True, "cases": 0, "failed": ""} for name, (right, _) in solutions(task).items()}
    called = {name: module for name, (_, module) in solutions(task).items()}
    for regime in regimes:
        for seed in range(seeds if regime == "task" else 1):
            data = region.create(1000 + seed, regime)
            for name, row in rows.items():
                if not row["passed"]:
                    continue
                row["cases"] += 1
                data.poison()
                try:
                    results = called[name]([slot.view for slot in data.inputs])
                    for slot, result in zip(data.outputs, results, strict=True):
                        slot.view.copy_(result)
                    verdict = region.check(data, "full")
                except RuntimeError as error:
                    verdict = {"ok": False, "message": str(error)}
                if not verdict["ok"]:
                    row["passed"], row["failed"] = False, f"{regime}: {verdict['message']}"
            data.free()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.tasks:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as blobs:
            task, region = open_task(HERE / f"{name}.py", blobs)
            judged = judge(task, region, options.seeds)
        for solution, row in judged.items():
            rows.append({"task": name, "solution": solution, **row})
            wrong = "" if row["passed"] == row["right"] else "  <-- refused" if row["right"] else "  <-- accepted"
            print(f"{name:24} {solution:20} {'right' if row['right'] else 'wrong':6} {'passes' if row['passed'] else 'fails':7} {row['failed'][:90]}{wrong}")
        print(f"{name}: {time.monotonic() - start:.1f} s; left out: {region.skipped}")
    for right in (True, False):
        of = [row for row in rows if row["right"] is right]
        other = sum(row["passed"] is not right for row in of)
        print(f"{'right' if right else 'wrong'} solutions: {len(of)}, {'refused' if right else 'accepted'}: {other}; cases: {sum(row['cases'] for row in of)}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
