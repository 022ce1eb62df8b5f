"""A limit for code that nobody can ask to stop: torch.compile's modes, and loops of a task's own, take seconds or many minutes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeIsOverError(BaseException):
    """Not an Exception: what compiles catches those, and goes on in another way."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises TimeIsOverError in the body once it has taken so long; None sets no limit. In the main thread only, which notices it
    between two steps of Python: a call into C that takes long ends first. Limits do not nest."""
    if seconds is None:
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise TimeIsOverError

    before = signal.signal(signal.SIGALRM, over)
    # Again and again: the first may be lost in a destructor, where Python drops what is raised.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
