"""Whether a module's results depend on the time at which it is called: capture turns it into a constant, and two times may lie close enough together
to pass for rounding."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from planish.runner.wound import later_date
from planish.ship import reach

_CLOCKS = tuple(f"{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time") for unit in ("", "_ns"))
LATER = 94_620_345.678  # seconds: three years, and no round number of any unit


class Asked:
    """Whether somebody asked for the time."""

    found = False


@contextmanager
def watched() -> Iterator[Asked]:
    """While this holds, calls of this thread for the time are seen."""
    date = datetime.datetime
    clocks = {*(getattr(time, name) for name in _CLOCKS), date.now, date.utcnow, date.today}
    asked, before = Asked(), sys.getprofile()

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and type(called) is type(time.time) and called in clocks:
            asked.found = True

    sys.setprofile(look)
    try:
        yield asked
    finally:
        sys.setprofile(before)


@contextmanager
def turned(model: torch.nn.Module, seconds: float) -> Iterator[None]:
    """While this holds, the functions of `time`, and `datetime.datetime`, answer so much later, in their modules and where the model's code has
    them by name."""
    later: dict[int, Any] = {id(clock := getattr(time, name)): _later(clock, int(seconds * 1e9) if name.endswith("_ns") else seconds) for name in _CLOCKS}
    later[id(datetime.datetime)] = later_date(datetime.datetime, seconds)
    spaces = {id(function.__globals__): function.__globals__ for function in reach.reach(model).functions.values()}
    put = [(space, key, value) for space in (vars(time), vars(datetime), *spaces.values()) for key, value in list(space.items()) if id(value) in later]
    for space, key, value in put:
        space[key] = later[id(value)]
    try:
        yield
    finally:
        for space, key, value in put:
            space[key] = value


def _later(original: Callable[[], Any], by: float) -> Callable[[], Any]:
    return lambda: original() + by
