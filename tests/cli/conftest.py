"""One optimised task, shared by the tests that look at what it left behind."""

from __future__ import annotations

import json

import pytest
from command import Home
from optimised_task import SMALL, Optimised


@pytest.fixture(scope="session")
def optimised(tmp_path_factory: pytest.TempPathFactory) -> Optimised:
    home = Home(tmp_path_factory.mktemp("optimised"))
    task = home.task(SMALL, "small.py")
    # Three evaluations end the search, however long they take: what was decided does not hang on the clock.
    done = home.run("optimize", task, "--target", "cpu", "--budget", "120s", "--evals", "3", "--seed", "1", "--baselines", "none", "--out", "out", "--json")
    assert done.returncode in (0, 1), done.stderr
    return Optimised(home, done.returncode, json.loads(done.stdout), done.stderr)
