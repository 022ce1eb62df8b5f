"""Timing calls in this process: the same code for candidates, baselines and shipped modules.

CUDA: an event before and after each call on the current stream, an L2 flush before the first of them. CPU: a monotonic clock
around each call. Host time is measured apart, over calls that are not waited for; so is the latency of single calls.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# Calls that CUDA may have queued at once: enough to keep the GPU busy, few enough to notice a budget that has run out.
_QUEUE = 10
_MANY_LAUNCHES = 2e-4  # seconds of one call: ten of them may be more than the driver's queue holds
_HOST_CALLS = 50


def median_interval(samples: list[float]) -> tuple[float, float, float]:
    """(median, low, high): the order statistics that hold the true median with 95 % confidence. With fewer than six samples
    no such pair exists, and the extremes are given. Raises ValueError without samples."""
    ordered = sorted(samples)
    n = len(ordered)
    if n == 0:
        raise ValueError("no samples")
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    half = 1.96 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - half))
    high = min(n - 1, math.ceil(n / 2 + half) - 1)
    return middle, ordered[low], ordered[max(low, high)]


def settled(samples: list[float], interval: float) -> bool:
    """Whether each end of the median's 95 % interval is within `interval` (a fraction) of it."""
    if len(samples) < 6:
        return False
    middle, low, high = median_interval(samples)
    return high - middle <= interval * middle and middle - low <= interval * middle


@dataclass(frozen=True)
class Limits:
    """When measuring stops: settled and at least `min_runs`, or one of the caps."""

    min_runs: int = 10
    max_runs: int = 500
    max_seconds: float = 5.0
    interval: float = 0.01

    @staticmethod
    def of(params: dict[str, Any]) -> Limits:
        """From a request's params, each field optional."""
        default = Limits()
        return Limits(
            int(params.get("min_runs") or default.min_runs),
            max(1, int(params.get("max_runs") or default.max_runs)),
            float(params.get("max_seconds") or default.max_seconds),
            float(params.get("interval") or default.interval),
        )


def wanted_by_others() -> float:
    """Threads beside the caller's own that run or want to, for each of the machine's processors: times on a machine that others use are told with it.
    0 where nobody says (only Linux does)."""
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    except OSError:
        return 0.0
    return max(0, running - 1) / (os.cpu_count() or 1)


def summary(samples: list[float], host_us: float, latency: list[float] | None = None, kept: list[float] | None = None, busy: float = 0.0) -> dict[str, Any]:
    """The result of a `time` request (docs/formats/wire.md)."""
    middle, low, high = median_interval(samples)
    found = {"samples_ms": samples, "median_ms": middle, "lo_ms": low, "hi_ms": high, "host_us": host_us}
    if latency:
        found["latency_ms"], found["latency_lo_ms"], found["latency_hi_ms"] = median_interval(latency)
    if kept:
        found["kept_ms"], found["kept_lo_ms"], found["kept_hi_ms"] = median_interval(kept)
    if busy:
        found["busy"] = round(busy, 3)
    return found


