"""Replays of a reference on a GPU, recorded as one CUDA graph.

A replay (noise.py) of a large network is thousands of operators, each dispatched by Python several times over, and a proof draws eight of them a data
set. On a data set the first draw runs as ever, and answers whatever waits for the device (`Known`). Where its answers are those with which a run over
the same buffers was recorded, Python would take the same way again, and the other draws are that graph with other noise in the bank that it reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from planish.oracle import memory
from planish.oracle.interpret import Interpreter
from planish.oracle.noise import Bank, Replay

_WORTH_SECONDS, _WORTH_DRAWS = 0.02, 3
_ROOM = 1.25  # times what a run takes of memory, beside what others may ask for meanwhile
_SLACK = 1 << 31

Results = dict[int, torch.Tensor]
#: Records what the call does: (what does it again, its results, which are the same tensors each time).
Record = Callable[[Callable[[], Results]], tuple[Callable[[], None], Results]]


def as_graph(call: Callable[[], Results]) -> tuple[Callable[[], None], Results]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = call()
    return graph.replay, results


class Recorded:
    """Of one region: at most one graph, with the memory of a run and a bank of noise of its own. Not thread-safe."""

    def __init__(self, run: Interpreter, device: torch.device, record: Record = as_graph) -> None:
        self._run, self._device, self._record = run, device, record
        self._seconds, self._bytes = 0.0, 0
        self._refused = False  # something in it cannot be recorded
        self._trusted = False  # what was recorded has been compared with a run
        self.forget()

    def forget(self) -> None:
        self._replay: Callable[[], None] | None = None
        self._results: Results = {}
        self._bank: Bank | None = None
        self._key: tuple[Any, ...] = ()

    def first(self, call: Callable[[], Results]) -> Results:
        """The first draw on a data set, which tells what a run takes."""
        before = self._in_use()
        began = time.monotonic()
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        results = call()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            self._bytes = max(self._bytes, torch.cuda.max_memory_allocated(self._device) - before)
        self._seconds = time.monotonic() - began
        return results

    def draw(
        self, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], mode: Callable[[], Replay], kind: Any, seed: int, answers: Mapping[str, Any],
        further: int,
    ) -> Results | None:  # fmt: skip
        """One more draw, of `further` that are wanted, of what `mode` makes anew each time. `kind`: what two modes may differ by besides their noise;
        `answers`: what the data set's first run asked. The tensors are written again by the next draw. None where it is to be run."""
        if self._refused or self._seconds < _WORTH_SECONDS:
            return None
        places = tuple((value, t.data_ptr(), t.shape, t.stride()) for value, t in sorted(inputs.items()))
        key = (places, tuple(wanted), kind, tuple(sorted(answers.items())))
        if self._replay is not None and self._bank is not None and key == self._key:
            self._bank.fill(seed)
            self._replay()
            return self._results
        if further < _WORTH_DRAWS:
            return None
        self.forget()
        if memory.available(self._device) < _ROOM * self._bytes + Bank.bytes(self._device) + _SLACK:
            return None
        self._key = key
        return self._begin(inputs, wanted, mode)

    def _begin(self, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], mode: Callable[[], Replay]) -> Results | None:
        """Records a run, whose first results are those of the mode's own noise."""
        try:
            bank = self._bank = Bank.copy(self._device)

            def call() -> Results:
                reading = mode()
                reading.noise.read(bank)
                return self._run.run(inputs, wanted, reading)

            self._replay, self._results = self._record(call)
            self._replay()
            if not self._trusted:
                exact = self._run.run(inputs, wanted, mode())
                self._trusted = all(torch.equal(torch.nan_to_num(exact[v]), torch.nan_to_num(self._results[v])) for v in wanted)
        except Exception:  # it waits for the device, copies from the host, or there is no memory for it
            self._trusted = False
        if not self._trusted:
            self._refused = True
            self.forget()
            return None
        return self._results

    def _in_use(self) -> int:
        return torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0
