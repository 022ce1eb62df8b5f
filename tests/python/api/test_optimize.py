"""planish.optimize around a command that answers as told: what it is given, what becomes of its answer."""

from __future__ import annotations

import collections
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from planish.capture import capture
from planish.ship import guards
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "ship"))

from shipping import aten_program, write

IMPROVED = {"outcome": "improved", "task": "Block", "speedup": {"eager": 2.0, "compile": 1.5}, "speedup_best_baseline": 1.5, "best_baseline": "compile",
            "times_ms": {"shipped": {"median": 1.0, "lo": 0.9, "hi": 1.1}, "eager": {"median": 2.0, "lo": 1.9, "hi": 2.1}},
            "accuracy": {"ratio": 1.0, "gate": "eager"}}  # fmt: skip
NOTHING = {"outcome": "no_improvement", "reason": "eager is faster than what was found (0.90x)", "task": "Block", "speedup": {"eager": 0.9},
           "speedup_best_baseline": 0.9, "shipped": "/nowhere"}  # fmt: skip


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, gain: float = 1.0) -> torch.Tensor:
        return self.inner(x).relu() * gain


class Command:
    """The fake command, and what it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.calls_file, self.plan_file = folder, folder / "calls.json", folder / "plan.json"
        program = folder / "planish"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "fake_command.py"} "$@"\n')
        program.chmod(0o755)
        (folder / "tmp").mkdir()
        for name, value in {"PLANISH_BIN": program, "FAKE_PLAN": self.plan_file, "FAKE_CALLS": self.calls_file, "PLANISH_DATA": folder / "data"}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))

    def answers(self, *steps: dict[str, Any]) -> None:
        self.plan_file.write_text(json.dumps([{"code": 0 if s["result"].get("outcome") == "improved" else 1, **s} for s in steps]))

    @property
    def calls(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.calls_file.read_text()) if self.calls_file.exists() else []
        return found

    def left(self) -> list[str]:
        """What lies in the temporary and the data folder."""
        return sorted(str(p.relative_to(self.folder)) for root in ("tmp", "data") for p in (self.folder / root).rglob("*") if p.is_file())


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(tmp_path, monkeypatch)


def shipped(folder: Path, module: nn.Module, *args: Any, **kwargs: Any) -> str:
    """A program of the module for these inputs, as the command would ship it."""
    blobs = folder / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(module, args, kwargs, blobs).graph
    return str(write(folder / "shipped", folder, aten_program(graph), graph, modules=guards.configuration(module)))


@torch.no_grad()
def test_an_improvement_is_attached_and_says_what_it_is(command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, x = Block(), torch.randn(4, 8)
    command.answers({"result": IMPROVED, "ship": shipped(tmp_path / "s", module, x)})
    found = planish.optimize(module, x)
    assert found.module is module and found.improved and found.speedup == 1.5 and found.speedups == {"eager": 2.0, "compile": 1.5} and found.reason == ""
    assert "1.50x as fast as compile" in repr(found) and "eager" in repr(found) and "the module itself" in repr(found)
    assert "searching 1 region" in capsys.readouterr().err
    torch.testing.assert_close(module(x), Block.forward(module, x))
    assert planish.status(module).ran == 1 and planish.status(module).calls == 1
    left = command.left()
    assert left and all(name.startswith("data/live/Block-") for name in left)
    assert str(found.folder).startswith(str(command.folder / "data")) and (found.folder / "ship.json").exists()


def test_a_ratio_of_errors_is_short() -> None:
    for ratio, text in ((1.25, "1.25"), (1e300, "1e+300"), ("inf", "inf")):
        found = planish.api.Optimized(None, IMPROVED | {"accuracy": {"ratio": ratio, "gate": "eager"}}, None, "module")
        assert f"accuracy: {text} of eager's" in repr(found)


def test_without_an_improvement_nothing_changes_and_nothing_is_left(command: Command) -> None:
    module = Block()
    command.answers({"result": NOTHING})
    found = planish.optimize(module, (torch.randn(4, 8),))
    assert type(module) is Block and not found.improved and found.speedup == 1.0 and found.speedups == {} and found.folder is None
    assert found.reason == NOTHING["reason"] and repr(found) == f"planish: Block stays as it is: {NOTHING['reason']}"
    assert command.left() == []
    argv = command.calls[0]["argv"]
    assert argv[argv.index("--target") + 1] == "cpu"  # where the module is


OVER = {"outcome": "interrupted", "form": "program", "task": "Block", "reason": "the 60 s of --max-time were over in phase claim",
               "seconds": {"max": 60.0, "ended_in": "claim"}, "accuracy": {"ratio": 1.0, "gate": "eager", "verified": True}}  # fmt: skip


def test_max_time_over_after_a_baseline_was_timed(command: Command, tmp_path: Path) -> None:
    module, x = Block(), torch.randn(3, 8)
    timed = OVER | {"speedup": {"eager": 2.0}, "speedup_best_baseline": 2.0, "best_baseline": "eager"}
    command.answers({"result": timed, "ship": shipped(tmp_path, module, x), "code": 130})
    found = planish.optimize(module, x)
    assert found.improved and found.speedup == 2.0 and planish.status(module).attached and found.folder is not None
    assert "60 s of max_time were over in phase claim" in repr(found) and "faster than all that was timed" in found.reason


def test_max_time_over_before_anything_was_timed_keeps_what_was_proved(command: Command, tmp_path: Path) -> None:
    module, x = Block(), torch.randn(3, 8)
    command.answers({"result": dict(OVER), "ship": shipped(tmp_path, module, x), "code": 130})
    found = planish.optimize(module, x)
    assert not found.improved and not planish.status(module).attached
    assert found.folder is not None and str(found.folder) in found.reason and "planish.load" in repr(found)
    planish.load(found.folder, module)
    assert planish.status(module).attached


def test_max_time_over_before_the_proof_leaves_nothing_and_says_so(command: Command) -> None:
    module = Block()
    command.answers({"result": OVER | {"form": "baseline", "shipped": "/nowhere", "seconds": {"max": 60.0, "ended_in": "ship"}}, "code": 130})
    found = planish.optimize(module, torch.randn(3, 8))
    assert not found.improved and found.folder is None and command.left() == []
    assert "phase ship" in found.reason and "allow more with max_time=" in found.reason


def test_max_time_over_behind_a_refusal_says_what_was_refused(command: Command) -> None:
    late = "the timed calls returned other values than eager"
    command.answers({"result": OVER | {"form": "baseline", "shipped": "/nowhere", "until_then": late}, "code": 130})
    found = planish.optimize(Block(), torch.randn(3, 8))
    assert "nothing was proved by then (the timed calls returned other values than eager); allow more with max_time=" in found.reason


def test_any_mapping_is_keyword_arguments(command: Command) -> None:
    module, x = Block(), torch.randn(3, 8)
    command.answers({"result": dict(NOTHING)})
    planish.optimize(module, collections.UserDict(x=x, gain=2.0), out=command.folder / "kept")
    args, kwargs = torch.load(command.folder / "kept" / "task" / "inputs.pt", weights_only=False)
    assert args == () and torch.equal(kwargs["x"], x) and kwargs["gain"] == 2.0


def test_keywords_become_options(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    command.answers({"result": NOTHING})
    planish.optimize(Block(), (torch.randn(4, 8),), target="cpu", budget=5, max_time="2m", accuracy=1e-3, baselines=("eager", "compile"), strategy="random",
                     seed=3, evals=7, cold=True, progress=False, options=("--draws", "4"))  # fmt: skip
    argv = command.calls[0]["argv"]
    given = {"--target": "cpu", "--budget": "5", "--max-time": "2m", "--accuracy": "0.001", "--baselines": "eager,compile", "--strategy": "random",
             "--seed": "3", "--evals": "7", "--draws": "4"}  # fmt: skip
    assert {option: argv[argv.index(option) + 1] for option in given} == given
    assert "--cold" in argv and "--quiet" in argv and "--json" in argv
    assert command.calls[0]["inside"] == "1"
    assert "searching" not in capsys.readouterr().err


def test_with_out_the_task_stays_beside_what_is_shipped(command: Command, tmp_path: Path) -> None:
    module, x = Block(), torch.randn(4, 8)
    command.answers({"result": IMPROVED, "ship": shipped(tmp_path / "s", module, x)})
    planish.optimize(module, x, out=tmp_path / "kept")
    assert (tmp_path / "kept" / "task" / "task.json").exists() and (tmp_path / "kept" / "shipped" / "ship.json").exists()
    assert command.left() == []


def test_errors_are_the_commands_own_and_speak_of_the_module(command: Command) -> None:
    command.answers({"result": {"error": {"kind": "random_ops", "message": "FOLDER: uses dropout", "hint": "eval"}}, "code": 2})
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(Block(), torch.randn(4, 8))
    assert error.value.kind == "random_ops" and error.value.hint == "eval" and command.left() == []
    command.answers({"result": {}, "text": "no document", "code": 139})
    with pytest.raises(planish.PlanishError, match=r"exit code 139") as error:
        planish.optimize(Block(), torch.randn(4, 8))
    assert "searching" in error.value.hint


def test_an_error_is_one_traceback_that_says_what_to_do(command: Command) -> None:
    """A module that is exported after another process refused it: what went wrong on the way is not what is wrong."""
    refused = {"error": {"kind": "not_importable", "message": "m", "hint": ""}}
    command.answers({"result": refused, "code": 2}, {"result": {"error": {"kind": "random_ops", "message": "FOLDER: uses dropout", "hint": "eval"}}, "code": 2})
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(Block(), torch.randn(4, 8))
    text = "".join(traceback.format_exception(error.value))
    assert text.count("Traceback") == 1 and text.endswith("uses dropout\nhint: eval\n")
    assert error.value.message == str(error.value).partition("\n")[0]
    assert str(planish.PlanishError("usage", "no hint")) == "no hint"


@pytest.mark.parametrize("kind", ["not_importable", "forward_failed"])
def test_a_module_that_another_process_cannot_read_is_exported(command: Command, kind: str) -> None:
    command.answers({"result": {"error": {"kind": kind, "message": "m", "hint": ""}}, "code": 2}, {"result": NOTHING})
    assert planish.optimize(Block(), torch.randn(4, 8)).timed == "exported"
    forms = [call["task"]["form"] for call in command.calls]
    assert forms == ["module", "exported"] and "twin" in command.calls[1]["task"]


def test_a_module_that_cannot_be_pickled_is_exported(command: Command) -> None:
    module = Block()
    module.generator = (k for k in range(3))
    command.answers({"result": NOTHING})
    assert planish.optimize(module, torch.randn(4, 8)).timed == "exported"


@torch.no_grad()
def test_a_second_program_serves_other_calls(command: Command, tmp_path: Path) -> None:
    module, one, two = Block(), torch.randn(4, 8), torch.randn(6, 8)
    command.answers({"result": IMPROVED, "ship": shipped(tmp_path / "1", module, one)}, {"result": IMPROVED, "ship": shipped(tmp_path / "2", module, two)})
    planish.optimize(module, one)
    planish.optimize(module, two)
    for x in (one, two, one):
        torch.testing.assert_close(module(x), Block.forward(module, x))
    assert planish.status(module).ran == 3 and planish.status(module).calls == 3
    assert "_planish" not in str(command.calls[1]["task"])
    with pytest.warns(planish.FallbackWarning):
        module(torch.randn(5, 8))
    assert planish.status(module).calls == 4 and type(planish.detach(module)) is Block and not [k for k in vars(module) if k.startswith("_planish")]


def test_what_cannot_be_optimised_is_named(command: Command) -> None:
    for bad in (lambda: planish.optimize(Block, torch.randn(4, 8)), lambda: planish.optimize(Block()), lambda: planish.optimize(3, torch.randn(4))):
        with pytest.raises(planish.PlanishError) as error:
            bad()
        assert error.value.hint and not command.calls


def test_a_run_that_reads_the_users_code_starts_no_other(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANISH_INSIDE", "1")
    found = planish.optimize(Block(), torch.randn(4, 8))
    assert not found.improved and "another run" in found.reason and not command.calls


def test_a_missing_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANISH_BIN", os.devnull)
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(Block(), torch.randn(4, 8))
    assert error.value.kind == "not_built" and error.value.hint


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
import planish, torch
from torch import nn

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background may ignore it
state = Path(sys.argv[1])
module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
before = type(module), dict(vars(module)), {k: v.clone() for k, v in module.state_dict().items()}

def press() -> None:
    while not (state.exists() and state.read_text().startswith("running")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does

threading.Thread(target=press, daemon=True).start()
try:
    planish.optimize(module, (torch.randn(4, 8),))
except KeyboardInterrupt:
    after = type(module), dict(vars(module)), module.state_dict()
    same = before[0] is after[0] and before[1].keys() == after[1].keys() and all(torch.equal(v, after[2][k]) for k, v in before[2].items())
    print("interrupted, and the module is", "as it was" if same else "another")
"""


