"""What the torch runner answers (docs/formats/wire.md)."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from planish import rt
from planish.callers import CALLERS, threads
from planish.errors import PlanishError, first_line, is_device_failure
from planish.executor import ExecutorError
from planish.runner import own_tmp
from planish.runner.handles import Bound, Handle, ProgramHandle
from planish.runner.timing import Limits, Stopwatch, summary
from planish.wire import answer_bell, await_bell

_KEPT = 1 << 30  # bytes that a process may cache
_MOST_SAID = 400  # characters of what a module raised


def device_facts(device: torch.device) -> dict[str, Any]:
    """What `hello` says of the device."""
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        return {"kind": "cuda", "name": about.name, "memory": about.total_memory, "sms": about.multi_processor_count}
    return {"kind": "cpu", "name": platform.processor() or platform.machine(), "cores": len(os.sched_getaffinity(0))}


def named(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Gives what torch and the executor raise the runner's error kinds."""

    @wraps(function)
    def inner(*args: Any) -> dict[str, Any]:
        try:
            return function(*args)
        except ExecutorError as error:
            raise PlanishError(error.kind, str(error)) from error
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise PlanishError("out_of_memory", first_line(error)) from error
        except (RuntimeError, SystemExit) as error:
            text = first_line(error)
            kind = "launch_failed"
            if is_device_failure(error):
                kind = "device_lost"
            elif "illegal memory access" in text or "misaligned address" in text:
                kind = "illegal_address"
            elif "can't allocate memory" in text or "out of memory" in text:
                kind = "out_of_memory"
            raise PlanishError(kind, text + own_tmp.advice(error)) from error
        except OSError as error:
            if words := own_tmp.advice(error):
                raise PlanishError("launch_failed", first_line(error) + words) from error
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError, AssertionError) as error:
            raise PlanishError("launch_failed", first_line(error)) from error

    return inner


