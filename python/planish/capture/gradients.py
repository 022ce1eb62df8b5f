"""Gradients that forward itself takes. torch.export keeps what runs while they are recorded as a graph of its own inside the graph, and fails at taking
it apart where the tensors there are parameters, or are wrapped by torch.func; what it raises then says neither where nor why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from planish.capture.source import line_of
from planish.errors import PlanishError, task_error

_RECORDS = getattr(torch.ops.higher_order, "wrap_with_set_grad_enabled", None)


@contextmanager
def gradients_refused(program: ExportedProgram, path: Path) -> Iterator[None]:
    """While this holds, whatever is raised of a program that records gradients names the line that does. Raises PlanishError (not_exportable)."""
    try:
        yield
    except (PlanishError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        where = recorded_at(program)
        if where is None:
            raise
        what = f"cannot be captured: forward records gradients{where}, and torch.export cannot take that apart"
        hint = "where no gradient is taken leave out torch.enable_grad(); else write the derivative as operators, or take it before the module is called"
        raise task_error("not_exportable", path, what, hint) from error


def recorded_at(program: ExportedProgram) -> str | None:
    """The user's line that last ran while gradients were recorded, as line_of says it: behind the function, that which asked for its gradient. None
    where none are recorded."""
    module = program.graph_module
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is _RECORDS and node.args[0] is True:
            lines = [line_of(one) for one in getattr(module, str(node.args[1].target)).graph.nodes if one.op == "call_function"]
            return next((line for line in reversed(lines) if line), "")
    return None
