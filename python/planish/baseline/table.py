"""The table of modules that are timed against each other.

All share one set of parameters, get the same input tensors and are called as `module(*args, **kwargs)` under no_grad. Blocks of calls
are interleaved, so that a drift of clocks or of the machine's load falls on all of them.
"""

from __future__ import annotations

import copy
import functools
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from planish import float8, generators
from planish.baseline.early import Gate, device_behind
from planish.baseline.freshness import keeps_results
from planish.baseline.in_place import InPlace
from planish.baseline.like_gate import beyond_gate
from planish.baseline.routes import DRAWS, explained_by_routes, rounded_otherwise
from planish.capture import LoadedTask, load_task
from planish.errors import PlanishError, is_device_failure
from planish.oracle.layout import copy_into
from planish.runner.module import ProgramWatch, load_model
from planish.runner.timing import Limits, Stopwatch, settled, summary, wanted_by_others
from planish.ship import wrapped
from planish.ship.guards import COMPILE_OPTIONS, eagers_draws
from planish.time_limit import TimeIsOverError, time_limit

KINDS = ("eager", *COMPILE_OPTIONS, "shipped")
_SETS = 4
_DOUBLE_ROOM = 8  # times what parameters, inputs and results take in double precision, for what lies between them
_MEMORY_SHARE = 0.25  # of the device's memory, for all sets of inputs together
_WORTH_IT = 1 << 26  # bytes of inputs that are let go of while nobody needs them
_BLOCK_SECONDS = 0.1
_SANITY = 1e-2  # gross cheats; whoever passes is asked for the gate's accuracy
_SANITY_OF_EAGER = 8.0  # times eager's own error, where that is more
_MOST_SANITY, _MOST_OF_ELEMENT = 0.3, 0.5  # of the whole output (relative Frobenius), and of an element
_NOISE = 100.0  # eager's error beside the truth: rounding of what cancels
_FAR_SHARE = 1e-4  # of the elements
_MOST_STRAYS, _BLOCKS = 5e-3, 64  # elements that may be far because eager has as many; parts of an output that these are spread over
_NOT_TOLD = "beside such rounding nothing can be told right"
_PIECE = 1 << 24  # elements that are compared at once
_LATENCY_ROUNDS, _LATENCY_CALLS = 4, 10
_LATENCY_BELOW = 2.0  # ms; what the host adds to longer calls is lost in them
_KEPT = 10  # results that a caller keeps, where calls are timed so
_KEPT_ROUNDS = 4
_KEPT_FROM = 1 << 20  # bytes of results; smaller ones come from memory that the allocator has at hand either way
_MOST_STATE = 1 << 20  # bytes of buffers, of which those that calls change are copied before each
_SEED = 20_011  # of the random numbers of the first set
_WARM_UP = 3  # CUDA graph modes record at the second call and replay from the third


@dataclass
class Entry:
    """One row: a module and what was measured of it."""

    name: str
    kind: str
    module: nn.Module
    others: list[float] = field(default_factory=list)  # threads of theirs that wanted each processor, before each block; on a CPU
    samples: list[float] = field(default_factory=list)
    seconds: float = 0.0
    warm: float = 0.0  # seconds of a call, as it was when the row was made
    host_us: float = 0.0
    latency: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)  # ms of calls whose results stay alive
    last: tuple[int, Any] | None = None  # (set, leaves of the result) of the last timed call, and what it left in inputs that it changes
    state: dict[str, torch.Tensor] = field(default_factory=dict)  # of buffers that calls change, as the last timed call found them
    left: dict[str, torch.Tensor] = field(default_factory=dict)  # of the same, as it left them
    watch: ProgramWatch | None = None  # of a shipped module
    error: dict[str, str] | None = None


