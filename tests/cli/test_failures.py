"""Failures around a run that no bad task causes: processes that die, a store that is held or damaged, what is missing or may not be read."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
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


@dataclass
class Killed:
    """A command some of whose processes were killed. `phases`: what it said it was doing, `counts`: how many died in which."""

    code: int
    stdout: str
    stderr: str
    counts: dict[str, int]


def kill_when(home: Home, command: subprocess.Popen[str], wanted: dict[str, str], to_the_end: str = "") -> Killed:
    """Kills every process with `wanted[phase]` in its command line once the command says `phase`; in the phase `to_the_end` also those
    that come later (the first that is found may be one of the phase before that is just going)."""
    assert command.stderr is not None and command.stdout is not None
    said, counts = "", dict.fromkeys(wanted, 0)
    out: list[str] = []
    reader = threading.Thread(target=lambda: out.append(command.stdout.read()))  # type: ignore[union-attr]
    reader.start()
    for line in command.stderr:
        said += line
        for phase, word in wanted.items():
            end = time.monotonic() + 60
            while phase in line and (not counts[phase] or phase == to_the_end) and time.monotonic() < end and command.poll() is None:
                for process in processes(home, word):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                        counts[phase] += 1
                time.sleep(0.02)
    command.wait(timeout=120)
    reader.join()
    return Killed(command.returncode, out[0], said, counts)


@pytest.fixture(scope="module")
def wounded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Killed]:
    """One run that loses its oracle in the search, and at the end its baseline."""
    home = Home(tmp_path_factory.mktemp("wounded"))
    command = home.start("optimize", home.task(SMALL), *QUICK)
    return home, kill_when(home, command, {"searching": "planish.oracle", "timing it beside": "planish.baseline"}, to_the_end="timing it beside")


@pytest.fixture(scope="module")
def kept(wounded: tuple[Home, Killed]) -> dict[str, Any]:
    """What the store has of that run."""
    home, _ = wounded
    (row,) = home.document("runs")[1]["runs"]
    return {**row, "evaluations": home.document("show", row["run"])[1]["evaluations"]}


def test_an_oracle_that_is_killed_is_replaced_and_the_run_goes_on(wounded: tuple[Home, Killed], kept: dict[str, Any]) -> None:
    _, killed = wounded
    assert killed.counts["searching"], killed.stderr
    after = killed.stderr.split("searching", 1)[1]
    assert "verifying what is shipped" in after and "timing it beside" in after, killed.stderr
    searched = [e for e in kept["evaluations"] if e["genome"]]
    assert searched and all(e["outcome"] != "infrastructure" for e in searched), searched


def test_a_baseline_that_is_killed_ends_the_run_as_failed(wounded: tuple[Home, Killed], kept: dict[str, Any]) -> None:
    _, killed = wounded
    assert killed.counts["timing it beside"] and killed.code == 3, killed.stderr
    error = json.loads(killed.stdout)["error"]
    # Whoever killed it: the kernel did not, for lack of memory, or it would have counted.
    assert error["kind"] == "killed" and "baseline" in error["message"] and "signal 9" in error["message"], error
    assert f"--resume {kept['run']}" in error["hint"] and "Traceback" not in killed.stderr, error
    assert kept["state"] == "failed" and kept["evaluations"]


def test_a_failed_run_is_resumed_with_its_settings(wounded: tuple[Home, Killed], kept: dict[str, Any]) -> None:
    home, _ = wounded
    code, again = home.document("optimize", "--resume", kept["run"], "--evals", "3")
    assert code in (0, 1) and again["run"] == kept["run"], again
    assert again["outcome"] in ("improved", "no_improvement") and again["accuracy"]["verified"], again
    assert again["target"] == "cpu" and set(again["times_ms"]) <= {"shipped", "candidate", "eager"}, again
    (row,) = home.document("runs")[1]["runs"]
    assert row["state"] == "finished"
    assert len(home.document("show", again["run"])[1]["evaluations"]) >= len(kept["evaluations"])


# -- the store --


def copy_of_store(optimised: Optimised, target: Path) -> Path:
    with contextlib.closing(sqlite3.connect(optimised.home.path / "data" / "planish" / "store.db")) as old, contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)
    return target


def error_of(done: subprocess.CompletedProcess[str], kind: str, code: int, *words: str) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    error: dict[str, Any] = json.loads(done.stdout)["error"]
    assert error["kind"] == kind and error["hint"] and all(word in error["message"] for word in words), error
    assert lines(done.stderr, "hint: ") and "Traceback" not in done.stderr
    return error


def test_a_store_that_another_process_holds(optimised: Optimised, tmp_path: Path) -> None:
    store = copy_of_store(optimised, tmp_path / "held.db")
    home = Home(tmp_path)
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        done = home.run("optimize", home.task(SMALL), *QUICK, "--store", str(store))
    error_of(done, "store_busy", 2, "held.db")
    code, listed = home.document("runs", "--store", str(store))
    assert code == 0 and len(listed["runs"]) == 1


@pytest.mark.parametrize("damage", ["overwritten", "cut"])
def test_a_damaged_store_stays_as_it_was(optimised: Optimised, tmp_path: Path, damage: str) -> None:
    store = copy_of_store(optimised, tmp_path / "damaged.db")
    size = store.stat().st_size
    with store.open("r+b") as file:
        if damage == "overwritten":  # all but the first page, which says what the file is
            file.seek(4096)
            file.write(os.urandom(size - 4096))
        else:
            file.truncate(size // 2)
    before = store.read_bytes()
    home = Home(tmp_path)
    run = optimised.result["run"]
    for arguments in (["runs"], ["show", run], ["export", run], ["optimize", home.task(SMALL), "--target", "cpu"], ["optimize", "--resume", run]):
        error_of(home.run(*arguments, "--store", str(store), "--json"), "store_corrupt", 2, "damaged.db")
    assert store.read_bytes() == before


def limited(file_bytes: int) -> Any:
    """For a child: no file may grow beyond this."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def test_files_that_may_not_grow(optimised: Optimised, tmp_path: Path) -> None:
    """A disk that fills in the middle looks like this to whoever writes, and needs no disk of its own."""
    store = copy_of_store(optimised, tmp_path / "small.db")
    home = Home(tmp_path)
    limit = limited(store.stat().st_size)
    error_of(home.run("optimize", home.task(SMALL), *QUICK, "--store", str(store), preexec_fn=limit), "disk_full", 3, "small.db")
    code, listed = home.document("runs", "--store", str(store))
    assert code == 0 and optimised.result["run"] in [row["run"] for row in listed["runs"]]
    code, shown = home.document("show", optimised.result["run"], "--store", str(store))
    assert code == 0 and shown["evaluations"]


