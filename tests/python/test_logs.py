"""PLANISH_LOGS, and the loggers behind it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from planish import logs, session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that finds nothing."""
    made = tmp_path / "planish"
    made.write_text('#!/bin/sh\necho \'{"outcome": "no_improvement"}\'\nexit 1\n')
    made.chmod(0o755)
    monkeypatch.setenv("PLANISH_BIN", str(made))
    return made


def test_a_search_says_what_is_started_and_how_it_ended(command: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "planish.search"):
        session.run(["optimize", "a task.py"], progress=False)
    started, ended = (record.getMessage() for record in caplog.records)
    assert started == f"{command} optimize 'a task.py' --json --quiet"
    assert ended.startswith("no_improvement after ") and ended.endswith("(exit code 1)")


def test_the_variable_shows_what_it_names_and_names_what_it_does_not_know(command: Path) -> None:
    program = "import planish\nfrom planish import session\nsession.run(['optimize', 'x'], False)"

    def said(categories: str) -> str:
        environment = {**os.environ, "PLANISH_LOGS": categories, "PYTHONPATH": str(ROOT / "python")}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stderr

    assert "planish.search] no_improvement after" in said("search")
    assert said("calls, store") == ""
    assert "no category 'serch': did you mean search?" in said("serch")
    every = said("all,what")
    assert "planish.search]" in every and f"there are {', '.join(logs.CATEGORIES)}, and all" in every