def memory_bytes(device: torch.device) -> int:
    """Of the device; on the CPU what is available now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 1 << 32


def tensor_bytes(tree: Any) -> int:
    return sum(t.untyped_storage().nbytes() for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor))


def describe(error: BaseException) -> dict[str, str]:
    """What a failing mode raised, as an error entry."""
    kind = getattr(error, "kind", "failed")
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        kind = "out_of_memory"
    elif is_device_failure(error):
        kind = "device_lost"
    lines = str(error).strip().splitlines()
    return {"kind": str(kind), "message": f"{type(error).__name__}: {lines[0] if lines else ''}"}


class Table:
    """The baselines of one task on one device."""

    def __init__(self, task_path: Path, device: torch.device, accuracy: str = "eager") -> None:
        """Loads the task and makes its first inputs. Raises PlanishError."""
        self.device = device
        self.accuracy = accuracy  # that the search was asked for (oracle/gate.py)
        self.task: LoadedTask = load_task(task_path)
        self.model = self.task.model.to(device)
        self.entries: dict[str, Entry] = {}
        self._result_bytes = 0
        self._in_place = InPlace()
        self._draws: bool | None = None  # whether the model draws from torch's generator; None: not known yet
        first = self.task.make_inputs(1, device)
        room = int(memory_bytes(device) * _MEMORY_SHARE / max(1, tensor_bytes(first)))
        self.set_count = max(1, min(_SETS, room))
        self._sets = [first]
        self._aside_on_host: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []  # memory of inputs that was let go of, and its contents
        del first
        self.clean()  # the generator's temporaries

    @property
    def sets(self) -> list[Any]:
        """All sets of inputs. Those beyond the first are made when they are asked for: while modes compile beside a search, the device's
        memory is the search's."""
        while len(self._sets) < self.set_count:
            self._sets.append(self.task.make_inputs(len(self._sets) + 1, self.device))
        return self._sets

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """The body waits, perhaps for minutes, while a search has the device: inputs take no memory of it there. The tensors stay the same,
        which is what whoever compiles for them knows; their contents wait on the host, as a task may hand out tensors that it keeps."""
        if tensor_bytes(self._sets) >= _WORTH_IT:
            own = {t.untyped_storage().data_ptr() for t in wrapped.state(self.model)}
            for tensor in pytree.tree_leaves(self._sets):
                memory = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
                if memory is not None and memory.nbytes() and memory.resizable() and memory.data_ptr() not in own:
                    self._aside_on_host.append((memory, memory.cpu() if self.device.type == "cuda" else memory.clone()))
                    memory.resize_(0)
            self.clean()
        try:
            yield
        finally:
            self._fill_again()

    def _fill_again(self) -> None:
        """Brings inputs back that were let go of."""
        with _disable_current_modes(), torch.no_grad():
            while self._aside_on_host:
                memory, contents = self._aside_on_host[-1]
                memory.resize_(contents.nbytes())
                memory.copy_(contents)
                self._aside_on_host.pop()

    def _twin(self, buffers: Mapping[str, torch.Tensor] | None = None) -> nn.Module:
        """A copy of the module with its own buffers, which hold what `buffers` do where they are named there, and the same parameters."""
        try:
            twin = copy.deepcopy(self.model, {id(p): p for p in self.model.parameters()})
        except Exception as error:
            twin = self._made_anew(error, share=True)
        for name, buffer in twin.named_buffers():
            if buffers and name in buffers:
                buffer.copy_(buffers[name])
        return twin

    def _separate(self) -> nn.Module:
        """A copy that shares nothing with the module."""
        try:
            return copy.deepcopy(self.model)
        except Exception as error:
            return self._made_anew(error, share=False)

    def _made_anew(self, error: Exception, share: bool) -> nn.Module:
        """A copy where copy.deepcopy() refuses: for an attribute that answers to every name (a dict with `__getattr__ = dict.__getitem__`),
        a lock, a tensor that others were computed to (the weight of torch.nn.utils.weight_norm). Parameters are the same where `share`."""
        if is_device_failure(error) or isinstance(error, torch.OutOfMemoryError | MemoryError):
            raise error
        module = self.task.rebuild().to(self.device)
        parts, parameters, buffers = dict(module.named_modules()), dict(module.named_parameters()), dict(module.named_buffers())
        for name, part in self.model.named_modules():
            parts[name].training = part.training
        for name, parameter in self.model.named_parameters():
            parameters[name].data = parameter.data if share else parameter.data.clone()
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                buffers[name].copy_(buffer)
        return module

    def _shipped(self, path: Path) -> nn.Module:
        module = load_model(path, self.task).to(self.device)
        module.load_state_dict(self.model.state_dict())
        own = dict(module.named_parameters())
        for name, parameter in self.model.named_parameters():
            if name in own:
                own[name].data = parameter.data
        return module

    def _ready(self, k: int) -> None:
        """Before call `k`, outside of what is timed: inputs that calls change get their contents back, and torch's generator the seed of the set."""
        if self._draws:
            torch.manual_seed(_SEED + k % len(self._sets))
        self._in_place.restore(k % len(self._sets), self._sets[k % len(self._sets)])

    def _call(self, entry: Entry, k: int) -> Any:
        args, kwargs = self._sets[k % len(self._sets)]
        if entry.watch is not None:
            entry.watch.calls += 1
        return entry.module(*args, **kwargs)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def clean(self) -> None:
        """Gives memory back between modes."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def add(self, name: str, kind: str, path: Path | None, seconds: float | None = None, gate: Gate | None = None) -> dict[str, Any]:
        """Makes a row and runs it until it is warm: {compile_seconds}, the time its first calls took beyond a warm one. A mode that
        fails, or takes more than `seconds` (`out_of_time`), raises PlanishError and leaves no row. With a `gate` the device is left alone
        until it opens; that wait is no time of compiling."""
        if kind not in KINDS:
            raise PlanishError("bad_request", f"unknown kind '{kind}'", f"one of {', '.join(KINDS)}")
        if kind == "shipped" and path is None:
            raise PlanishError("bad_request", "kind shipped needs a path")
        self.entries.pop(name, None)
        if gate is not None:
            gate.aside = self._aside
        try:
            self._fill_again()  # where an earlier mode ended in the middle of that
            with time_limit(seconds), device_behind(gate) if gate is not None else nullcontext():
                self.entries[name], spent = self._made(name, kind, path)
        except TimeIsOverError:
            torch._dynamo.reset()  # it was left in the middle of something
            self.clean()
            raise PlanishError("out_of_time", f"{name} was not compiled after {seconds:.0f} s") from None
        except PlanishError:
            raise
        except (Exception, SystemExit) as error:
            about = describe(error)
            del error
            self.clean()
            raise PlanishError(about["kind"], f"{name}: {about['message']}") from None
        self.clean()
        return {"compile_seconds": spent - (gate.seconds if gate is not None else 0.0)}

    def _find_draws(self) -> bool:
        """Whether a call of the model moves torch's generator: looked at once, before a mode is compiled."""
        if self._draws is None:
            twin = self._twin()

            def call() -> Any:  # the inputs' own draws, around it, are not the model's
                before, (args, kwargs) = generators.state(self.device), self._sets[0]
                result = twin(*args, **kwargs)
                self._draws = not torch.equal(generators.state(self.device), before)
                return result

            with torch.no_grad():
                self._in_place.watched(self._sets[0], call, lambda: self.task.make_inputs(1, self.device))
            assert self._draws is not None
        return self._draws

    def _made(self, name: str, kind: str, path: Path | None) -> tuple[Entry, float]:
        """A warm row, and the seconds that its first calls took beyond a warm one."""
        draws = self._find_draws()
        module = self._shipped(path) if path is not None and kind == "shipped" else self._twin()
        if kind in COMPILE_OPTIONS:
            module = torch.compile(module, **(eagers_draws(kind) if draws else COMPILE_OPTIONS[kind]))  # type: ignore[assignment]
        entry = Entry(name, kind, module, watch=ProgramWatch(module) if kind == "shipped" else None)
        with torch.no_grad():
            start = time.perf_counter()
            for k in range(_WARM_UP):
                self._ready(k)
                if k == 0:
                    self._in_place.watched(self._sets[0], lambda: self._call(entry, 0), lambda: self.task.make_inputs(1, self.device))
                else:
                    self._call(entry, k)
                self._settle()
            spent = time.perf_counter() - start
            self._ready(0)
            start = time.perf_counter()
            self._call(entry, 0)
            self._settle()
            entry.warm = warm = time.perf_counter() - start
        return entry, max(0.0, spent - _WARM_UP * warm)

    def seconds_of(self, names: list[str], limits: Limits) -> float:
        """What timing them may take, by what a call of each took: few calls end before the limit, and where results are kept it is asked once more."""
        rows = [self.entries[n] for n in names if n in self.entries]
        calls = 2 * max(2, len(self.sets)) * sum(entry.warm for entry in rows)
        return calls + len(rows) * limits.max_seconds * (1 if self.device.type == "cuda" else 2)

    def time(self, names: list[str], limits: Limits) -> dict[str, Any]:
        """{times: {name: timing}, errors: {name: error}}. `max_seconds` holds for each name."""
        errors: dict[str, dict[str, str]] = {n: {"kind": "bad_request", "message": f"no row '{n}' was added"} for n in names if n not in self.entries}
        rows = [self.entries[n] for n in names if n in self.entries]
        watch = Stopwatch(self.device)
        self._fill_again()
        _ = self.sets
        with torch.no_grad():
            for entry in rows:
                entry.samples, entry.seconds, entry.error, entry.last, entry.latency, entry.kept = [], 0.0, None, None, [], []
                entry.others, entry.left = [], {}
                self._guarded(entry, self._warm_up, watch)
            active = [e for e in rows if e.error is None]
            while active:
                for entry in active:
                    self._guarded(entry, self._block, watch, limits)
                    self.clean_after_error(entry)
                alive = [e for e in active if e.error is None]
                # All go on together until the last has settled: samples of the same minutes are what is compared.
                done = all(len(e.samples) >= limits.min_runs and settled(e.samples, limits.interval) for e in alive)
                active = [] if done else [e for e in alive if len(e.samples) < limits.max_runs and e.seconds < limits.max_seconds]
            if watch.cuda:
                for _ in range(_LATENCY_ROUNDS):
                    for entry in rows:
                        if entry.error is None and min(entry.samples) < _LATENCY_BELOW:
                            self._guarded(entry, self._alone, watch)
            else:
                self._time_kept(rows, watch, limits)
            for entry in rows:
                if entry.error is None and entry.kind == "shipped":
                    self._guarded(entry, self._check)
                    self._guarded(entry, self._anew, watch)
                    self._ran(entry)
                entry.last = None
            self._check_baselines(rows)
        errors |= {e.name: e.error for e in rows if e.error is not None}
        self.clean()
        return {"times": {e.name: summary(e.samples, e.host_us, e.latency, e.kept, _mean(e.others)) for e in rows if e.error is None}, "errors": errors}

    def clean_after_error(self, entry: Entry) -> None:
        if entry.error is not None:
            self.clean()

    @staticmethod
    def _guarded(entry: Entry, what: Any, *args: Any) -> None:
        try:
            what(entry, *args)
        except (Exception, SystemExit) as error:
            entry.error = describe(error)
            entry.last = None

    def _warm_up(self, entry: Entry, watch: Stopwatch) -> None:
        for k in range(max(2, len(self.sets))):
            self._ready(k)
            self._call(entry, k)
        self._settle()
        entry.host_us = watch.host_us(lambda k: self._call(entry, k), self._ready, 0.3)
        entry.state = self._moved(entry) if entry.kind == "shipped" else {}

    def _moved(self, entry: Entry) -> dict[str, torch.Tensor]:
        """Copies of the buffers that a call changes; nothing where they are many bytes, which would be copied before each timed call."""
        if sum(buffer.nbytes for buffer in entry.module.buffers()) > _MOST_STATE:
            return {}
        before = {name: buffer.clone() for name, buffer in entry.module.named_buffers()}
        self._ready(0)
        self._call(entry, 0)
        return {name: buffer.clone() for name, buffer in entry.module.named_buffers() if name in before and not torch.equal(buffer, before[name])}

    def _ready_with_state(self, entry: Entry, k: int) -> None:
        """_ready(), and what the call finds in the buffers that it changes is kept: an average that moves gives another result at each call."""
        self._ready(k)
        if entry.state:
            now = dict(entry.module.named_buffers())
            for name, kept in entry.state.items():
                kept.copy_(now[name])

    def _block(self, entry: Entry, watch: Stopwatch, limits: Limits) -> None:
        done = len(entry.samples)
        middle = sorted(entry.samples)[done // 2] / 1e3 if done else _BLOCK_SECONDS
        count = min(max(1, int(_BLOCK_SECONDS / max(middle, 1e-6))), 20, limits.max_runs - done)
        count = max(1, min(count, limits.max_runs - done))

        def keep(k: int, result: Any) -> None:
            if entry.kind == "shipped":
                index = (done + k) % len(self.sets)
                entry.last = index, self._in_place.outcome(self.sets[index], result)
                if entry.state:
                    entry.left = {name: buffer.clone() for name, buffer in entry.module.named_buffers() if name in entry.state}

        entry.last = None
        if not watch.cuda:
            entry.others.append(wanted_by_others())
        start = time.perf_counter()
        # The first call of a block finds caches as another module left them: it warms up and is not counted.
        self._ready(done)
        self._call(entry, done)
        ready = functools.partial(self._ready_with_state, entry)
        entry.samples += watch.samples(lambda k: self._call(entry, done + k), count, lambda k: ready(done + k), keep, limits.max_seconds)
        entry.seconds += time.perf_counter() - start

    def _alone(self, entry: Entry, watch: Stopwatch) -> None:
        for _ in range(2):
            self._ready(0)
            self._call(entry, 0)
        entry.latency += watch.latency(lambda k: self._call(entry, k), _LATENCY_CALLS)

    def _time_kept(self, rows: list[Entry], watch: Stopwatch, limits: Limits) -> None:
        """Times calls again whose caller keeps every result: then none can be written into memory that an earlier call left, which on
        the CPU, where fresh memory is page faults, may be most of what was gained. Results that are small, or too large to keep, are not."""
        probe = next((e for e in rows if e.error is None), None)
        if probe is None:
            return
        self._guarded(probe, self._measure_results)
        size = self._result_bytes
        count = min(_KEPT, int(memory_bytes(self.device) * _MEMORY_SHARE / max(1, size)))
        if size < _KEPT_FROM or count < 3:
            return
        began = time.perf_counter()
        for _ in range(_KEPT_ROUNDS):
            for entry in rows:
                if entry.error is None:
                    self._guarded(entry, self._keeping, watch, count)
            if time.perf_counter() - began > limits.max_seconds * len(rows):
                return

    def _measure_results(self, entry: Entry) -> None:
        """A result that is an input, or a view of one, takes no memory of its own."""
        args, kwargs = self.sets[0]
        given = {t.untyped_storage().data_ptr() for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        fresh = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in pytree.tree_leaves(self._call(entry, 0)) if isinstance(t, torch.Tensor)}
        self._result_bytes = sum(size for at, size in fresh.items() if at not in given)

    def _keeping(self, entry: Entry, watch: Stopwatch, count: int) -> None:
        results: list[Any] = []
        self._call(entry, 0)
        entry.kept += watch.samples(lambda k: self._call(entry, k), count, self._ready, lambda _, result: results.append(result))

    def _anew(self, entry: Entry, watch: Stopwatch) -> None:
        """A module that keeps results does not do the work that was timed."""
        if entry.error is not None or len(self.sets) < 2:
            return

        def refresh(seed: int) -> None:
            fresh = self.task.make_inputs(seed, self.device)
            for old, new in zip(pytree.tree_leaves(self.sets[0]), pytree.tree_leaves(fresh), strict=True):
                if isinstance(old, torch.Tensor):
                    copy_into(old, new)
            self._settle()

        try:
            found = keeps_results(refresh, lambda k: watch.samples(lambda _: self._call(entry, k), 1)[0])
        except (MemoryError, torch.OutOfMemoryError):  # no room for another set of inputs: no fault of the module's
            self.clean()
            return
        if found:
            entry.error = {"kind": "keeps_results", "message": f"{entry.name}: {found}"}

    @staticmethod
    def _ran(entry: Entry) -> None:
        """A shipped program whose calls ran the original was not what was timed."""
        report = entry.watch.report() if entry.watch is not None else {"ran": None}
        if report["ran"] is not None and report["ran"] < report["calls"] and entry.error is None:
            entry.error = {"kind": "fell_back", "message": f"{entry.name}: the program answered {report['ran']} of {report['calls']} calls, "
                           f"the original the others: {report['reason']}"}  # fmt: skip

    def _check_baselines(self, rows: list[Entry]) -> None:
        """What computes something else is no measure: one call more of each compiled baseline, after all were timed, is compared with eager
        in the same state. To keep their last timed results would take as much memory for each while the others are timed."""
        exact: list[list[Any] | None] = []  # the model's own results in fp64, once one of them asks for these
        for entry in rows:
            if entry.error is None and entry.kind in COMPILE_OPTIONS:
                self._guarded(entry, self._check_baseline, exact)

    def _check_baseline(self, entry: Entry, exact: list[list[Any] | None]) -> None:
        """Sets the row's error where what it returns is certainly wrong; what cannot be told stays a measure, as eager does."""
        try:
            problem = self._fault_of(entry, exact)
        except (MemoryError, torch.OutOfMemoryError):  # it was timed without eager's results beside it
            self.clean()
            return
        if problem:
            entry.error = {"kind": "wrong_when_timed", "message": f"it returned {problem}"}

    def _fault_of(self, entry: Entry, exact: list[list[Any] | None]) -> str:
        eager = self._twin(dict(getattr(entry.module, "_orig_mod", entry.module).named_buffers()))
        expected = self._outcome(lambda: eager(*self.sets[0][0], **self.sets[0][1]), 0)
        actual = self._outcome(lambda: self._call(entry, 0), 0)
        if len(expected) != len(actual):
            return f"{len(actual)} values instead of {len(expected)}"
        if problem := _first(no_numbers, actual, expected):
            return problem
        if not _first(far_apart, actual, expected):
            return ""
        if not exact:
            exact.append(self._in_double(0, len(expected)))
        if exact[0] is None:
            return ""
        problem = _first(further_than_eager, actual, expected, exact[0])
        if problem and self._draws:
            return f"{problem}: for the same seed it draws other random numbers than eager"
        return "" if problem.endswith(_NOT_TOLD) else problem

    def _check(self, entry: Entry) -> None:
        """Compares the last timed result with eager on the same inputs; where they are far apart, both with the model in fp64. Sets the row's
        error where eager's own rounding is no reason for it."""
        if entry.last is None:
            return
        index, actual = entry.last
        args, kwargs = self.sets[index]
        twin = self._twin(entry.state)
        expected = self._outcome(lambda: twin(*args, **kwargs), index)
        if len(expected) != len(actual):
            problem = f"{len(actual)} values instead of {len(expected)}"
        else:
            problem = _first(far_apart, actual, expected)
            if problem and self._agrees_in_its_state(entry, index, actual):
                return
            if problem and (exact := self._in_double(index, len(expected))) is not None:
                problem = _first(further_than_eager, actual, expected, exact)
                if problem and self._took_another_route(actual, expected, exact, self._rounded_otherwise(index, expected)):
                    return
            problem = problem or self._beyond_gate(entry, index, actual, expected)
        problem = f"returned {problem}" if problem else self._left_otherwise(entry, twin)
        if problem:
            entry.error = {"kind": "wrong_when_timed", "message": f"{entry.name}: the timed calls {problem}"}

    def _left_otherwise(self, entry: Entry, twin: nn.Module) -> str:
        """Which buffer the last timed call did not leave as eager does that found the same: a state that was made easy would make results right."""
        now = dict(twin.named_buffers())
        return next((f"left other values in '{name}' than eager does" for name, found in entry.left.items() if far_apart(found, now[name], 0)), "")

    def _outcome(self, call: Callable[[], Any], index: int) -> list[Any]:
        """The leaves of a call's result on a set of inputs, and what it leaves in those that calls change."""
        self._ready(index)
        return self._in_place.outcome(self.sets[index], call())

    def _beyond_gate(self, entry: Entry, index: int, actual: list[Any], expected: list[Any]) -> str:
        """Of a result that is not grossly wrong: how it is less accurate than the gate allows. Nothing where an accuracy of its own was asked for, or
        the model cannot be run in double precision throughout."""
        if self.accuracy != "eager" or not self._double_fits(expected):
            return ""
        exact = self._in_double(index, len(expected), throughout=True)
        if exact is None or not _beyond(actual, exact, [expected]):
            return ""
        draws = self._rounded_otherwise(index, expected)
        problem = _beyond(actual, exact, draws)
        if problem and (self._agrees_in_its_state(entry, index, actual) or self._took_another_route(actual, expected, exact, draws, some=True)):
            return ""
        return problem

    def _double_fits(self, results: list[Any]) -> bool:
        """On the host nobody says in time that memory is over."""
        if self.device.type == "cuda":
            return True
        state = (*self.model.parameters(), *self.model.buffers())
        elements = sum(t.numel() for t in pytree.tree_leaves((state, self.sets[0], results)) if isinstance(t, torch.Tensor))
        return _DOUBLE_ROOM * 8 * elements <= memory_bytes(self.device)

    @staticmethod
    def _took_another_route(actual: list[Any], expected: list[Any], exact: list[Any], draws: list[list[Any]], some: bool = False) -> bool:
        """Whether each output that is further from the truth than eager's is so where eager's own rounding, a little otherwise, moves whole rows:
        a mixture of experts in 16 bits sends some tokens to others."""
        far = [k for k, leaf in enumerate(expected) if isinstance(leaf, torch.Tensor)
               and (further_than_eager(actual[k], leaf, exact[k], k) or beyond_gate(actual[k], exact[k], [leaf]))]  # fmt: skip
        return len(draws) > 1 and all(explained_by_routes(actual[k], exact[k], [d[k] for d in draws], some) for k in far)

    def _rounded_otherwise(self, index: int, expected: list[Any]) -> list[list[Any]]:
        """Eager's results on a set of inputs, then with some parameters and inputs moved by a rounding."""
        draws: list[list[Any]] = [expected]
        for draw in range(DRAWS):
            self._ready(index)
            generator = torch.Generator().manual_seed(draw)
            try:
                model = self._separate()
                args, kwargs = rounded_otherwise(model, self.sets[index], generator, pytree.tree_map)
                draws.append(self._in_place.outcome((args, kwargs), model(*args, **kwargs)))
            except (MemoryError, torch.OutOfMemoryError):
                break
        return draws

    def _agrees_in_its_state(self, entry: Entry, index: int, actual: list[Any]) -> bool:
        """Whether eager comes to the same with the buffers that the timed calls left, of those that its own calls change: a spectral norm in
        training mode comes nearer to its weight's norm with each call."""
        left, changing = dict(entry.module.named_buffers()), self._twin()
        args, kwargs = self.sets[index]
        before = {name: buffer.clone() for name, buffer in changing.named_buffers()}
        self._ready(index)
        changing(*args, **kwargs)
        moved = {name: left[name] for name, buffer in changing.named_buffers() if name in left and not torch.equal(buffer, before[name])}
        return bool(moved) and not _first(far_apart, actual, self._outcome(lambda: self._twin(moved)(*args, **kwargs), index))

    def _in_double(self, index: int, count: int, throughout: bool = False) -> list[Any] | None:
        """The `count` leaves of the model's result in fp64 on a set of inputs; None where the model cannot be run so. `throughout`: its own casts too."""
        self._ready(index)
        args, kwargs = wide = pytree.tree_map(_wide, self.sets[index])
        default = torch.get_default_dtype()
        from planish.oracle.agreement import is_large, result_in_double, twin_of  # with what captures, for which nobody else here has a use

        coded = wrapped.are_in(self.model)  # whose classes know no doubles
        # Random numbers are the task's own, drawn in its types; of large parameters no second set in double may fit.
        throughout = throughout or coded or bool(self._draws) or any(map(is_large, self.model.parameters()))
        try:
            model = twin_of(self.model, self._separate) if throughout and not coded else self._separate()
            if coded:
                from planish.capture.inner_tensors import on_plain_tensors

                model = on_plain_tensors(model, *self.sets[index])
            self._ready(index)
            if throughout:
                result = result_in_double(model, args, kwargs, lambda model, args, kwargs: model(*args, **kwargs))
            else:
                from planish.capture.grouped import GroupedInDouble  # likewise with what captures

                torch.set_default_dtype(torch.float64)  # what forward creates
                with GroupedInDouble():
                    result = model.double()(*args, **kwargs)
            found = self._in_place.outcome(wide, result)
        except Exception as error:
            if is_device_failure(error):
                raise
            self.clean()
            return None
        finally:
            torch.set_default_dtype(default)
        return found if len(found) == count else None


def _wide(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.double() if leaf.is_floating_point() and leaf.dtype is not torch.float64 else leaf.clone()


def _beyond(actual: list[Any], exact: list[Any], eagers: list[list[Any]]) -> str:
    for k, leaf in enumerate(eagers[0]):
        if isinstance(leaf, torch.Tensor) and (problem := beyond_gate(actual[k], exact[k], [eager[k] for eager in eagers])):
            return f"{problem} as output {k}"
    return ""


def _first(problem_of: Callable[..., str], *lists: list[Any]) -> str:
    """The first problem with the tensors of these lists, or nothing."""
    for position, leaves in enumerate(zip(*lists, strict=True)):
        if isinstance(leaves[1], torch.Tensor) and (problem := problem_of(*leaves, position)):
            return problem
    return ""


def no_numbers(actual: Any, expected: torch.Tensor, position: int) -> str:
    """Where eager's output has numbers and this one has none, or nothing."""
    if not isinstance(actual, torch.Tensor) or actual.shape != expected.shape or not expected.dtype.is_floating_point or not expected.numel():
        return ""
    lost = sum(int((b.isfinite() & ~a.isfinite()).sum()) for a, b in _pieces(actual, expected))
    return f"NaN or infinity where eager has numbers, in {lost / expected.numel():.2g} of output {position}" if lost > _FAR_SHARE * expected.numel() else ""


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def far_apart(actual: Any, expected: torch.Tensor, position: int) -> str:
    """How an output differs grossly from eager's, or nothing."""
    if not isinstance(actual, torch.Tensor) or actual.shape != expected.shape or actual.dtype is not expected.dtype:
        return f"another type, shape or dtype as output {position}"
    if expected.numel() == 0 or expected.dtype.is_complex:
        return ""
    far = 0
    if not expected.dtype.is_floating_point:
        for a, b in _pieces(actual, expected):
            far += int((a != b).sum())
        return f"other values as output {position}" if far > _SANITY * expected.numel() else ""
    scale = max(_rms(expected), 1e-30)
    for a, b in _pieces(actual, expected):
        far += int((~torch.isclose(a.float(), b.float(), rtol=_SANITY, atol=_SANITY * scale, equal_nan=True)).sum())
    return f"values far from eager's as output {position}" if far > _FAR_SHARE * expected.numel() else ""


def further_than_eager(actual: Any, expected: torch.Tensor, exact: Any, position: int) -> str:
    """How an output that is far from eager's is also further from the truth than eager's own rounding explains, or nothing: a deep network in
    TF32 is some percent from the truth, and so from itself; where all that is right is zero, eager's is noise."""
    problem = far_apart(actual, expected, position)
    if not problem or not isinstance(actual, torch.Tensor) or not isinstance(exact, torch.Tensor) or not expected.is_floating_point():
        return problem
    if exact.shape != expected.shape or actual.shape != expected.shape or actual.dtype is not expected.dtype:
        return problem
    count, truth2, ours2, eager2, elsewhere = 0, 0.0, 0.0, 0.0, 0
    for a, b, x in _pieces(actual, expected, exact):
        good = x.isfinite() & b.isfinite()
        if not bool(a.isfinite().logical_or_(~good).all()):
            return problem
        elsewhere += int((~good & ~((a == b) | (a.isnan() & b.isnan()))).sum())  # where no number can be compared eager's is what is right
        truth = torch.where(good, x.double(), 0.0)
        count += int(good.sum())
        truth2 += float(truth.square().sum())
        ours2 += float(torch.where(good, a.double() - truth, 0.0).square().sum())
        eager2 += float(torch.where(good, b.double() - truth, 0.0).square().sum())
    if not count or elsewhere > _FAR_SHARE * expected.numel():
        return problem
    scale = max(math.sqrt(truth2 / count), 1e-300)
    apart, own = math.sqrt(ours2 / count) / scale, math.sqrt(eager2 / count) / scale
    if own >= _NOISE:  # all that is right is zero, beside what eager's rounding makes of it
        return "" if apart <= 2 * own else problem
    wide = max(_SANITY, min(_SANITY_OF_EAGER * own, _MOST_OF_ELEMENT))
    begin, far, eager_far = 0, torch.zeros(_BLOCKS, dtype=torch.int64), torch.zeros(_BLOCKS, dtype=torch.int64)
    for a, b, x in _pieces(actual, expected, exact):
        good, truth = x.isfinite() & b.isfinite(), x.double()
        room = wide * (truth.abs() + scale)
        for values, strays in ((a, far), (b, eager_far)):
            at = (((values.double() - truth).abs() > room) & good).nonzero()[:, 0] + begin
            strays += torch.bincount(at * _BLOCKS // expected.numel(), minlength=_BLOCKS).cpu()
        begin += a.numel()
    limit = max(_SANITY, min(_SANITY_OF_EAGER * own, _MOST_SANITY))
    # A softmax in the middle of a network makes a few elements anything, of eager's too: here and there, as eager's lie.
    few = max(_FAR_SHARE * count, min(2.0 * int(eager_far.sum()), _MOST_STRAYS * count))
    spread = bool((far <= 8 * torch.maximum(eager_far.double(), torch.tensor(few / _BLOCKS)) + 8).all())
    if apart <= limit and int(far.sum()) <= few and spread:
        return ""
    # Small batches under batch norms in training mode can do that: neither the result nor eager's is the model's.
    if own > _MOST_SANITY:
        return f"{problem}, whose own lie {own:.0%} from those of the model in fp64: {_NOT_TOLD}"
    return problem


def _pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same elements of all of them, so many at once that what is computed of them is small."""
    flat = [float8.computable(t).reshape(-1) for t in tensors]
    return zip(*(t.split(_PIECE) for t in flat), strict=True)


def _rms(tensor: torch.Tensor) -> float:
    """Of what is finite; 1 where nothing is."""
    total, count = 0.0, 0
    for (piece,) in _pieces(tensor):
        good = piece.isfinite()
        total += float(torch.where(good, piece.double(), 0.0).square().sum())
        count += int(good.sum())
    return math.sqrt(total / count) if count else 1.0
