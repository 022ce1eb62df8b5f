"""Which line of the user's own source asked for an operator, or raised."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
#: Of PyTorch and of Planish; where they are reached through a link, frames have that path.
_FOREIGN = tuple({f"{Path(file).parents[up]}/" for file, up in ((torch.__file__, 0), (__file__, 1), (Path(__file__).resolve(), 1))})

#: What a prompt calls what was typed into it; other names in brackets are of generated code.
_TYPED = ("<stdin>", "<ipython-input", "<python-input")


@contextmanager
def own_lines_kept() -> Iterator[None]:
    """While this holds, what torch traces remembers the user's lines: all below the outermost forward, in functions as well. torch keeps those
    of functions called `forward` alone."""
    tracer = fx.proxy.TracerBase
    theirs = getattr(tracer, "_filter_traceback_frames", None)
    if theirs is None:  # a torch that keeps all
        yield
        return

    def users(self: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
        first = next((i for i, frame in enumerate(frames) if frame.name == "forward"), len(frames))
        return traceback.StackSummary.from_list([frame for frame in frames[first:] if _is_users(frame.filename)])

    tracer._filter_traceback_frames = users  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        tracer._filter_traceback_frames = theirs  # type: ignore[method-assign]


def source_of(node: fx.Node) -> dict[str, Any] | None:
    """{file, line} of the innermost frame outside PyTorch and Planish that export kept for the node; None where it kept none. The file goes
    by its name alone: a graph is shipped, and the folders of whoever made it are nobody's business."""
    frame = _frame_of(node)
    return None if frame is None else {"file": Path(frame[0]).name, "line": frame[1]}


def line_of(node: fx.Node) -> str:
    """` (file.py:12: the line)` where the node's line of the user's code is known, else nothing."""
    return _words(_frame_of(node))


def line_of_error(error: BaseException) -> str:
    """The same of the innermost frame of the user's that an exception, or what it came of, passed through."""
    found: tuple[str, int] | None = None
    one: BaseException | None = error
    while one is not None and found is None:
        trace = one.__traceback__
        while trace is not None:
            if _is_users(trace.tb_frame.f_code.co_filename):
                found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        one = one.__cause__ or one.__context__
    return _words(found)


def line_of_caller() -> str:
    """The same of the innermost frame of the user's that is running."""
    users = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack() if _is_users(frame.filename)]
    return _words(users[-1] if users else None)


def _frame_of(node: fx.Node) -> tuple[str, int] | None:
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    return next((frame for frame in reversed(frames) if _is_users(frame[0])), None)


def _is_users(file: str) -> bool:
    return not file.startswith(_FOREIGN) and (not file.startswith("<") or file.startswith(_TYPED))


def _words(frame: tuple[str, int] | None) -> str:
    if frame is None:
        return ""
    text = linecache.getline(*frame).strip()
    return f" ({Path(frame[0]).name}:{frame[1]}{f': {text}' if text else ''})"
