"""docs/conventions.md: its counts are those of its rows, and what its commands name is there, or is not."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLANISH = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin/planish-bin"
PAGE = (ROOT / "docs/conventions.md").read_text()
ROWS = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")][1:]
COMMANDS = [(row[2], command.strip()) for row in ROWS for code in re.findall(r"`([^`]+)`", row[3]) for command in code.split(";")]


def help_of(*verbs: str) -> str:
    done = subprocess.run([PLANISH, *verbs, "--help"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def test_the_summary_counts_the_rows() -> None:
    counts = Counter(row[2] for row in ROWS)
    assert set(counts) == {"works", "partly", "missing"}
    assert f"**{len(ROWS)} habits: {counts['works']} work, {counts['partly']} partly, {counts['missing']} are missing.**" in PAGE
    assert all(row[3] for row in ROWS)


@pytest.mark.parametrize("command", sorted({c for status, c in COMMANDS if status != "missing" and re.match(r"planish [a-z]+ .*--[a-z]", c)}))
def test_a_command_that_a_row_shows_has_its_options(command: str) -> None:
    if "--bugdet" in command:  # what the row shows is the suggestion
        assert "--bugdet" not in help_of("optimize")
        return
    text = help_of(command.split()[1])
    options = re.findall(r"--[a-z][a-z-]*", command)
    assert text and all(re.search(rf"{option}\b", text) for option in options), command


def test_what_is_missing_is_missing() -> None:
    """So that a row is mended with what it misses."""
    assert not help_of("self") and not (ROOT / ".pre-commit-hooks.yaml").exists()
    assert "--watch" not in help_of("optimize") and "--isolated" not in help_of()
