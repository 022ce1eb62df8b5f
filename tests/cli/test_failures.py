"""Failures around a run that no bad task causes: processes that die, a store that is held, what is missing or may not be read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

from command import Home, lines
from optimised_task import SMALL, Optimised

QUICK = ["--target", "cpu", "--baselines", "none", "--budget", "20s", "--evals", "4", "--json"]


def processes(home: Home, word: str) -> list[int]:
    """Ids of the live processes of this home whose command line holds `word`."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes() and str(home.path).encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def kill_when(home: Home, command: subprocess.Popen[str], phase: str, word: str) -> tuple[str, str, int]:
    """Kills every process with `word` once the command says `phase`: (stdout, stderr, how many)."""
    assert command.stderr is not None and command.stdout is not None
    said, killed = "", 0
    out: list[str] = []
    reader = threading.Thread(target=lambda: out.append(command.stdout.read()))  # type: ignore[union-attr]
    reader.start()
    for line in command.stderr:
        said += line
        if phase in line and not killed:
            end = time.monotonic() + 30
            while not killed and time.monotonic() < end and command.poll() is None:
                for process in processes(home, word):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                        killed += 1
                time.sleep(0.02)
    command.wait(timeout=120)
    reader.join()
    return out[0], said, killed


def test_an_oracle_that_is_killed_is_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    command = home.start("optimize", home.task(SMALL), *QUICK)
    out, said, killed = kill_when(home, command, "searching", "planish.oracle")
    assert killed, said
    assert command.returncode in (0, 1), said
    result = json.loads(out)
    assert result["outcome"] in ("improved", "no_improvement") and result["accuracy"]["verified"], result


def test_a_baseline_that_is_killed_ends_the_run_as_failed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    command = home.start("optimize", home.task(SMALL), *QUICK)
    out, said, killed = kill_when(home, command, "timing it beside", "planish.baseline")
    assert killed and command.returncode == 3, said  # killed by the system: most likely for lack of memory
    error = json.loads(out)["error"]
    assert error["message"] and error["hint"] and "Traceback" not in said, error
    assert [row["state"] for row in home.document("runs")[1]["runs"]] == ["failed"]  # and --resume would go on


def test_a_finished_run_is_resumed_with_its_settings(tmp_path: Path) -> None:
    home = Home(tmp_path)  # of its own: others look at the run that the fixture made
    code, first = home.document("optimize", home.task(SMALL), *QUICK)
    assert code in (0, 1), first
    before = home.document("show", first["run"])[1]["evaluations"]
    code, again = home.document("optimize", "--resume", first["run"], "--evals", "3")
    assert code in (0, 1) and again["run"] == first["run"], again
    after = home.document("show", again["run"])[1]["evaluations"]
    assert len(after) >= len(before)


def test_a_store_that_another_process_holds(optimised: Optimised, tmp_path: Path) -> None:
    store = tmp_path / "held.db"
    source = optimised.home.path / "data" / "planish" / "store.db"
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(store)) as new:
        old.backup(new)
    home = Home(tmp_path)
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        done = home.run("optimize", home.task(SMALL), *QUICK, "--store", str(store))
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "store_busy" and "held.db" in error["message"] and error["hint"], error
    code, listed = home.document("runs", "--store", str(store))
    assert code == 0 and len(listed["runs"]) == 1


def test_a_solution_that_takes_its_process_down(tmp_path: Path) -> None:
    home = Home(tmp_path)
    start = "import os, torch\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
    text = start + "\n    def forward(self, x):\n        os.kill(os.getpid(), 11)\n"
    done = home.run("verify", home.task(SMALL), home.task(text, "solution.py"), "--target", "cpu", "--seeds", "1", "--json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert not document["verified"] and document["outcome"] != "ok" and "crash" in document["outcome"], document
    assert document["program"] is None


def test_without_python_or_torch(tmp_path: Path) -> None:
    home = Home(tmp_path)
    task = home.task(SMALL)
    done = home.run("optimize", task, *QUICK, env={"PLANISH_PYTHON": "/no/such/python"})
    assert done.returncode == 3, done.stdout
    assert "/no/such/python" in json.loads(done.stdout)["error"]["message"] and lines(done.stderr, "hint: ")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "torch.py").write_text("raise ImportError('no torch here')\n")
    done = home.run("optimize", task, *QUICK, env={"PYTHONPATH": str(tmp_path / "bare")})
    assert done.returncode == 3, done.stdout
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "no_torch" and "no torch here" in error["message"] and error["hint"], error
    assert home.store_bytes() == {}