# -- exporting what is not there --


@pytest.mark.parametrize(("state", "words"), [("running", "was killed"), ("failed", "failed"), ("finished", "no shipped folder")])
def test_export_of_a_run_that_shipped_nothing(optimised: Optimised, tmp_path: Path, state: str, words: str) -> None:
    store = copy_of_store(optimised, tmp_path / "runs.db")
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute("UPDATE runs SET state=?, out_folder=?", (state, str(tmp_path / "gone")))
        database.commit()
    run = optimised.result["run"]
    home = Home(tmp_path)
    error = error_of(home.run("export", run, "--form", "file", "--store", str(store), "--json"), "not_shipped", 2, run, words)
    assert state == "finished" or f"--resume {run}" in error["hint"]
    assert sorted(path.name for path in tmp_path.iterdir() if "runs.db" not in path.name) == []


# -- foreign solutions --

SOLUTION = "import os, time, torch\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Both at once: most of each is the import of torch, or waiting."""
    bodies = {"crash": "os.kill(os.getpid(), 11)", "hang": "time.sleep(1000)"}

    def attempt(name: str) -> subprocess.CompletedProcess[str]:
        home = Home(tmp_path_factory.mktemp(name))
        solution = home.task(f"{SOLUTION}\n    def forward(self, x):\n        {bodies[name]}\n", "solution.py")
        return home.run("verify", home.task(SMALL), solution, "--target", "cpu", "--seeds", "1", "--task-timeout", "12s", "--json")

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(bodies, pool.map(attempt, bodies), strict=True))


@pytest.mark.parametrize(("name", "words"), [("crash", "signal 11"), ("hang", "its forward did not end within 12 s")])
def test_a_solution_that_takes_its_process_down(judged: dict[str, subprocess.CompletedProcess[str]], name: str, words: str) -> None:
    done = judged[name]
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert not document["verified"] and document["outcome"] == name and words in document["message"], document
    assert document["program"] is None and "Traceback" not in done.stderr


# -- what is missing --


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


def test_an_oracle_that_is_stopped_ends_the_command(tmp_path: Path) -> None:
    """At its start, and in the midst of a task's import: both at once, as each waits for the same ten seconds."""
    home = Home(tmp_path)
    wrapper = tmp_path / "python"
    real = os.environ.get("PLANISH_PYTHON", sys.executable)
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *planish.oracle*) kill -STOP $$;; esac\nexec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    task, reached = home.task(SMALL), tmp_path / "reached"
    waits = home.task(f"import time\nopen({str(reached)!r}, 'w').close()\ntime.sleep(600)\n" + SMALL, "waits.py")
    began = time.monotonic()
    commands = {
        "hello": home.start("optimize", task, *QUICK, env={"PLANISH_PYTHON": str(wrapper)}),
        "open": home.start("optimize", waits, *QUICK, "--store", str(tmp_path / "other.db")),
    }
    try:
        while not reached.exists():
            assert time.monotonic() - began < 120 and commands["open"].poll() is None, "the task was never imported"
            time.sleep(0.05)
        stopped = [p for p in processes(home, "planish.oracle") if not Path(f"/proc/{p}/stat").read_text().rpartition(") ")[2].startswith("T")]
        assert stopped
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        for method, command in commands.items():
            stdout, stderr = command.communicate(timeout=120)
            assert command.returncode == 3, stderr
            error = json.loads(stdout)["error"]
            assert error["kind"] == "killed" and f"was stopped by a signal (SIGSTOP or job control) during `{method}`" in json.dumps(error), error
            assert "find out who stopped it" in error["hint"]
    finally:
        for command in commands.values():
            command.kill()
            command.communicate()
    assert not processes(home, "planish.oracle")
