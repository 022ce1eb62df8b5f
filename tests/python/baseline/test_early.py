"""Compiling behind a gate: the host's part is done before it opens, the device's after."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))

from planish.baseline import table as table_module
from planish.baseline.early import Gate, device_behind
from planish.baseline.table import Table
from talk import child

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(8, 16)]
"""


class Recorder(Gate):
    """A gate that writes down when it is asked."""

    def __init__(self, events: list[str]) -> None:
        super().__init__(-1)
        self.events = events

    def wait(self) -> None:
        self.events.append("wait")


def test_what_is_compiled_is_handed_over_and_measured_behind_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def made(name: str) -> str:
        events.append(name)
        return name

    # Here, where one process of the test run imports it.
    from torch._inductor import compile_fx
    from torch._inductor.runtime.benchmarking import benchmarker

    monkeypatch.setattr(compile_fx, "compile_fx", made)
    monkeypatch.setattr(type(benchmarker), "benchmark", lambda self, name: made(name))
    before = dict(vars(benchmarker))
    with device_behind(Recorder(events)):
        assert compile_fx.compile_fx("compiled") == "compiled"
        assert benchmarker.benchmark("measured") == "measured"
    assert events == ["compiled", "wait", "wait", "measured"]
    assert compile_fx.compile_fx is made and vars(benchmarker) == before


def test_it_is_all_put_back_after_a_failure() -> None:
    from torch._inductor import compile_fx

    before = compile_fx.compile_fx
    with pytest.raises(ValueError, match="no"), device_behind(Recorder([])):
        raise ValueError("no")
    assert compile_fx.compile_fx is before


def test_a_gate_opens_when_its_other_end_is_closed_and_is_open_from_then_on() -> None:
    waits, opens = os.pipe()
    os.close(opens)
    gate = Gate(waits)
    gate.wait()
    gate.wait()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(waits)


def test_a_mode_that_was_compiled_so_answers_as_it_would_otherwise(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    table = Table(tmp_path / "task.py", torch.device("cpu"))
    waits, opens = os.pipe()
    os.close(opens)
    assert table.add("compile", "compile", None, None, Gate(waits))["compile_seconds"] >= 0
    args, kwargs = table.sets[0]
    assert torch.equal(table.entries["compile"].module(*args, **kwargs), torch.relu(args[0]) * 2)


def test_the_process_waits_behind_the_descriptor_that_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    with child("planish.baseline") as client:
        client.ask("open", task=str(tmp_path / "task.py"), device="cpu")
        waits, opens = os.pipe()
        client.channel.send({"id": 7, "method": "add", "params": {"name": "compile", "kind": "compile"}}, [waits])
        assert client.channel.receive() == {"event": "stage", "stage": "compiling in default mode"}
        os.close(waits)
        os.close(opens)
        answer = client.channel.receive()
        assert answer is not None and answer["id"] == 7 and answer["result"]["compile_seconds"] >= 0
        # Of the next one it is said what this one took, and the limit.
        client.channel.send({"id": 8, "method": "add", "params": {"name": "max_autotune", "kind": "max_autotune", "seconds": 90}})
        said = client.channel.receive()
        took = answer["result"]["compile_seconds"]
        assert said == {"event": "stage", "stage": f"compiling in mode max_autotune: at most 90 s, default mode took {took:.0f} s"}
        assert (client.channel.receive() or {})["id"] == 8
        found = client.ask("time", names=["compile"], min_runs=6, max_runs=10, max_seconds=1, interval=0.05)
        assert set(found["times"]) == {"compile"}


def test_inputs_take_no_memory_while_the_gate_is_shut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: a process that waited to be of use held 8 GB of a GPU through a whole search."""
    monkeypatch.setattr(table_module, "_WORTH_IT", 1)
    (tmp_path / "task.py").write_text(TASK)
    table = Table(tmp_path / "task.py", torch.device("cpu"))
    x = table.sets[0][0][0]
    before, size = x.clone(), x.untyped_storage().nbytes()
    waits, opens = os.pipe()
    seen: list[int] = []

    def open_then() -> None:
        deadline = time.monotonic() + 60
        while x.untyped_storage().nbytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(x.untyped_storage().nbytes())
        os.close(opens)

    opener = threading.Thread(target=open_then)
    opener.start()
    table.add("compile", "compile", None, None, Gate(waits))
    opener.join()
    assert seen == [0]
    assert x.untyped_storage().nbytes() == size and torch.equal(x, before)
    assert torch.equal(table.entries["compile"].module(x), torch.relu(before) * 2)


def test_inputs_that_a_task_keeps_are_what_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again such a task hands out what was let go of."""
    monkeypatch.setattr(table_module, "_WORTH_IT", 1)
    (tmp_path / "task.py").write_text(TASK + "\n\nKEPT = torch.arange(64.0)\n\n\ndef get_inputs():\n    return [KEPT]\n")
    table = Table(tmp_path / "task.py", torch.device("cpu"))
    x = table.sets[0][0][0]
    with table._aside():
        assert not x.untyped_storage().nbytes()
    assert torch.equal(x, torch.arange(64.0)) and torch.equal(table.task.make_inputs(2, torch.device("cpu"))[0][0], x)


def test_inputs_stay_where_they_are_parameters_or_small_or_the_gate_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "task.py").write_text(TASK)
    table = Table(tmp_path / "task.py", torch.device("cpu"))
    x = table.sets[0][0][0]
    with table._aside():
        assert x.untyped_storage().nbytes(), "they are small"
    monkeypatch.setattr(table_module, "_WORTH_IT", 1)
    table.model.shared = torch.nn.Parameter(x)
    with table._aside():
        assert x.untyped_storage().nbytes(), "they are a parameter"
    waits, opens = os.pipe()
    os.close(opens)
    gate = Gate(waits)
    gate.aside = lambda: pytest.fail("it lets go of them although nobody waits")
    gate.wait()


def test_inputs_are_there_again_after_a_failure_behind_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_WORTH_IT", 1)
    (tmp_path / "task.py").write_text(TASK)
    table = Table(tmp_path / "task.py", torch.device("cpu"))
    x = table.sets[0][0][0]
    before = x.clone()
    with pytest.raises(TimeoutError), table._aside():
        raise TimeoutError
    assert torch.equal(x, before)

    def full(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError), table._aside():
        patch.setattr(torch.UntypedStorage, "copy_", full)
    table.add("eager", "eager", None)
    assert torch.equal(x, before)