def test_an_interrupt_reaches_the_command_and_the_caller_and_leaves_nothing(command: Command, tmp_path: Path) -> None:
    state = tmp_path / "state"
    command.answers({"result": NOTHING, "hangs": str(state)})
    environment = {**os.environ, "PYTHONPATH": str(Path(planish.__file__).parents[1]), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(state)], env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "interrupted, and the module is as it was\n", done.stderr
    what, pid = state.read_text().rsplit(" ", 1)
    assert what == "saved by", "the command had time to save its state"
    assert not Path(f"/proc/{pid}").exists() and command.left() == []


class Cell(io.StringIO):
    """sys.stderr as a notebook's kernel sets it: no descriptor of its own, and what reaches it after the cell has ended is another cell's."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def test_progress_is_shown_in_a_notebook(command: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    command.answers({"result": NOTHING})
    cell = Cell()
    monkeypatch.setattr(sys, "stderr", cell)
    planish.optimize(Block(), torch.randn(4, 8))
    assert cell.getvalue() == "searching 1 region\n" and capfd.readouterr().err == "", "nothing goes to the terminal of the notebook's server"
    planish.optimize(Block(), torch.randn(4, 8), progress=False)
    assert cell.getvalue() == "searching 1 region\n"


@torch.no_grad()
def test_what_cannot_be_captured_is_optimised_in_pieces(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from planish.pieces import whole

    asked: list[Any] = []
    pieces = [{"calls": 2, "ms": 1.0, "share": 0.9, "outcome": "improved", "folder": "/f"}, {"calls": 1, "ms": 0.1, "share": 0.01, "outcome": "left"}]
    result = IMPROVED | {"form": "pieces", "pieces": pieces, "breaks": ["net.py:8 (Data-dependent branching)"], "opaque": ["lib.scaled"]}

    def optimize(*given: Any) -> dict[str, Any]:
        asked.append(given)
        return result

    monkeypatch.setattr(whole, "optimize", optimize)
    module, x = Block(), torch.randn(4, 8)
    refused = {"result": {"error": {"kind": "data_dependent", "message": "the task: its control flow depends on tensor values", "hint": "h"}}, "code": 2}
    command.answers(refused)
    found = planish.optimize(module, x, budget="2m", max_time="10m", baselines="eager", name="Net")
    ((given, name, call, refusal, search),) = asked
    assert given is module and name == "Net" and call == ((x,), {}) and "control flow" in refusal.message
    assert search.budget == 120 and 500 < search.max_time < 600 and search.settings["baselines"] == "eager"
    assert found.improved and found.timed == "pieces" and found.folder is None and command.left() == []
    assert "1 of 2 graphs, 90% of the time" in repr(found) and "a graph ends at net.py:8" in repr(found) and "stays as it is: lib.scaled" in repr(found)
    with pytest.raises(planish.PlanishError, match="control flow"):
        planish.optimize(module, x, pieces=False)
    command.answers({"result": {"error": {"kind": "random_ops", "message": "the task is random", "hint": "h"}}, "code": 2})
    with pytest.raises(planish.PlanishError, match="is random"):
        planish.optimize(module, x)
    assert len(asked) == 1
