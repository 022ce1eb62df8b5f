"""Files that are none, and names that would write on the terminal: refused by name, and spelled out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import Home


@pytest.mark.parametrize("what", ["/dev/zero", "pipe"])
def test_a_device_or_a_pipe_is_no_task_no_solution_and_no_store(tmp_path: Path, what: str) -> None:
    home = Home(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "task.py").write_text("x = 1\n")
    for arguments in (["verify", what, "task.py"], ["verify", "task.py", what], ["try", "task.py", what], ["runs", "--store", what]):
        code, document = home.document(*arguments)
        assert code != 0 and document["error"]["kind"] == "not_a_file", (arguments, document)


@pytest.mark.parametrize("what", ["/dev/zero", "pipe"])
def test_no_settings_come_from_a_device_or_a_pipe(tmp_path: Path, what: str) -> None:
    home = Home(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for named in (["--config", what], [f"--config={what}"]):
        code, document = home.document(*named, "runs")
        assert code == 2 and document["error"]["kind"] == "not_a_file", document
    (tmp_path / "planish.toml").symlink_to(what)
    done = home.run("runs")
    assert done.returncode == 0 and "planish.toml is a pipe, a socket or a device" in done.stderr
    assert "planish.toml" not in home.run("--no-config", "runs").stderr


def test_a_file_without_end_is_no_task(tmp_path: Path) -> None:
    with (tmp_path / "task.py").open("wb") as file:
        file.truncate(1 << 40)
    code, document = Home(tmp_path).document("verify", "task.py", "task.py")
    assert code != 0 and document["error"]["kind"] == "too_large", document


def test_names_do_not_write_on_the_terminal(tmp_path: Path) -> None:
    done = Home(tmp_path).run("verify", "task\x1b[2J\u202e.py", "task.py")
    assert done.returncode != 0 and "\x1b" not in done.stderr and "\u202e" not in done.stderr
    assert "task\\x1b[2J" in done.stderr
