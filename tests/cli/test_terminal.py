"""What a person at a terminal sees: progress, Ctrl-C, colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Home
from optimised_task import SMALL
from terminal import OnTerminal

OPTIMISE = ("--target", "cpu", "--baselines", "none", "--no-serve")


def test_the_answer_to_ctrl_c_stays_and_no_time_is_left_any_more(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path, warm)
    with OnTerminal(home, "optimize", home.task(SMALL, "small.py"), *OPTIMISE, "--budget", "120s") as command:
        command.until(lambda text: " tried, " in text and "s left" in text, 240)
        before = len(command.bytes)
        command.press(b"\x03")
        after = command.until(lambda text: "interrupted: " in text, 10)
        assert command.finish(240) == 130, after
        after = command.bytes[before:].decode(errors="replace")
        assert "interrupted: ending with what was found; once more ends at once" in command.screen()
        assert "s left" not in after.split("interrupted: ", 1)[1]
        assert "ending" in after.split("once more ends at once", 1)[1]
        assert "\x1b[?25l" not in command.text, "the cursor is never hidden"
        assert not [line for line in command.screen() if " tried, " in line], "what was redrawn is gone"
        assert any(line.startswith("next: planish optimize --resume ") for line in command.screen())


def test_a_second_ctrl_c_ends_at_once(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path, warm)
    with OnTerminal(home, "optimize", home.task(SMALL, "small.py"), *OPTIMISE, "--budget", "120s") as command:
        command.until(lambda text: " tried, " in text, 240)
        command.press(b"\x03")
        command.until(lambda text: "interrupted: " in text, 10)
        command.press(b"\x03")
        assert command.finish(10) == 130


def test_a_suite_shows_what_its_task_is_doing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "small.py").write_text(SMALL)
    with OnTerminal(home, "suite", "tasks", *OPTIMISE[:4], "--budget", "2s", "--evals", "2") as command:
        assert command.finish(400) == 0, command.text
        assert "[4/7] searching" in command.text or "[7/7]" in command.text, "the lines of its command"
        assert "0 of 1 done in" in command.text
        assert not [line for line in command.screen() if "of 1 done" in line]
        assert any(line.startswith("[1/1] small: ") for line in command.screen())


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"CLICOLOR": "0"}, False), ({"TERM": "dumb"}, False)])
def test_colours_on_a_terminal(tmp_path: Path, env: dict[str, str], coloured: bool) -> None:
    with OnTerminal(Home(tmp_path), "frobnicate", env=env) as command:
        assert command.finish(20) == 2
        assert ("\x1b[1;31merror:\x1b[0m" in command.text) == coloured
        assert "error:" in command.text


def test_colours_elsewhere_only_where_they_are_asked_for(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert "\x1b" not in home.run("frobnicate").stderr
    for name in ("CLICOLOR_FORCE", "FORCE_COLOR"):
        assert "\x1b[1;31merror:" in home.run("frobnicate", env={name: "1"}).stderr
        assert "\x1b" not in home.run("frobnicate", env={name: "0"}).stderr
    assert "\x1b" not in home.run("frobnicate", env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).stderr
