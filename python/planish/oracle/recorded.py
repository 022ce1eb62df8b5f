"""Replays of a reference on a GPU, recorded as one CUDA graph.

A replay (noise.py) of a large network is thousands of operators, each dispatched by Python several times over, and a proof draws two to eight of them
a data set. What the run asks of its values (`Known`) decides the way that Python takes: a recorded run keeps the answers that it was given, and tells
for each data set whether they would be the same. Where they are, draws are that graph with other noise in the bank that it reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from planish.oracle import memory
from planish.oracle.interpret import Interpreter
from planish.oracle.noise import Assumed, Bank, Replay

_WORTH_SECONDS, _WORTH_DRAWS = 0.1, 3
_WORTH_OPERATORS = 256  # few of them keep the device busy by themselves
_SHARE = 0.1  # of the device's memory, which a record holds for as long as its region has data
_ROOM = 1.25  # times what a run takes of memory, beside what others may ask for meanwhile
_SLACK = 1 << 31
_RIGHT = -1  # among the values of a recorded run: whether it is one of its data

Results = dict[int, torch.Tensor]
#: Records what the call does: (what does it again, its results, which are the same tensors each time).
Record = Callable[[Callable[[], Results]], tuple[Callable[[], None], Results]]


def as_graph(call: Callable[[], Results]) -> tuple[Callable[[], None], Results]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = call()
    return graph.replay, results


@dataclass
class Ask:
    """A draw: of `wanted` values from `inputs`, with the noise of `seed`, in a mode that `mode` makes anew each time. `kind`: what two modes may differ by
    besides their noise and answers; `answers`: of the data set, empty before its first run."""

    inputs: Mapping[int, torch.Tensor]
    wanted: Sequence[int]
    mode: Callable[[dict[str, Any]], Replay]
    kind: Any
    seed: int
    answers: dict[str, Any]

    def key(self) -> tuple[Any, ...]:
        places = tuple((value, t.data_ptr(), t.shape, t.stride()) for value, t in sorted(self.inputs.items()))
        return places, tuple(self.wanted), self.kind


class Recorded:
    """Of one region: at most one graph, with the memory of a run and a bank of noise of its own. Not thread-safe."""

    def __init__(self, run: Interpreter, device: torch.device, record: Record = as_graph) -> None:
        self._run, self._device, self._record = run, device, record
        self._seconds, self._bytes = 0.0, 0
        self._last: tuple[Any, ...] = ()  # what a record of the last data set that was run would be of
        self._again = False  # the one before would have had the same
        self._memory = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else 1 << 62
        self._refused = len(run.nodes) < _WORTH_OPERATORS  # or something in it cannot be recorded
        self._trusted = False  # what was recorded has been compared with a run
        self.forget()

    def forget(self) -> None:
        self._replay: Callable[[], None] | None = None
        self._results: Results = {}
        self._bank: Bank | None = None
        self._answers: dict[str, Any] = {}
        self._key: tuple[Any, ...] = ()

    def first(self, ask: Ask, call: Callable[[], Results]) -> Results:
        """The first draw on a data set; a run of `call` tells what it takes, and leaves its answers in `ask.answers`."""
        if self._matches(ask):
            found = self._drawn(ask)
            if bool(self._results[_RIGHT]):
                ask.answers.update(self._answers)
                return found
            del found
        if self._refused:
            return call()
        before = self._in_use()
        began = time.monotonic()
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        results = call()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            self._bytes = max(self._bytes, torch.cuda.max_memory_allocated(self._device) - before)
        self._seconds = time.monotonic() - began
        last, self._last = self._last, (ask.key(), dict(ask.answers))
        self._again = last == self._last
        return results

    def further(self, ask: Ask, draws: int) -> Results | None:
        """One of `draws` more on the data set; None where it is to be run."""
        if self._matches(ask) and self._answers == ask.answers:
            return self._drawn(ask)
        # It takes two to three runs: unless there are many draws, it pays where data of this kind come again.
        if self._refused or self._seconds < _WORTH_SECONDS or (draws < _WORTH_DRAWS and not self._again):
            return None
        self.forget()
        takes = int(_ROOM * self._bytes) + Bank.bytes(self._device)
        if takes > _SHARE * self._memory or memory.available(self._device) < takes + _SLACK:
            return None
        return self._begin(ask)

    def _matches(self, ask: Ask) -> bool:
        return self._replay is not None and self._key == ask.key()

    def _drawn(self, ask: Ask) -> Results:
        assert self._bank is not None and self._replay is not None
        self._bank.fill(ask.seed)
        self._replay()
        return self._copies(ask)

    def _copies(self, ask: Ask) -> Results:
        """The next draw writes the results again."""
        return {value: self._results[value].clone() for value in ask.wanted}

    def _begin(self, ask: Ask) -> Results | None:
        """Records a run, whose first results are those of the mode's own noise."""
        try:
            bank = Bank.copy(self._device)

            def call() -> Results:
                assumed = Assumed(ask.answers)
                reading = ask.mode(assumed)
                reading.noise.read(bank)
                results = self._run.run(ask.inputs, ask.wanted, reading)
                return results | {_RIGHT: assumed.hold(self._device)}

            self._replay, self._results = self._record(call)
            self._bank, self._answers, self._key = bank, dict(ask.answers), ask.key()
            self._replay()
            if not self._trusted:
                exact = self._run.run(ask.inputs, ask.wanted, ask.mode(ask.answers))
                self._trusted = all(torch.equal(torch.nan_to_num(exact[v]), torch.nan_to_num(self._results[v])) for v in ask.wanted)
        except Exception:  # it waits for the device, copies from the host, or there is no memory for it
            self._trusted = False
        if not self._trusted:
            self._refused = True
            self.forget()
            return None
        return self._copies(ask)

    def _in_use(self) -> int:
        return torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0
