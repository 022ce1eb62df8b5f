"""Judges entries of the corpus by one evaluator that stays warm: a session for each task."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import TASKS, Entry
from corpus_times import TIMED_TASKS
from evaluator import Evaluator

ALL_TASKS = {**TASKS, **TIMED_TASKS}


@dataclass
class Judged:
    """What became of a cheat and of its honest twin."""

    entry: Entry
    cheat: dict[str, Any]
    twin: dict[str, Any]

    @property
    def caught(self) -> bool:
        if self.cheat["verified"] and self.entry.slower and self.twin.get("times"):
            return bool(self.cheat["times"]["median_ms"] >= self.entry.slower * self.twin["times"]["median_ms"])
        return not self.cheat["verified"] and self.cheat["outcome"] in self.entry.outcomes

    @property
    def passed(self) -> bool:
        return bool(self.twin["verified"])


def lacking(entry: Entry) -> str:
    """What this machine lacks for the entry; empty where it lacks nothing."""
    modules = {"triton": ["triton"], "nvcc": ["ninja"]}.get(entry.needs, [])
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    programs = {"triton": ["cc"], "nvcc": ["nvcc", "c++"]}.get(entry.needs, [])
    return ", ".join([*missing, *(name for name in programs if shutil.which(name) is None)])


class Judge:
    """Owns the evaluators, one a task, in `folder`. One thread at a time; several judges may work side by side."""

    def __init__(self, folder: Path, target: str = "cpu", tasks: dict[str, str] = ALL_TASKS) -> None:
        self.folder = folder
        self.target = target
        self.tasks = tasks
        self.evaluators: dict[str, Evaluator] = {}

    def _of(self, which: str) -> Evaluator:
        if which not in self.evaluators:
            folder = self.folder / which
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "task.py").write_text(self.tasks[which])
            self.close()  # each holds an oracle and its spares
            self.evaluators[which] = Evaluator(folder, folder / "task.py", region=False, target=self.target)
        return self.evaluators[which]

    def judge(self, entry: Entry) -> Judged:
        found = []
        for kind, source in (("cheat", entry.cheat), ("twin", entry.twin)):
            path = self.folder / f"{kind}.py"
            path.write_text(source)
            found.append(self._verdict(entry, path))
        return Judged(entry, *found)

    def _verdict(self, entry: Entry, path: Path) -> dict[str, Any]:
        try:
            return self._of(entry.task).verify(path, time=entry.time)
        except (AssertionError, OSError) as error:  # the judge's own failure: it counts as one, and the others are judged all the same
            self.close()
            return {"verified": False, "outcome": "no verdict", "message": str(error)}

    def close(self) -> None:
        for evaluator in self.evaluators.values():
            evaluator.close()
        self.evaluators.clear()