class Runner:
    """The state of one runner process."""

    def __init__(self, device: str) -> None:
        self.device = torch.device("cuda:0" if device == "cuda" else device)
        self.handles: dict[int, Handle] = {}
        self.bound: dict[tuple[int, str], Bound] = {}
        self.held: list[torch.Tensor] = []
        self.next = 1

    @named
    def hello(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        device = params.get("device")
        if device:
            self.device = torch.device("cuda:0" if device == "cuda" else device)
        if self.device.type == "cuda":
            torch.zeros(1, device=self.device)  # makes the context now, not inside the first timed run
        return {"kind": "torch", "torch": torch.__version__, "python": platform.python_version(), "device": device_facts(self.device)}

    def _keep(self, handle: Handle) -> int:
        identity, self.next = self.next, self.next + 1
        self.handles[identity] = handle
        return identity

    @named
    def load(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        own_tmp.decline()
        try:
            handle = ProgramHandle(params["program"], params.get("binaries", []), params.get("blobs", ""), self.device)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PlanishError("bad_program", f"the program document is malformed: {first_line(error)}") from error
        return {"handle": self._keep(handle), "kernels": kernel_info(handle, len(params["program"]["kernels"]))}

    @named
    def load_module(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        from planish.runner.module import ModuleHandle  # capture takes its time to import

        path, task = own_tmp.where(params["path"]), own_tmp.where(params["task"])
        own_tmp.take(path, task)
        handle = ModuleHandle(path, task, int(params.get("seed", 0)), bool(params.get("state", True)), self.device, params.get("graph"),
                              bool(params.get("reference", False)), params.get("variation"))  # fmt: skip
        handle.rehearse = bool(params.get("rehearse", False))
        return {"handle": self._keep(handle), "state": handle.places.kind}

    @named
    def bind(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Adds buffers to a data set: many come in several requests."""
        key = (int(params["handle"]), str(params["data"]))
        if key[0] not in self.handles or len(fds) != len(params["buffers"]):
            for fd in fds:
                os.close(fd)
            raise PlanishError("bad_program", f"handle {key[0]}: {len(params['buffers'])} buffers, {len(fds)} descriptors")
        bound = self.bound.setdefault(key, Bound())
        for fd, description in zip(fds, params["buffers"], strict=True):
            bound.add(self.device, fd, description)
        return {}

    def _find(self, identity: Any, data: str) -> tuple[Handle, Any]:
        handle = self.handles.get(int(identity))
        bound = self.bound.get((int(identity), data))
        if handle is None or bound is None:
            raise PlanishError("bad_program", f"nothing is bound to handle {identity} as '{data}'")
        if bound.prepared is None:
            bound.prepared = handle.prepare(bound)
        return handle, bound.prepared

    @named
    def run(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        handle, prepared = self._find(params["handle"], params["data"])
        with torch.no_grad():
            if params.get("caller"):
                return self._run_as(str(params["caller"]), handle, prepared)
            begun, calls = time.monotonic(), max(1, int(params.get("calls") or 1))
            done = 1
            while done < calls and time.monotonic() - begun < float(params.get("seconds") or 0):  # all but the last for nobody
                handle.before(prepared)
                handle.call(prepared)
                self._settle()
                done += 1
            watch = Stopwatch(self.device, 0)
            with threads(int(params.get("threads") or 0)):
                samples = watch.samples(lambda k: handle.call(prepared), 1, lambda k: handle.before(prepared), lambda k, result: handle.store(prepared, result))
            handle.look(prepared)
        self._give_back()
        return {"ms": samples[0], "calls": done}

    def _run_as(self, caller: str, handle: Handle, prepared: Any) -> dict[str, Any]:
        """`raised`: many solutions cannot be called so, and say it by an exception."""
        if caller not in CALLERS:
            raise PlanishError("bad_program", f"no caller '{caller}'")
        handle.before(prepared)
        begun = time.perf_counter()
        try:
            result = handle.call_as(caller, prepared)
            self._settle()
        except Exception as error:
            if is_device_failure(error) or "illegal memory access" in str(error) or "misaligned address" in str(error):
                raise
            return {"ms": 0.0, "raised": first_line(error)[:_MOST_SAID]}
        ms = 1000 * (time.perf_counter() - begun)
        handle.store_as(caller, prepared, result)
        handle.look(prepared)
        return {"ms": ms}

    @named
    def wind(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        handle = self.handles.get(int(params["handle"]))
        moved = handle.wind(int(params["calls"])) if handle is not None else []
        return {"moved": [words[:_MOST_SAID] for words in moved[:8]]}

    @named
    def time(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        found = [self._find(params["handle"], data) for data in params["data"]]
        if not found:
            raise PlanishError("bad_program", "no data to time with")
        handle, sets = found[0][0], [prepared for _, prepared in found]
        with torch.no_grad():
            watch = Stopwatch(self.device, int(params.get("flush_bytes") or 0))

            def call(k: int) -> Any:
                return handle.call(sets[k % len(sets)])

            def before(k: int) -> None:
                handle.before(sets[k % len(sets)])
                handle.spoil(sets[k % len(sets)])

            def store(k: int, result: Any) -> None:
                handle.store(sets[k % len(sets)], result)

            watch.samples(call, 2, before, store)  # warm-up: allocator, lazy initialisation
            samples = watch.adaptive(call, Limits.of(params), before, store)
            host = watch.host_us(call, before, 0.2)
            for k in range(len(sets)):  # what is checked afterwards are the outputs of calls like the timed ones
                before(k)
                store(k, call(k))
        self._settle()
        self._give_back()
        return summary(samples, host)

    @named
    def call(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """One call for whoever holds a clock outside: done when it rings, and answered at once with where the results lie. Nobody believes
        this process: it is stopped from before the contents are written until the bell rings, and from its answer until they are read."""
        handle, prepared = self._find(params["handle"], params["data"])
        self.held = []
        act = handle.call
        if params.get("empty"):
            act = handle.call_nothing
            act(prepared)  # what it gives is made now
        with torch.no_grad():
            word = await_bell()
            text = "failed"
            try:
                handle.before(prepared)
                result = act(prepared)
                if params.get("store"):
                    handle.store(prepared, result)
                    self._settle()
                    text = ""
                else:
                    self.held = handle.results(prepared, result)  # read after this answer: kept until the next call
                    text = " ".join(f"{t.data_ptr()}:{','.join(map(str, t.stride()))}" for t in self.held)
            finally:
                answer_bell(word, text)
        return {}

    def unbind(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        self._settle()
        for key in [key for key in self.bound if key[1] == params["data"]]:
            self.bound.pop(key).free()
        self._give_back()
        return {}

    def unload(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        self._settle()
        identity = int(params["handle"])
        for key in [key for key in self.bound if key[0] == identity]:
            self.bound.pop(key).free()
        self.handles.pop(identity, None)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # the oracle and the next runner need the memory more than the next call needs the cache
        return {}

    def _give_back(self) -> None:
        """What torch caches between calls, where that is much: the oracle computes its reference beside it."""
        if self.device.type == "cuda" and torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device) > _KEPT:
            torch.cuda.empty_cache()

    def _settle(self) -> None:
        """Nothing may still run on memory that is about to be unmapped."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @named
    def program_ran(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        watch = getattr(self.handles.get(int(params["handle"])), "watch", None)
        if watch is None:
            raise PlanishError("bad_program", f"handle {params['handle']} is no module")
        report: dict[str, Any] = watch.report()
        return report

    @named
    def kernelbench(self, params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        from planish.runner.kernelbench import judge

        path, task = own_tmp.where(params["path"]), own_tmp.where(params["task"])
        own_tmp.take(path, task)
        return judge(task, path, self.device, str(params.get("precision", "fp32")))


def kernel_info(handle: ProgramHandle, kernels: int) -> list[dict[str, int]]:
    """What the driver says of each kernel."""
    found = []
    for k in range(kernels if handle.executor.handle else 0):
        info, error = rt.KernelInfo(), rt.Error()
        rt.check(rt.lib().prt_program_kernel_info(handle.executor.handle, k, info, error), error)
        found.append({name: int(getattr(info, name)) for name, *_ in rt.KernelInfo._fields_})
    return found
