"""Whether a module's results depend on the time at which it is called: capture turns it into a constant, and two times may lie close enough together
to pass for rounding."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FrameType
from typing import Any

from planish.runner import wound
from planish.ship import names

_DATES = ("time", "time_ns", "now", "utcnow", "today")
_SPANS = tuple(f"{name}{unit}" for name in ("monotonic", "perf_counter", "process_time", "thread_time") for unit in ("", "_ns"))
_FUNCTIONS = {getattr(time, name) for name in (*_DATES[:2], *_SPANS)}
LATER = 94_620_345.678  # seconds: three years, and no round number of any unit


class Asked:
    """Who asked for the time."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}  #: functions of `time`, and classes of `datetime`, by name
        self.spaces: dict[int, dict[str, Any]] = {}  #: globals of the code that asked, by id
        self.line = ""  #: of code that is not torch's or the standard library's, and asked: `model.py:12`


@contextmanager
def watched() -> Iterator[Asked]:
    """While this holds, calls of this thread for the time are seen, but not those that turned clocks make. Spans that torch and the standard
    library measure for themselves do not count."""
    asked, before = Asked(), sys.getprofile()

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or not _is_clock(called) or frame.f_code.co_filename == wound.__file__:
            return
        if names.whose(frame.f_code.co_filename) in ("own", "installed"):
            asked.spaces[id(frame.f_globals)] = frame.f_globals
            asked.line = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        elif called.__name__ in _SPANS:
            return
        source = called if called in _FUNCTIONS else called.__self__
        asked.found[source.__name__] = source

    sys.setprofile(look)
    try:
        yield asked
    finally:
        sys.setprofile(before)


@contextmanager
def turned(asked: Asked, seconds: float) -> Iterator[None]:
    """While this holds, the clocks that were asked answer so much later, in their modules and where the code that asked has them as globals.
    Others, by which threads of this process may wait, stay as they are."""
    later: dict[int, Any] = {}
    for name, source in asked.found.items():
        is_class = isinstance(source, type)
        by = int(seconds * 1e9) if name.endswith("_ns") else seconds
        later[id(source)] = wound.later_date(source, seconds) if is_class else wound.later(source, by)
    spaces = (vars(time), vars(datetime), *asked.spaces.values())
    put = [(space, key, value) for space in spaces for key, value in list(space.items()) if id(value) in later]
    for space, key, value in put:
        space[key] = later[id(value)]
    try:
        yield
    finally:
        for space, key, value in put:
            space[key] = value


def _is_clock(called: Any) -> bool:
    if not isinstance(called, BuiltinFunctionType):
        return False
    return called in _FUNCTIONS or (called.__name__ in _DATES and isinstance(called.__self__, type) and issubclass(called.__self__, datetime.date))
