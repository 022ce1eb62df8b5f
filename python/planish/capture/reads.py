"""Which files a task is made of: what is opened for reading while it is imported, constructed and captured."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

#: Where files lie that no task is changed by: Python's own, its packages', ours, and what is no file.
_FOREIGN = tuple(
    {
        os.path.realpath(folder) + os.sep
        for folder in (*sysconfig.get_paths().values(), os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)), "/proc", "/sys", "/dev")
        if folder
    }
)

_open_now: list[set[str]] = []
_hooked = False


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and _open_now and isinstance(args[0], str | bytes | os.PathLike):
        if isinstance(args[2], int) and args[2] & os.O_ACCMODE == os.O_WRONLY:
            return  # what it only writes it is not made of
        _open_now[-1].add(os.path.abspath(os.fsdecode(args[0])))


@contextmanager
def watch_reads() -> Iterator[set[str]]:
    """Within it, the paths of all files that Python opens, not only to write, are added to the set; afterwards it holds those that a task may be changed
    by: existing files outside Python and its packages, sources in place of compiled modules. What C++ opens by itself is not seen."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # for good: there is no way to take one back
        _hooked = True
    found: set[str] = set()
    _open_now.append(found)
    try:
        yield found
    finally:
        _open_now.pop()
        kept = {_source(path) for path in found}
        found.clear()
        found.update(path for path in kept if Path(path).is_file() and not os.path.realpath(path).startswith(_FOREIGN))


def _source(path: str) -> str:
    """The source of a compiled module; any other path as it is."""
    if not path.endswith(".pyc"):
        return path
    try:
        return importlib.util.source_from_cache(path)
    except ValueError:
        return path
