"""Times compiled genomes on one GPU for record.py: reads one request a line on stdin, answers one line each on stdout.

    {"open": HEAD}                       inputs, expected outputs and buffers of a task
    {"launches": […], "scratch_bytes": […], "binaries": [path, …], "runs": N}   → {"ms", "lo", "hi", "runs"} or {"outcome", "message"}

A poisoned device ends the process; record.py starts another one and goes on behind the genome that did it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu"))

Json = dict[str, Any]
FLUSH_BYTES = 128 << 20  # written before each run: the last-level cache holds nothing of the task's
MARGIN, CANARY = 256, 0xA5
BATCH = 12
MOST_MS = 40.0  # of runs of one genome
AIM = 0.01  # half width of the median's 95 % interval, over the median
SLOW = 6.0  # times the best: not worth more runs than it takes to know that


def median_interval(times: list[float]) -> tuple[float, float, float]:
    """Median and the order statistics around it that hold it with 95 %."""
    ordered = sorted(times)
    n = len(ordered)
    reach = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor((n - 1) / 2 - reach)), min(n - 1, math.ceil((n - 1) / 2 + reach))
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return middle, ordered[low], ordered[high]


class Expected:
    """One output's right values. As accurate as plain fp32, within a factor of two or 4 ulp (1 of a 16-bit type)."""

    def __init__(self, exact: Any, plain: Any, dtype: Any) -> None:
        import torch

        self.exact, self.floating = exact, dtype.is_floating_point
        if not self.floating:
            return
        if not bool(torch.isfinite(exact).all()):
            raise ValueError("a task to be recorded has finite outputs")
        self.scale = exact.double().abs() + exact.double().square().mean().sqrt()
        floor = (4 if dtype in (torch.float32, torch.float64) else 1) * torch.finfo(dtype).eps
        self.allowed = 2 * max(self.error(plain.to(dtype)), floor) if dtype != torch.float64 else max(2 * self.error(plain), 1e-12)

    def error(self, got: Any) -> float:
        return float(((got.double() - self.exact).abs() / self.scale).max())

    def problem(self, got: Any) -> str:
        if not self.floating:
            wrong = int((got != self.exact).sum())
            return f"{wrong} of {got.numel()} elements differ" if wrong else ""
        error = self.error(got)
        return "" if error <= self.allowed else f"error {error:.3g}, allowed {self.allowed:.3g}"


