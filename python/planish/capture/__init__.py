"""A task file or a live module becomes a graph document (docs/formats/graph.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planish.capture.task import LoadedTask, check_forward, load_task

if TYPE_CHECKING:
    from planish.capture.export import Captured, capture

__all__ = ["Captured", "LoadedTask", "capture", "check_forward", "load_task"]


def __getattr__(name: str) -> Any:
    """What captures, once it is asked for: it takes half of PyTorch's Python with it, 1.3 s of a processor in each process that imports it, and
    those that load and run a task have no use for it."""
    if name in ("Captured", "capture"):
        from planish.capture import export

        return getattr(export, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
