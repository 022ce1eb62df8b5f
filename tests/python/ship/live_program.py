"""Puts a program of aten steps on a live module, without a search: what planish.optimize does around one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from planish.capture import capture
from planish.ship.guards import configuration
from planish.ship.live import load
from shipping import aten_program, write


def attached(module: torch.nn.Module, folder: Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The graph of the module's call with these arguments; the module is given a program that does the same."""
    (folder / "shipped" / "blobs").mkdir(parents=True)
    graph = capture(module, args, kwargs, folder / "shipped" / "blobs").graph
    (folder / "shipped" / "module.py").touch()
    load(write(folder / "shipped", folder, aten_program(graph), graph, modules=configuration(module)), module)
    return graph
