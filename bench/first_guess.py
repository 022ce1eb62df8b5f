"""Programs of a module's graph, cut once, with the first guess of every kernel's schedule and no search, on a GPU: what the benchmarks of
whole programs share. They run in the executor that shipped modules use."""

from __future__ import annotations

import concurrent.futures
import json
import os
import queue
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "random_graphs")]


def read_rate() -> float:
    """Bytes a second of a sum over 4 GB, the best of twelve."""
    data = torch.ones(1 << 30, device="cuda")
    best = 0.0
    for _ in range(12):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        data.sum()
        end.record()
        end.synchronize()
        best = max(best, data.numel() * 4 / begin.elapsed_time(end) * 1e3)
    return best


def cut_of(task: Path, model: nn.Module, call: Any, folder: Path, multiprocessors: int, genes: str = "") -> tuple[dict[str, Any], Path]:
    """The program with its kernels' sources, and the folder of its constants. `genes` take the place of a guess's, where
    a kernel has them; what the kernels have is the program's "genomes". Needs no GPU."""
    from parts import Tool
    from planish.capture import capture

    blobs = folder / "blobs"
    blobs.mkdir()
    graph = capture(model, *call, blobs, task).graph
    tool = Tool()
    request = {"graph": graph, "target": "cuda", "arch": "sm_90a", "sms": multiprocessors, "programs": 1, "own": True, "best": True, "rewrite": True}
    answer = tool.ask(request | {"genes": genes})
    tool.close()
    if "error" in answer:
        raise SystemExit(answer["error"])
    found = answer["programs"][0]
    return found["program"] | {"genomes": found["genomes"]}, blobs


def program_of(
    task: Path, model: nn.Module, call: Any, folder: Path, change: Callable[[str], str] = lambda source: source, genes: str = ""
) -> tuple[dict[str, Any], list[str], Path]:
    """The same with its cubins. `change`: of each kernel's source before it is compiled."""
    from parts import Built, Nvrtc

    program, blobs = cut_of(task, model, call, folder, torch.cuda.get_device_properties(0).multi_processor_count, genes)
    for number, kernel in enumerate(program["kernels"]):  # so that a profile tells them apart
        entry = kernel["entry"]
        kernel["entry"] = f"{entry}_{number}"
        kernel["source"] = re.sub(rf"\b{entry}\b", kernel["entry"], kernel["source"])
    workers: queue.SimpleQueue[Nvrtc] = queue.SimpleQueue()
    number = min(len(os.sched_getaffinity(0)), len(program["kernels"]))
    for _ in range(number):
        workers.put(Nvrtc(folder))

    def build(kernel: dict[str, Any]) -> Built:
        nvrtc = workers.get()
        try:
            return nvrtc.build(kernel, "sm_90a", change)
        finally:
            workers.put(nvrtc)

    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        built = list(pool.map(build, program["kernels"]))
    for _ in range(number):
        workers.get().close()
    for one in built:
        if one.error:
            raise SystemExit(one.error)
    return program, [one.path for one in built], blobs


def executor_of(program: dict[str, Any], cubins: list[str], blobs: Path, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Its executor, and what `run` is given: the module's own tensors where the program has parameters."""
    from planish import rt
    from planish.executor import Executor

    executor = Executor(program, cubins, blobs, rt.find_library(), "cuda", effects=[])
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return executor, [args[b.index] if b.kind == "user" else tensors[b.name].detach() for b in executor.bindings]


def times_in_turn(forms: dict[str, Callable[[], Any]], rounds: int = 7, seconds: float = 0.15) -> dict[str, float]:
    """Milliseconds a call."""
    counts, seen = {}, {name: [] for name in forms}
    for name, call in forms.items():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        counts[name] = max(3, int(seconds / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, call in forms.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            call()
            begin.record()
            for _ in range(counts[name]):
                call()
            end.record()
            end.synchronize()
            seen[name].append(begin.elapsed_time(end) / counts[name])
    return {name: statistics.median(times) for name, times in seen.items()}


def torch_forms(model: nn.Module, args: tuple[Any, ...], names: list[str]) -> dict[str, Callable[[], Any]]:
    modes = {"compile": "default", "reduce_overhead": "reduce-overhead", "max_autotune": "max-autotune"}
    forms: dict[str, Callable[[], Any]] = {}
    for name in names:
        if name == "eager":
            forms[name] = lambda: model(*args)
        elif name == "graph":
            graph = torch.cuda.CUDAGraph()
            for _ in range(3):
                model(*args)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                model(*args)
            forms[name] = graph.replay
        else:
            compiled = torch.compile(model, mode=modes[name], dynamic=False)
            for _ in range(4):
                compiled(*args)
            torch.cuda.synchronize()
            forms[name] = lambda compiled=compiled: compiled(*args)
    return forms


def profile(call: Callable[[], Any], path: Path) -> None:
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        call()
        torch.cuda.synchronize()
    rows = [{"name": e.name, "begin": e.time_range.start, "end": e.time_range.end} for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    path.write_text("\n".join(json.dumps(row) for row in rows))


def host_us(call: Callable[[], Any], calls: int = 21) -> float:
    """Microseconds until a call that finds the device idle returns: what of it is the host's. The median."""
    seen = []
    for _ in range(calls):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        seen.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return round(statistics.median(seen), 1)


def relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).abs().max() / exact.abs().max())
