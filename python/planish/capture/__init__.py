"""A task file or a live module becomes a graph document (docs/formats/graph.md)."""

from planish.capture.export import Captured, capture
from planish.capture.task import LoadedTask, check_forward, load_task

__all__ = ["Captured", "LoadedTask", "capture", "check_forward", "load_task"]
