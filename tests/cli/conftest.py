"""What tests share: one optimised task, for those that look at what it left behind, and one warm evaluator, for those that look at verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from command import Home
from optimised_task import SMALL, Optimised
from serving import asked_by_all


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of commands whose evaluator is warm: for what does not hang on where it is asked. Importing torch is most of a small proof."""
    with asked_by_all(Home(tmp_path_factory.mktemp("warm"))) as environment:
        yield environment


@pytest.fixture(scope="session")
def optimised(tmp_path_factory: pytest.TempPathFactory) -> Optimised:
    home = Home(tmp_path_factory.mktemp("optimised"))
    task = home.task(SMALL, "small.py")
    # Three evaluations end the search, however long they take: what was decided does not hang on the clock.
    done = home.run("optimize", task, "--target", "cpu", "--budget", "120s", "--evals", "3", "--seed", "1", "--baselines", "none", "--out", "out", "--json")
    assert done.returncode in (0, 1), done.stderr
    return Optimised(home, done.returncode, json.loads(done.stdout), done.stderr)
