"""Judges entries of the corpus by one evaluator that stays warm: a session for each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import TASKS, Entry
from test_bad_candidates import Evaluator


@dataclass
class Judged:
    """What became of a cheat and of its honest twin."""

    entry: Entry
    cheat: dict[str, Any]
    twin: dict[str, Any]

    @property
    def caught(self) -> bool:
        return not self.cheat["verified"] and self.cheat["outcome"] in self.entry.outcomes

    @property
    def passed(self) -> bool:
        return bool(self.twin["verified"])


class Judge:
    """Owns the evaluators, one a task, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.evaluators: dict[str, Evaluator] = {}

    def _of(self, which: str) -> Evaluator:
        if which not in self.evaluators:
            folder = self.folder / which
            folder.mkdir(parents=True)
            (folder / "task.py").write_text(TASKS[which])
            self.close()  # each holds an oracle and its spares
            self.evaluators[which] = Evaluator(folder, folder / "task.py", region=False)
        return self.evaluators[which]

    def judge(self, entry: Entry) -> Judged:
        found = []
        for kind, source in (("cheat", entry.cheat), ("twin", entry.twin)):
            path = self.folder / f"{kind}.py"
            path.write_text(source)
            found.append(self._of(entry.task).verify(path))
        return Judged(entry, *found)

    def close(self) -> None:
        for evaluator in self.evaluators.values():
            evaluator.close()
        self.evaluators.clear()
