"""Forged times (corpus_times.py) through the verbs that tell or reward one: `environment`, `try` and `suite --solutions`.

    PLANISH_BUILD=build python tests/cheats/run_corpus.py --through environment [--only WORDS]

Each does nine times the work of its task, so that a gain of more than `MOST` is forged."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from command import Home
from corpus import Entry
from corpus_times import TIMED_TASKS
from endpoint import Endpoint
from planish.environment import Environment

MOST = 0.5


@dataclass(frozen=True)
class Told:
    """What a verb said of an entry: the gain, where it was accepted, and how much of a reward is for that."""

    name: str
    outcome: str
    gain: float | None
    reward: float = 0

    @property
    def forged(self) -> bool:
        return (self.gain or 0) > MOST or self.reward > MOST


def environment(folder: Path, entries: Sequence[Entry]) -> Iterator[Told]:
    home = Home(folder)
    (folder / "tasks").mkdir()
    for name, text in TIMED_TASKS.items():
        (folder / "tasks" / f"{name}.py").write_text(text)
    with Endpoint(home, "--tasks", "tasks") as running:
        client = Environment(running.url, token="", timeout=300)
        for entry in entries:
            grade = client.grade(f"```python\n{entry.cheat}\n```", entry.task)
            right = 0.3 if grade.correct else 0.0
            yield Told(entry.name, str(grade.outcome), grade.speedup, (grade.reward or 0.0) - right)


def tried(folder: Path, entries: Sequence[Entry]) -> Iterator[Told]:
    home = Home(folder)
    for entry in entries:
        files = home.task(TIMED_TASKS[entry.task]), home.task(entry.cheat, "solution.py")
        found = home.document("try", *files, "--target", "cpu", "--quick")[1]
        yield Told(entry.name, str(found["outcome"]), found["speedup"])


def suite(folder: Path, entries: Sequence[Entry]) -> Iterator[Told]:
    """All of one task: its samples."""
    home = Home(folder)
    level, run = folder / "KernelBench" / "level1", folder / "run"
    level.mkdir(parents=True)
    run.mkdir()
    (level / "1_Timed.py").write_text(TIMED_TASKS["timed"])
    for number, entry in enumerate(entries):
        (run / f"level_1_problem_1_sample_{number}_kernel.py").write_text(entry.cheat)
    done = home.run("suite", "KernelBench", "--solutions", "run", "--target", "cpu", "--baselines", "none", "--seeds", "1", "--out", "out", "--json")
    for row in json.loads(done.stdout)["tasks"]:
        if row["solution"]:
            yield Told(entries[row["sample"]].name, row["verdict"], row["speedup"].get("eager"))


VERBS: dict[str, Callable[[Path, Sequence[Entry]], Iterator[Told]]] = {"environment": environment, "try": tried, "suite": suite}
