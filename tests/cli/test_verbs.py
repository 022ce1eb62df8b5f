"""The verbs after `optimize`: verify, suite, runs, show; and interrupting, resuming and killing a run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
from command import Home, lines, processes_with
from optimised_task import SMALL, Optimised

QUICK = ["--target", "cpu", "--baselines", "none"]

#: Outputs around 1e-5: KernelBench's absolute tolerance of 1e-4 takes zeros for them.
TINY = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 1e-5

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return []
"""


def solution(forward: str) -> str:
    return f"import torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return {forward}\n"


def test_optimize_leaves_a_result(optimised: Optimised) -> None:
    result = optimised.result
    assert result["outcome"] in ("improved", "no_improvement")
    assert optimised.code == (0 if result["outcome"] == "improved" else 1)
    assert result["accuracy"]["verified"] and result["accuracy"]["ratio"] < 3
    assert {"shipped", "eager"} <= result["times_ms"].keys()
    kept = json.loads((optimised.home.path / "out" / "result.json").read_text())
    assert kept["run"] == result["run"]
    assert (optimised.shipped / "module.py").exists() and (optimised.shipped / "evidence.json").exists()


def test_verify_proves_a_shipped_folder(optimised: Optimised) -> None:
    code, document = optimised.home.document("verify", "small.py", str(optimised.shipped), "--target", "cpu", "--seeds", "2")
    assert code == 0, document
    assert document["verified"] and document["outcome"] == "ok"
    # The two that were asked for, and new contents behind many calls.
    assert sum(case["regime"] == "task" for case in document["cases"]) > 2
    if optimised.result["form"] == "program":
        calls = document["program"]["calls"]
        assert document["program"] == {"calls": calls, "ran": calls, "reason": ""} and calls > len(document["cases"])
    else:
        assert document["program"] is None


