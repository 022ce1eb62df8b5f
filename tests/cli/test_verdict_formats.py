"""What continuous integration and pipes are given: --format junit and github, files on stdin, -k and -x of suites."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from command import BINARY, Home, lines
from optimised_task import SMALL

ZEROS = """import torch

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x * 0
"""


@pytest.fixture
def broken(tmp_path: Path) -> Home:
    """Three tasks that are no Python: each is refused in a tenth of a second."""
    home = Home(tmp_path)
    (tmp_path / "tasks").mkdir()
    for name in ("1_norm", "2_norm_large", "3_softmax"):
        home.task("class Model(:\n", f"tasks/{name}.py")
    return home


def cases(text: str) -> dict[str, str]:
    """Test cases of a JUnit document by name: what is in each."""
    return {one.get("name", ""): (one[0].tag if len(one) else "") for one in xml.fromstring(text).iter("testcase")}


def test_a_suite_writes_junit_for_the_tasks_that_were_chosen(broken: Home) -> None:
    done = broken.run("suite", "tasks", "-k", "norm and not LARGE or softmax", "--format", "junit", "--out", "out")
    assert done.returncode == 1 and cases(done.stdout) == {"1_norm": "error", "3_softmax": "error"}
    assert xml.fromstring(done.stdout).find("testsuite").attrib.items() >= {"tests": "2", "errors": "2", "failures": "0"}.items()  # type: ignore[union-attr]
    assert [row["task"] for row in json.loads((broken.path / "out" / "suite.json").read_text())["tasks"]] == ["1_norm", "3_softmax"]


def test_a_suite_stops_at_the_first_failure(broken: Home) -> None:
    done = broken.run("suite", "tasks", "-x", "--format", "github")
    assert done.returncode == 1
    (annotation,) = lines(done.stdout, "::error")
    assert annotation.startswith("::error file=tasks/1_norm.py,title=planish%3A 1_norm::not_python: ") and "2_norm" not in done.stdout
    assert "stopped at the first failure: 2 of 3 tasks were not begun" in done.stderr


@pytest.mark.parametrize(
    ("expression", "error"),
    [("gelu", "-k 'gelu' chooses none of the 3 tasks"), ("norm and", "-k ends where a part of a name should stand")],
)
def test_a_choice_of_nothing_is_an_error(broken: Home, expression: str, error: str) -> None:
    done = broken.run("suite", "tasks", "-k", expression)
    assert done.returncode == 2 and lines(done.stderr, "error: ") == [f"error: {error}"] and lines(done.stderr, "hint: ")


def carried_out(text: str) -> list[str]:
    """What GitHub's runner carries out of a log: white space before `::` counts for nothing, `##[` counts anywhere."""
    done, word = [], ""
    for line in text.splitlines():
        command = line.lstrip()
        if word:
            word = "" if command.lower() == f"::{word}::".lower() else word
        elif command.startswith("::stop-commands::"):
            word = command.removeprefix("::stop-commands::")
        elif command.startswith("::") or "##[" in line:
            done.append(line)
    assert not word, "what comes after this command is carried out again"
    return done


def test_nothing_that_tasks_are_called_or_say_is_carried_out_by_the_runner(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "tasks").mkdir()
    for name in ("::stop-commands::x", "##[error]mine", "two\n  ::error::lines\n::x::"):
        home.task("class Model(:\n", f"tasks/{name}.py")
    suite = home.run("suite", "tasks", "--format", "github")
    annotations = carried_out(suite.stdout)
    assert len(annotations) == 3 and all(line.startswith("::error file=tasks/") for line in annotations)
    assert "\n::stop-commands::x " in suite.stdout and "not_python" in suite.stdout, "names are shown as they are"
    alone = home.run("verify", "tasks/two\n  ::error::lines\n::x::.py", "-", "--format", "github", input="x")
    assert len(carried_out(alone.stdout)) == 1
    for said in (suite.stderr, alone.stderr):
        assert "lines" in said and not carried_out(said)


def test_forms_exclude_each_other(broken: Home) -> None:
    done = broken.run("suite", "tasks", "--json", "--format", "junit")
    assert done.returncode == 2 and "--format" in done.stderr
    done = broken.run("suite", "tasks", "--format", "junitt")
    assert done.returncode == 2 and "did you mean 'junit'?" in done.stderr


def test_verify_reads_a_solution_from_stdin_and_says_in_both_forms_what_is_wrong(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.task(SMALL, "small.py")
    arguments = ["verify", "small.py", "-", "--target", "cpu", "--seeds", "1"]
    said = home.run(*arguments, "--format", "github", input=ZEROS, env=warm)
    assert said.returncode == 1 and "NOT verified" in said.stdout
    assert not lines(said.stderr, "next:"), "what came on stdin cannot be given again by a line to copy"
    assert lines(said.stdout, "::error file=small.py,title=planish%3A small::wrong: ")
    kept = home.run(*arguments, "--format", "junit", input=ZEROS, env=warm)
    assert kept.returncode == 1 and cases(kept.stdout) == {"small": "failure"}
    right = ZEROS.replace("x * 0", "torch.sigmoid(torch.tanh(x) * self.scale + x * x) * x")
    right = right.replace("super().__init__()", "super().__init__()\n        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, width))")
    good = home.run(*arguments, "--format", "junit", input=right, env=warm)
    assert good.returncode == 0 and cases(good.stdout) == {"small": "system-out"}, good.stdout


def test_an_error_of_the_command_has_the_form_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gone = home.run("verify", "gone.py", "x.py", "--format", "junit")
    assert gone.returncode == 2 and cases(gone.stdout) == {"planish": "error"} and "no such file" in gone.stdout
    said = home.run("verify", "gone.py", "x.py", "--format", "github")
    assert lines(said.stdout, "::error title=planish%3A planish::no_such_file: gone.py: no such file")


@pytest.mark.parametrize(
    ("arguments", "text", "error"),
    [
        (["verify", "-", "-"], "x = 1\n", "task and solution cannot both come on stdin"),
        (["verify", "task.py", "-"], "", "nothing came on stdin"),
        (["try", "task.py", "-"], "", "nothing came on stdin"),
        (["verify", "-", "task.py"], "class (:\n", "not Python"),
    ],
)
def test_what_cannot_come_on_stdin_is_said(tmp_path: Path, arguments: list[str], text: str, error: str) -> None:
    home = Home(tmp_path)
    home.task("x = 1\n")
    done = home.run(*arguments, input=text)
    assert done.returncode == 2 and error in lines(done.stderr, "error: ")[0]


def test_an_interrupt_leaves_no_copy_of_stdin(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.task(SMALL, "small.py")
    (tmp_path / "tmp").mkdir()
    python = tmp_path / "python"  # the first thing that looks at the task, for as long as it is let
    python.write_text("#!/bin/sh\nsleep 5\n")
    python.chmod(0o755)
    room = {"TMPDIR": str(tmp_path / "tmp"), "PLANISH_PYTHON": str(python)}
    verify = subprocess.Popen([str(BINARY), "verify", "-", "small.py"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=home.environment(room), cwd=tmp_path)
    assert verify.stdin is not None
    verify.stdin.write(SMALL.encode())
    verify.stdin.close()
    deadline = time.monotonic() + 60
    while not list((tmp_path / "tmp").glob("planish-stdin-*/stdin.py")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list((tmp_path / "tmp").glob("planish-stdin-*"))
    verify.send_signal(signal.SIGINT)
    assert verify.wait(60) == 130
    assert not list((tmp_path / "tmp").iterdir())