class Stopwatch:
    """Times calls on one device. Not thread-safe. `flush_bytes` of memory are overwritten before each timed call (CUDA)."""

    def __init__(self, device: torch.device, flush_bytes: int | None = None) -> None:
        self.device = device
        self.cuda = device.type == "cuda"
        self._flush: torch.Tensor | None = None
        if self.cuda:
            if flush_bytes is None:
                flush_bytes = 2 * int(torch.cuda.get_device_properties(device).L2_cache_size)
            if flush_bytes > 0:
                self._flush = torch.empty(flush_bytes // 4 + 1, dtype=torch.int32, device=device)

    def samples(self, call: Callable[[int], Any], count: int, before: Callable[[int], Any] | None = None,
                after: Callable[[int, Any], Any] | None = None, max_seconds: float = math.inf) -> list[float]:  # fmt: skip
        """Milliseconds of `count` calls `call(k)`; `before(k)` and `after(k, result)` run outside the timed part."""
        return (self._cuda_samples if self.cuda else self._cpu_samples)(call, count, before, after, max_seconds)

    def _cpu_samples(self, call: Callable[[int], Any], count: int, before: Any, after: Any, max_seconds: float) -> list[float]:
        found: list[float] = []
        deadline = time.perf_counter() + max_seconds
        for k in range(count):
            if before is not None:
                before(k)
            start = time.perf_counter_ns()
            result = call(k)
            found.append((time.perf_counter_ns() - start) / 1e6)
            if after is not None:
                after(k, result)
            del result
            if time.perf_counter() > deadline:
                break
        return found

    def _cuda_samples(self, call: Callable[[int], Any], count: int, before: Any, after: Any, max_seconds: float) -> list[float]:
        found: list[float] = []
        deadline = time.perf_counter() + max_seconds
        stream = torch.cuda.current_stream(self.device)
        while len(found) < count and (not found or time.perf_counter() < deadline):
            pairs = []
            for k in range(len(found), min(count, len(found) + _QUEUE)):
                if before is not None:
                    before(k)
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
                if self._flush is not None:
                    self._flush.zero_()
                start.record(stream)
                result = call(k)
                end.record(stream)
                if after is not None:
                    after(k, result)
                del result
                pairs.append((start, end))
            # The whole device, not the stream: work that a call put elsewhere may not escape the clock of the next one.
            torch.cuda.synchronize(self.device)
            found.extend(start.elapsed_time(end) for start, end in pairs)
        return found

    def latency(self, call: Callable[[int], Any], count: int) -> list[float]:
        """Milliseconds between events around a call that finds the device idle and the L2 cold: what the host takes to submit it counts.
        CUDA only."""
        found: list[float] = []
        stream = torch.cuda.current_stream(self.device)
        for k in range(count):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            if self._flush is not None:
                self._flush.zero_()
            torch.cuda.synchronize(self.device)
            start.record(stream)
            result = call(k)
            end.record(stream)
            torch.cuda.synchronize(self.device)
            del result
            found.append(start.elapsed_time(end))
        return found

    def host_us(self, call: Callable[[int], Any], before: Callable[[int], Any] | None = None, seconds: float = 0.5) -> float:
        """Mean microseconds until a call returns, not waiting for its work. On the CPU the work is part of it."""
        total, calls, most = 0.0, 0, _QUEUE
        while calls < _HOST_CALLS and total < seconds:
            if before is not None:
                before(calls)
            if self.cuda and calls % most == 0:
                torch.cuda.synchronize(self.device)  # a full queue would make the call wait
            start = time.perf_counter()
            call(calls)
            took = time.perf_counter() - start
            if calls == 0 and took > _MANY_LAUNCHES:
                most = 1
            total += took
            calls += 1
        if self.cuda:
            torch.cuda.synchronize(self.device)
        return total / calls * 1e6

    def adaptive(self, call: Callable[[int], Any], limits: Limits, before: Callable[[int], Any] | None = None,
                 after: Callable[[int, Any], Any] | None = None) -> list[float]:  # fmt: skip
        """Samples until the limits say stop. `k` goes on over the batches."""
        found: list[float] = []
        start = time.perf_counter()
        while True:
            done = len(found)
            batch = min(limits.max_runs - done, max(limits.min_runs, 6) if done == 0 else _QUEUE)
            left = limits.max_seconds - (time.perf_counter() - start)
            found += self.samples(
                lambda k, base=done: call(base + k),  # type: ignore[misc]
                batch,
                None if before is None else lambda k, base=done: before(base + k),  # type: ignore[misc]
                None if after is None else lambda k, result, base=done: after(base + k, result),  # type: ignore[misc]
                max(0.0, left),
            )
            if settled(found, limits.interval) and len(found) >= limits.min_runs:
                return found
            if len(found) >= limits.max_runs or time.perf_counter() - start >= limits.max_seconds:
                return found