def test_verify_finds_a_shipped_folder_that_was_changed(warm: dict[str, str], optimised: Optimised, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.task(SMALL, "small.py")
    subprocess.run(["cp", "-r", str(optimised.shipped), str(tmp_path / "changed")], check=True)
    module = tmp_path / "changed" / "module.py"
    module.write_text(module.read_text() + "\n_forward = ModelNew.forward\nModelNew.forward = lambda self, x: _forward(self, x) * 1.001\n")
    code, document = home.document("verify", "small.py", "changed", "--target", "cpu", "--seeds", "1", env=warm)
    assert code == 1, document
    assert not document["verified"]


def test_verify_judges_an_honest_solution(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    task, other = home.task(TINY), home.task(solution("1e-5 * torch.tanh(x)"), "honest.py")
    done = home.run("verify", task, other, "--target", "cpu", "--seeds", "2", "--compat", "kernelbench", env=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(done.stdout, "verified: honest.py")
    assert "says: correct" in done.stdout
    assert "held by      " in done.stdout and "no capabilities" in done.stdout


def test_verify_judges_zeros_that_pass_for_kernelbench(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    task, other = home.task(TINY), home.task(solution("torch.zeros_like(x)"), "zeros.py")
    code, document = home.document("verify", task, other, "--target", "cpu", "--seeds", "2", "--compat", "kernelbench", env=warm)
    assert code == 1, document
    assert not document["verified"] and document["outcome"] == "wrong"
    assert document["kernelbench"]["correct"] is True and document["kernelbench"]["trials"] == 5


def test_verify_says_where_kernelbenchs_rule_does_not_apply(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    text = TINY[: TINY.index("def get_init_inputs")]
    task, other = home.task(text), home.task(solution("1e-5 * torch.tanh(x)"), "honest.py")
    done = home.run("verify", task, other, "--target", "cpu", "--seeds", "1", "--compat", "kernelbench", env=warm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KernelBench's own rule was not asked" in done.stdout and "defines no get_init_inputs" in done.stdout


def test_verify_names_what_a_solution_lacks(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    task, other = home.task(TINY), home.task("x = 1\n", "nothing.py")
    code, document = home.document("verify", task, other, "--target", "cpu", "--seeds", "1", env=warm)
    assert code in (1, 2)
    assert "ModelNew" in json.dumps(document)


def test_runs_and_show(optimised: Optimised) -> None:
    home, run = optimised.home, optimised.result["run"]
    code, listed = home.document("runs")
    assert code == 0
    (row,) = (row for row in listed["runs"] if row["run"] == run)
    assert row["task"] == "small" and row["state"] == "finished" and row["outcome"] == optimised.result["outcome"]
    assert run in home.run("runs").stdout
    code, shown = home.document("show", run[:-1])  # the beginning of its id is enough
    assert code == 0
    assert shown["result"]["run"] == run
    counted = sum(sum(outcomes.values()) for tier, outcomes in optimised.result["evaluations"].items() if tier not in ("dedup",))
    assert 0 < len(shown["evaluations"]) <= counted + 50
    assert "region" in home.run("show", run).stdout
    searched = [row for row in shown["evaluations"] if row["genome"]]
    assert all(row["proposer"] and row["asked"] > 0 for row in searched)
    assert shown["regions"][0]["genes"] and shown["learned"]["operators"][0]["proposed"] > 0
    assert sum(known["outcomes"] for known in listed["tuning_database"]) > 0


def test_a_run_is_derived_again_from_its_store(optimised: Optimised, tmp_path: Path) -> None:
    run = optimised.result["run"]
    code, same = optimised.home.document("show", run, "--replay")
    assert code == 0 and same["same"] and same["difference"] is None and same["decisions"] >= 3, same
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    home = Home(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "planish" / "store.db")) as database, database:
        database.execute("update evaluations set genome='threads=77', program='0' where asked=2")
    code, other = home.document("show", run, "--replay")
    assert code == 1 and not other["same"], other
    assert other["difference"]["asked"] == 2 and "threads=77" in other["difference"]["recorded"]
    assert "differ" in home.run("show", run, "--replay").stdout


def test_suite_goes_on_after_a_failing_task_and_resumes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "good.py").write_text(SMALL)
    (folder / "bad.py").write_text("x = 1\n")
    arguments = ["suite", "tasks", "--target", "cpu", "--baselines", "eager", "--budget", "3s", "--evals", "2", "--out", "results", "--devices", "0,1"]
    done = home.run(*arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "results" / "suite.json").read_text())
    rows = {row["task"]: row for row in document["tasks"]}
    assert rows["bad"]["outcome"] == "failed" and rows["bad"]["error"]["kind"] == "no_model"
    assert rows["good"]["outcome"] in ("improved", "no_improvement")
    assert "good" in done.stdout and "bad" in done.stdout
    assert {row["device"] for row in document["tasks"]} == {"0", "1"}, "one task a device"
    spent = document["seconds"]
    assert spent["tasks"] > 0 and {"capture", "search", "claim"} <= set(spent["in"]) and "where the" in done.stdout
    before = json.loads((tmp_path / "results" / "good" / "result.json").read_text())["run"]
    again = home.run(*arguments, "--resume")
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "results" / "good" / "result.json").read_text())["run"] == before
    assert "(before)" in again.stderr


def wait_for(command: subprocess.Popen[str], text: str, seconds: float = 120) -> str:
    """Reads stderr until a line holds `text`."""
    assert command.stderr is not None
    said, end = "", time.monotonic() + seconds
    while time.monotonic() < end:
        line = command.stderr.readline()
        said += line
        if text in line:
            return said
        if not line:
            break
    command.kill()
    raise AssertionError(f"never said {text!r}: {said}")


def until(condition: object, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.1)
    return bool(condition())  # type: ignore[operator]


def states(home: Home) -> list[tuple[str, str]]:
    return [(row["run"], row["state"]) for row in home.document("runs")[1]["runs"]]


def test_an_interrupt_ends_with_what_there_is_and_the_run_goes_on(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    task = home.task(SMALL, "small.py")
    command = home.start("optimize", task, *QUICK, "--budget", "300s", "--json", "--out", "out")
    wait_for(command, "searching")
    time.sleep(1)
    command.send_signal(signal.SIGINT)
    out, _ = command.communicate(timeout=120)
    assert command.returncode == 130
    result = json.loads(out)
    assert result["outcome"] == "interrupted"
    assert Path(result["shipped"], "module.py").exists()
    assert states(home) == [(result["run"], "interrupted")]
    assert until(lambda: not processes_with(str(tmp_path)), 10), processes_with(str(tmp_path))
    before = len(home.document("show", result["run"])[1]["evaluations"])
    # Given again, the budget wins over the one of the run.
    code, resumed = home.document("optimize", "--resume", result["run"], "--budget", "1s", env=warm)
    assert code in (0, 1), resumed
    assert resumed["run"] == result["run"] and resumed["outcome"] in ("improved", "no_improvement")
    assert states(home) == [(result["run"], "finished")]
    assert len(home.document("show", result["run"])[1]["evaluations"]) >= before


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    task = home.task(SMALL, "small.py")
    command = home.start("optimize", task, *QUICK, "--budget", "300s", "--json")
    wait_for(command, "searching")
    command.send_signal(signal.SIGINT)
    wait_for(command, "once more ends at once")
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=5) == 130
    assert until(lambda: not processes_with(str(tmp_path)), 10), processes_with(str(tmp_path))
    assert [state for _, state in states(home)] == ["killed"]


def test_an_interrupt_while_capturing_leaves_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    task = home.task("import time\ntime.sleep(600)\n", "slow.py")
    command = home.start("optimize", task, *QUICK, "--json")
    wait_for(command, "capturing")
    time.sleep(0.5)
    command.send_signal(signal.SIGINT)
    out, _ = command.communicate(timeout=10)
    assert command.returncode == 130
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert home.store_bytes() == {}
    assert until(lambda: not processes_with(str(tmp_path)), 10), processes_with(str(tmp_path))


@pytest.mark.parametrize("after", ["capturing", "searching"])
def test_kill_9_leaves_no_process_and_a_readable_store(warm: dict[str, str], tmp_path: Path, after: str) -> None:
    home = Home(tmp_path)
    task = home.task(SMALL, "small.py")
    command = home.start("optimize", task, *QUICK, "--budget", "300s")
    wait_for(command, after)
    if after == "searching":
        ((run, state),) = states(home)
        assert state == "running"
        code, refused = home.document("optimize", "--resume", run)
        assert code == 2 and refused["error"]["kind"] == "busy", refused
    time.sleep(int.from_bytes(os.urandom(1), "little") / 256 * 2)
    command.kill()
    command.wait()
    assert until(lambda: not processes_with(str(tmp_path)), 15), processes_with(str(tmp_path))
    rows = states(home)
    if after == "searching":
        assert rows == [(run, "killed")]
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "planish" / "store.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        code, resumed = home.document("optimize", "--resume", run, "--budget", "1s", env=warm)
        assert code in (0, 1), resumed
        assert resumed["run"] == run
        # What the killed process had decided and what the other one did are one search: both are derived again, from one seed.
        code, replayed = home.document("show", run, "--replay")
        assert code == 0 and replayed["same"] and replayed["decisions"] > 0, replayed


def test_measurements_wait_for_those_of_another_run(tmp_path: Path) -> None:
    home = Home(tmp_path)
    task = home.task(SMALL, "small.py")
    (tmp_path / "locks").mkdir(mode=0o700)
    mine = {"PLANISH_LOCK_DIR": str(tmp_path / "locks")}
    with open(tmp_path / "locks" / "planish-cpu.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("other.py (pid 7, user somebody)")
        lock.flush()
        command = home.start("optimize", task, *QUICK, "--evals", "1", env=mine)
        said = wait_for(command, "waiting to measure on cpu: other.py (pid 7, user somebody) is measuring there")
        assert "searching" not in said and command.stderr is not None
        fcntl.flock(lock, fcntl.LOCK_UN)
    rest = command.stderr.read()
    assert command.wait(timeout=120) in (0, 1), rest
    assert "searching" in rest, rest
