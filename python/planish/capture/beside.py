"""Lets a task import what lies beside it, and nobody else.

A folder on `sys.path` would answer whoever asks for a module of a name: PyTorch looks for many that are not installed (z3, optree, …) when they
are first needed, and a file of such a name beside the task would then run as a part of PyTorch. So the folder is asked only when the task's own
code imports, and only for names that PyTorch itself does not ask for.
"""

from __future__ import annotations

import importlib.machinery
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import FrameType, ModuleType

import torch

from planish.errors import PlanishError

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_IMPORT_BY_NAME = re.compile(rb"(?:import_module|find_spec|__import__)\(\s*[\"']([A-Za-z_]\w*)")


class Beside(MetaPathFinder):
    """Answers imports that come from files in `folder`. Stands last: what is installed, and what was imported before, goes first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if path is not None or not self._asked_by_the_task():
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [str(self.folder)])
        if spec is None or (spec.loader is None and spec.origin is None):  # a plain folder is no module that anyone means
            return None
        if name in names_that_torch_imports():
            raise PlanishError("shadows", f"{spec.origin}: a module called '{name}' would be taken for the package that PyTorch imports by that name",
                               "give it another name")  # fmt: skip
        return spec

    def _asked_by_the_task(self) -> bool:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and (frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_globals.get("__name__") == "importlib"):
            frame = frame.f_back
        if frame is None:
            return False
        asking = Path(frame.f_code.co_filename).resolve()
        # An environment may lie in the task's folder, and PyTorch in it.
        return asking.is_relative_to(self.folder) and _INSTALLED.isdisjoint(asking.parts)


def offer(folder: Path) -> None:
    """Once a folder; it stays, because tasks import inside functions as well."""
    folder = folder.resolve()
    if not any(isinstance(finder, Beside) and finder.folder == folder for finder in sys.meta_path):
        sys.meta_path.append(Beside(folder))


@cache
def names_that_torch_imports() -> frozenset[str]:
    """Top-level names of all imports in PyTorch's sources. Read only when a task does import something beside it; takes a second."""
    found: set[bytes] = set()
    for file in Path(torch.__file__).parent.rglob("*.py"):
        try:
            text = file.read_bytes()
        except OSError:
            continue
        found.update(_IMPORT.findall(text))
        found.update(_IMPORT_BY_NAME.findall(text))
    return frozenset(name.decode() for name in found)
