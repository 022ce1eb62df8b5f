"""What becomes of a task: through capture, oracle, planner and executor it is taken, or refused with a kind."""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from planish import generators
from planish.capture import LoadedTask
from planish.errors import PlanishError
from planish.executor import Executor
from planish.oracle.gate import Accuracy
from planish.oracle.region import Region, judge_output
from planish.oracle.task import Task

from tests.random_graphs.parts import Tool

CPU = torch.device("cpu")
TAKEN, NO_TASK = "taken", "eager raises"
#: With what a task may be refused. Whatever else comes out is a fault of ours.
REFUSALS = frozenset({"data_dependent", "not_exportable", "unsupported_op", "random_ops", "reference_nan", "forward_failed", "not_tensors"})


@dataclass(frozen=True)
class Outcome:
    """`kind` is TAKEN, NO_TASK, a kind of errors, or `internal`; `where` the stage."""

    kind: str
    where: str = ""
    message: str = ""
    hint: str = ""

    @property
    def fine(self) -> bool:
        """Whether it is an answer that a user can do something with."""
        return self.kind in (TAKEN, NO_TASK) or (self.kind in REFUSALS and bool(self.hint) and bool(self.message))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch logs and writes to descriptor 2 about graphs that it gives up."""
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def judge(loaded: LoadedTask, tool: Tool, blobs: Path) -> Outcome:
    """Takes the task as far as a run on a CPU does before it searches."""
    stage = ["eager"]
    try:
        with _quiet():
            return _judge(loaded, tool, blobs, stage)
    except PlanishError as error:
        return Outcome(error.kind, stage[0], error.message, error.hint)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("internal", stage[0], f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})")


def _judge(loaded: LoadedTask, tool: Tool, blobs: Path, stage: list[str]) -> Outcome:
    args, kwargs = loaded.make_inputs(0, CPU)
    try:
        with torch.no_grad():
            loaded.model(*args, **kwargs)
    except Exception as error:
        return Outcome(NO_TASK, "eager", str(error)[:200])
    stage[0] = "capture"
    with mock.patch("planish.oracle.task.load_task", lambda path, variant: loaded):
        task = Task(str(loaded.path), CPU, str(blobs))
    stage[0] = "oracle"
    outputs = [o["value"] for o in task.graph["outputs"] if "value" in o]
    region = Region(task, "task", range(len(task.graph["nodes"])), task.inputs, outputs, Accuracy("eager"))
    region.regimes()
    data = region.create(7, "task")
    try:
        expected = region.expected(data)
        stage[0] = "plan"
        answer = tool.ask({"graph": task.graph, "target": "cpu", "arch": "x86-64-v2", "programs": 1, "seed": 1})
        if "error" in answer:
            return Outcome(answer["error"]["kind"], "plan", answer["error"]["message"])
        stage[0] = "run"
        found = _run(answer["aten"], task, data, blobs)
        for index, (position, _) in enumerate(region.outputs):
            _, problem, message = judge_output(expected, index, found[position], None, data.input_tensors())
            if problem is not None:
                return Outcome("wrong", "run", f"{problem}: {message}")
    finally:
        data.free()
    return Outcome(TAKEN)


def _run(program: dict[str, Any], task: Task, data: Any, blobs: Path) -> dict[int, torch.Tensor]:
    """The graph's outputs by position, of the program that holds PyTorch's operators alone."""
    executor = Executor(program, [], blobs, None, CPU, effects=[])
    by_source = {_source(item): slot.view.clone() for item, slot in zip(task.graph["inputs"], data.inputs, strict=True)}
    tensors = [by_source[(b.kind, b.index if b.kind == "user" else b.name)] for b in executor.bindings]
    state = by_source.get(("generator", "generator"))
    if state is not None:
        generators.restore(state, CPU)
    with torch.no_grad():
        results = iter(executor.run(tensors))
    left = generators.state(CPU)
    found: dict[int, torch.Tensor] = {}
    for position, out in enumerate(task.graph["outputs"]):
        if out["kind"] == "mutate_input":
            found[position] = by_source[("user", out["target"])]
        elif out["kind"] == "mutate_buffer":
            found[position] = by_source[("buffer", out["target"])]
        elif out["kind"] == "mutate_generator":
            found[position] = left
        else:
            found[position] = next(results)
    return found


def _source(item: dict[str, Any]) -> tuple[str, Any]:
    return item["kind"], item["index"] if item["kind"] == "user" else item["name"]