class Gpu:
    def __init__(self) -> None:
        import torch
        from emit_check import Driver

        torch.cuda.init()
        self.torch, self.driver = torch, Driver()
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.stream = torch.cuda.current_stream().cuda_stream
        self.broken = False
        self.warm_up()

    def name(self) -> str:
        return str(self.torch.cuda.get_device_name())

    def warm_up(self) -> None:
        a = self.torch.randn(4096, 4096, device="cuda")
        for _ in range(200):
            a = (a @ a).clamp(-1, 1)
        self.torch.cuda.synchronize()

    def open(self, head: Json) -> None:
        from emit_references import DTYPES, make_inputs, reference

        torch = self.torch
        self.inputs, self.outputs, self.raw, self.expected = [], [], [], []
        torch.cuda.empty_cache()
        self.best = math.inf
        self.inputs = make_inputs(head, "cuda")
        with torch.no_grad():
            exact, plain = reference(head, self.inputs, torch.float64), reference(head, self.inputs, torch.float32)
        for declared, right, rounded in zip(head["outputs"], exact, plain, strict=True):
            dtype = DTYPES[declared["dtype"]]
            size = math.prod(declared["shape"]) * torch.empty((), dtype=dtype).element_size()
            raw = torch.full((size + 2 * MARGIN + 16,), CANARY, dtype=torch.uint8, device="cuda")
            self.raw.append((raw, size))
            self.outputs.append(raw[MARGIN : MARGIN + size].view(dtype).view(declared["shape"]))
            self.expected.append(Expected(right, rounded, dtype))

    def run(self, job: Json) -> Json:
        modules: list[Any] = []
        try:
            torch = self.torch
            scratch = [torch.full((max(size, 1),), 255, dtype=torch.uint8, device="cuda") for size in job["scratch_bytes"]]
            buffer_of = {"input": self.inputs, "output": self.outputs, "scratch": scratch}
            launches = []
            try:
                for one, binary in zip(job["launches"], job["binaries"], strict=True):
                    module, function = self.driver.load(Path(binary).read_bytes(), one)
                    modules.append(module)
                    launches.append(self.driver.launcher(function, one, [buffer_of[kind][index].data_ptr() for kind, index in one["args"]]))
                for raw, _ in self.raw:
                    raw.fill_(CANARY)
                for launch in launches:
                    launch(self.stream)
            except RuntimeError as problem:
                self.broken = not self.alive()
                return {"outcome": "launch_failed", "message": str(problem)[:200]}
            try:
                torch.cuda.synchronize()
                if wrong := self.wrong():
                    return {"outcome": "wrong", "message": wrong}
                return self.time(launches, job["runs"])
            except RuntimeError as problem:
                self.broken = True
                return {"outcome": "illegal_address", "message": str(problem)[:200]}
        finally:
            if not self.broken:
                for module in modules:
                    self.driver.unload(module)

    def alive(self) -> bool:
        try:
            self.torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True

    def wrong(self) -> str:
        for position, (expected, got) in enumerate(zip(self.expected, self.outputs, strict=True)):
            if problem := expected.problem(got):
                return f"output {position}: {problem}"
        for raw, size in self.raw:
            if not bool((raw[:MARGIN] == CANARY).all()) or not bool((raw[MARGIN + size :] == CANARY).all()):
                return "wrote outside an output"
        return ""

    def batch(self, launches: list[Any], runs: int) -> list[float]:
        events = [(self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)) for _ in range(runs)]
        # The device waits until everything is queued: what the host takes is in no measurement.
        self.torch.cuda._sleep(2_000_000)
        for begin, end in events:
            self.flush.zero_()
            begin.record()
            for launch in launches:
                launch(self.stream)
            end.record()
        self.torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in events]

    def time(self, launches: list[Any], runs: int) -> Json:
        times = self.batch(launches, 3)
        if min(times) < SLOW * self.best:
            times = self.batch(launches, max(BATCH, runs))
            while sum(times) < MOST_MS and len(times) < 8 * BATCH:
                middle, low, high = median_interval(times)
                if high - low <= 2 * AIM * middle:
                    break
                times += self.batch(launches, BATCH)
        middle, low, high = median_interval(times)
        self.best = min(self.best, middle)
        return {"ms": middle, "lo": low, "hi": high, "runs": len(times)}


class Pretended:
    """No device: times made up from the genome's launches, and one in forty fails. To test a recording."""

    broken = False

    def name(self) -> str:
        return "pretended"

    def open(self, head: Json) -> None:
        pass

    def run(self, job: Json) -> Json:
        number = int(hashlib.sha256(json.dumps(job["launches"], sort_keys=True).encode()).hexdigest()[:8], 16)
        if number % 40 == 0:
            return {"outcome": "wrong", "message": "made up"}
        if number % 401 == 1:
            sys.exit(9)  # as a device that was poisoned
        ms = 0.1 * (1 + number % 1000 / 500)
        return {"ms": ms, "lo": ms * 0.995, "hi": ms * 1.005, "runs": job["runs"]}


def main() -> None:
    device: Any = Pretended() if "--pretend" in sys.argv else Gpu()
    print(json.dumps({"device": device.name()}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "open" in request:
            device.open(request["open"])
            answer: Json = {}
        else:
            answer = device.run(request)
        print(json.dumps(answer), flush=True)
        if device.broken:
            sys.exit(9)


if __name__ == "__main__":
    main()
