"""Puts a program of aten steps on a live module, without a search: what planish.optimize does around one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from planish import rt
from planish.capture import capture
from planish.ship.guards import configuration
from planish.ship.live import load
from shipping import aten_program, write


def attached(module: torch.nn.Module, folder: Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The graph of the module's call with these arguments; the module is given a program that does the same, called by the C form where that can."""
    (folder / "shipped" / "blobs").mkdir(parents=True)
    graph = capture(module, args, kwargs, folder / "shipped" / "blobs").graph
    (folder / "shipped" / "module.py").touch()
    shutil.copy(rt.find_library().parent / "planish_call.so", folder / "shipped")
    load(write(folder / "shipped", folder, aten_program(graph), graph, modules=configuration(module)), module)
    return graph
