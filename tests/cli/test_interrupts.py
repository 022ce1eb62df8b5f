"""Ctrl-C before the search and behind it: in the check, the whole program, the proof, the timing. Each ends soon, says what is kept, and leaves nothing."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Home, processes_with
from optimised_task import SMALL
from terminal import OnTerminal

ENDING = "interrupted: ending with what is proved by now; once more ends at once"
#: Seconds for what ends "soon", on a machine that does other things as well.
SOON = 15


class Rooms:
    """A home whose temporary files can be told from others'."""

    def __init__(self, path: Path, temporary: str) -> None:
        self.home = Home(path)
        self.environment = {"TMPDIR": temporary}

    def interrupted(self, phase: str, *arguments: str, presses: int = 1) -> tuple[OnTerminal, str]:
        """The command after it ended, and the only run that there is."""
        with OnTerminal(self.home, "optimize", *arguments, "--target", "cpu", "--no-serve", env=self.environment) as command:
            command.until(lambda text: phase in text, 240)
            for _ in range(presses):
                command.press(b"\x03")
            assert command.finish(SOON) == 130, command.text
        self.nothing_runs()
        ((row),) = self.home.document("runs")[1]["runs"]
        with contextlib.closing(sqlite3.connect(self.home.path / "data" / "planish" / "store.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert presses > 1 or row["state"] == "interrupted"
        return command, row["run"]

    def nothing_runs(self) -> None:
        end = time.monotonic() + 10
        while (left := processes_with(str(self.home.path))) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left

    def temporary(self) -> list[str]:
        return [path.name for path in Path(self.environment["TMPDIR"]).iterdir() if path.name.startswith(("planish-ev-", "planish-guest-"))]

    def result(self) -> dict[str, object]:
        return dict(json.loads((self.home.path / "out" / "result.json").read_text()))


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    with tempfile.TemporaryDirectory(prefix="t") as temporary:  # short: sockets lie in it
        yield Rooms(tmp_path, temporary)


def test_each_later_phase_ends_soon_and_the_run_goes_on(rooms: Rooms) -> None:
    task = rooms.home.task(SMALL, "small.py")
    # Two at once, in the proof: at once, and the next command takes away what could not be taken away then.
    command, run = rooms.interrupted("[6/7]", task, "--budget", "120s", "--evals", "2", "--baselines", "none", "--out", "out", presses=2)
    assert ENDING in command.screen()

    command, again = rooms.interrupted("[2/7]", "--resume", run)
    assert again == run and ENDING in command.screen()
    assert any("interrupted while the captured program was checked: nothing is proved" in line for line in command.screen())
    assert rooms.result()["form"] == "baseline" and not rooms.temporary()

    command, again = rooms.interrupted("[5/7]", "--resume", run)
    assert again == run
    assert ENDING in command.screen() and f"next: planish optimize --resume {run}" in command.screen()
    assert "small: nothing proved (interrupted)" in command.screen()
    assert any("interrupted while the whole program was checked: nothing is proved" in line for line in command.screen())
    assert not rooms.temporary()

    command, _ = rooms.interrupted("[6/7]", "--resume", run)
    assert any("interrupted while what was found was proved: nothing is proved" in line for line in command.screen())
    assert rooms.result()["form"] == "baseline", "what is not proved does not ship"
    assert not rooms.temporary()

    command, _ = rooms.interrupted("[7/7]", "--resume", run, "--baselines", "eager,max-autotune")
    assert any("interrupted while it was timed: what ships is proved and has no times" in line for line in command.screen())
    result = rooms.result()
    assert result["outcome"] == "interrupted" and result["form"] == "program" and not result["times_ms"]
    assert Path(str(result["shipped"]), "module.py").exists()
    assert not rooms.temporary()
