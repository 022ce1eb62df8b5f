"""Imports while Python looks for no garbage. What a process imports stays until it ends: to look through it again and again while it grows takes a
tenth to a fifth of the import's time, and looking through it later, whenever a task's cycles are collected, 0.1 s each time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """What is made inside is never looked at by the collector; afterwards it runs as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
