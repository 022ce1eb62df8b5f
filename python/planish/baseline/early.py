"""Compiling before the device may be used. What torch.compile does on the host goes on beside a search on the device; where Inductor would
measure what it chooses among, or hands over what it made, it waits until the device is its own. So neither disturbs the other's times."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any


class Gate:
    """Opens when the other end of a pipe is closed. Owns its end of it. One thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.seconds = 0.0  #: that were waited
        self.aside: Callable[[], AbstractContextManager[None]] = nullcontext  #: around a wait: lets go of what others could use meanwhile

    def wait(self) -> None:
        """Returns at once when it is open already."""
        if self._fd < 0:
            return
        began = time.perf_counter()
        opened = bool(select.select([self._fd], [], [], 0)[0])
        with nullcontext() if opened else self.aside():
            while os.read(self._fd, 1):
                pass
        self.seconds += time.perf_counter() - began
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def device_behind(gate: Gate) -> Iterator[None]:
    """In the body Inductor waits for the gate before it measures anything, and before what it compiled is run for the first time. What it
    returns is what it returns without."""
    from torch._inductor import compile_fx
    from torch._inductor.runtime.benchmarking import benchmarker

    made = compile_fx.compile_fx

    @wraps(made)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        result = made(*args, **kwargs)
        gate.wait()
        return result

    def behind(measure: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(measure)
        def waits(*args: Any, **kwargs: Any) -> Any:
            gate.wait()
            return measure(*args, **kwargs)

        return waits

    measures = {name: getattr(benchmarker, name) for name in dir(benchmarker) if name.startswith("benchmark")}
    kept = dict(vars(benchmarker))
    compile_fx.compile_fx = compiled  # type: ignore[assignment]
    for name, measure in measures.items():
        if callable(measure):
            setattr(benchmarker, name, behind(measure))
    try:
        yield
    finally:
        compile_fx.compile_fx = made
        for name in set(vars(benchmarker)) - set(kept):
            delattr(benchmarker, name)
        vars(benchmarker).update(kept)
