"""Shipped modules as a busy server uses them, for as long as wanted: mixed calls from many threads, every result checked.

    bench/soak.py --minutes 10                     ships two examples for the CPU itself (a checkout with a build), then calls them
    bench/soak.py --target cuda --minutes 60       the same on every GPU there is, on many streams
    bench/soak.py SHIPPED_FOLDER ... --minutes 10  what `planish optimize --out` wrote

Each thread picks, call by call, a module, a device, a stream and a batch size (half of them the captured one, for which the program
runs; the others, and calls that need gradients, run the original code), keeps some results and drops others, and takes views of them,
hands them to NumPy, resizes them. Results are compared with eager's of the same input when they arrive, and kept ones again when they are given up. A copy
of the module is made now and then, threads are started and end, their number of OpenMP threads changes, and on the CPU a child is forked that calls the module.

One JSON document: calls by kind, wrong answers, errors, memory of the process (and of the GPU) at the start, each minute and at the
end, and the percentiles of a program's call beside those of eager's, both taken under the same load, each until its result is there.
Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from array import array
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from planish.ship import load  # noqa: E402

TASKS = ["examples/small/layer_norm_gelu_residual.py", "examples/small/bias_mish_scale.py"]
_LIMIT = 1e-3  # of |error| / (|expected| + its RMS): far above rounding, far below another kernel's or another input's result
_LIMIT_16 = 5e-2  # the same of 16-bit numbers
_INPUTS = 3  # of each batch size
_KEPT = 6  # results that a thread holds on to


def ship(task: Path, target: str, folder: Path, budget: str) -> Path:
    """Optimises a task, and returns the shipped folder."""
    planish = ROOT / "build" / "bin" / "planish"
    command = [str(planish if planish.exists() else "planish"), "optimize", str(task), "--target", target, "--budget", budget, "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    result = json.loads(done.stdout or "{}")
    if not result.get("shipped"):
        raise SystemExit(f"error: {task} was not shipped: {result.get('error', {}).get('message', done.returncode)}")
    return Path(result["shipped"])


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest |error| / (|expected| + its RMS), as a part of what is allowed."""
    if found.shape != expected.shape or found.dtype is not expected.dtype:
        return float("inf")
    if not expected.numel():
        return 0.0
    if not expected.is_floating_point():
        return 0.0 if torch.equal(found, expected) else float("inf")
    found, wanted = found.detach(), expected.double()
    worst = float(((found.double() - wanted).abs() / (wanted.abs() + wanted.square().mean().sqrt() + 1e-30)).max())
    return worst / (_LIMIT_16 if expected.dtype.itemsize < 4 else _LIMIT)


class Subject:
    """A shipped module on one device, eager beside it, and inputs with what eager makes of them."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.name, self.device = f"{folder.parent.name} on {device}", device
        self.model: nn.Module = load(folder)
        task = sys.modules[type(self.model).__module__]
        self.eager: nn.Module = type(self.model).__mro__[1](*task.get_init_inputs())
        self.eager.load_state_dict(self.model.state_dict())
        self.model.to(device), self.eager.to(device)
        args = [a.to(device) if isinstance(a, torch.Tensor) else a for a in task.get_inputs()]
        batch = next(a.shape[0] for a in args if isinstance(a, torch.Tensor) and a.dim())
        self.samples: dict[int, list[tuple[list[Any], list[torch.Tensor]]]] = {}
        with torch.no_grad():
            for rows in sorted({batch, 1, batch // 2, max(1, batch - 1)} - {0}):
                for _ in range(_INPUTS):
                    fresh = [torch.randn_like(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
                    given = [a[:rows].clone() if isinstance(a, torch.Tensor) and a.dim() and a.shape[0] == batch else a for a in fresh]
                    try:
                        expected = [t.clone() for t in pytree.tree_leaves(self.eager(*given)) if isinstance(t, torch.Tensor)]
                    except RuntimeError:
                        break  # the task takes no other batch
                    self.samples.setdefault(rows, []).append((given, expected))
        self.batch = batch

    def pick(self, draw: random.Random) -> tuple[bool, list[Any], list[torch.Tensor]]:
        rows = self.batch if draw.random() < 0.5 else draw.choice(list(self.samples))
        return (rows == self.batch, *draw.choice(self.samples[rows]))


class Soak:
    def __init__(self, subjects: list[Subject], seed: int) -> None:
        self.subjects, self.seed = subjects, seed
        self.calls: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.errors: list[str] = []
        self.times = _times()
        self.lock = threading.Lock()

    def look(self, what: str, found: Any, expected: list[torch.Tensor]) -> None:
        leaves = [t for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
        worst = max((error(a, b) for a, b in zip(leaves, expected, strict=True)), default=0.0)
        if not worst <= 1:
            with self.lock:
                self.wrong.append(f"{what}: error {worst:.3g} of the allowed")

    def work(self, number: int, end: float) -> None:
        """One thread's calls, until the time is over or the thread has made a few hundred."""
        draw = random.Random(f"{self.seed}.{number}")
        streams = {s.device: [torch.cuda.Stream(s.device) for _ in range(3)] for s in self.subjects if s.device.type == "cuda"}
        kept: list[tuple[str, Any, list[torch.Tensor]]] = []
        calls: Counter[str] = Counter()
        times = _times()
        try:
            for _ in range(draw.randint(100, 400)):
                if time.monotonic() > end:
                    break
                subject = draw.choice(self.subjects)
                if subject.device.type == "cuda":
                    with torch.cuda.stream(draw.choice(streams[subject.device])):
                        self.call(subject, draw, kept, calls, times)
                else:
                    if draw.random() < 0.02:
                        torch.set_num_threads(draw.choice([1, 2, 4]))
                    self.call(subject, draw, kept, calls, times)
            for what, found, expected in kept:
                self.look(f"{what}, kept", found, expected)
        except Exception:
            with self.lock:
                self.errors.append(traceback.format_exc())
        with self.lock:
            self.calls.update(calls)
            for form, seconds in times.items():
                self.times[form] += seconds

    def call(self, subject: Subject, draw: random.Random, kept: list[Any], calls: Counter[str], times: dict[str, array[float]]) -> None:
        captured, given, expected = subject.pick(draw)
        kind = draw.choices(["no_grad", "inference", "gradients", "eager"], [10, 3, 1, 10])[0]
        module = subject.eager if kind == "eager" else subject.model
        mode = torch.inference_mode() if kind == "inference" else torch.enable_grad() if kind == "gradients" else torch.no_grad()
        with mode:
            arguments = [a.detach().requires_grad_() if kind == "gradients" and isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in given]
            begin = time.perf_counter()
            found = module(*arguments)
            if subject.device.type == "cuda":
                torch.cuda.current_stream(subject.device).synchronize()
            seconds = time.perf_counter() - begin
        if captured and kind in ("no_grad", "eager"):
            times["eager" if kind == "eager" else "program"].append(seconds)
        calls[kind if captured or kind == "eager" else f"{kind}, another batch"] += 1
        what = f"{subject.name}, {kind}, {'captured' if captured else 'another'} batch"
        self.look(what, found, expected)
        if kind == "gradients":
            sum(t.sum() for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor) and t.requires_grad).backward()  # type: ignore[union-attr]
        elif kind != "eager":
            fate = draw.random()
            if fate < 0.2:
                kept.append((what, found, expected))
            elif fate < 0.3:
                kept.append((f"{what}, views", pytree.tree_map_only(torch.Tensor, lambda t: t[...], found), expected))
            elif fate < 0.4 and subject.device.type == "cpu":
                for t in pytree.tree_leaves(found):
                    if isinstance(t, torch.Tensor):
                        t.numpy().reshape(-1)[:1] = 0
            elif fate < 0.5:
                for t in pytree.tree_leaves(found):
                    if isinstance(t, torch.Tensor) and kind != "inference":
                        t.resize_(0 if draw.random() < 0.5 else 2 * t.numel())
            if len(kept) > _KEPT:
                older, result, wanted = kept.pop(draw.randrange(len(kept)))
                self.look(f"{older}, kept", result, wanted)

    def fork(self) -> None:
        """A child calls each module; its threads were left behind."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                torch.set_num_threads(1)  # eager needs that
                for subject in self.subjects:
                    given, expected = subject.samples[subject.batch][0]
                    with torch.no_grad():
                        found = [t for t in pytree.tree_leaves(subject.model(*given)) if isinstance(t, torch.Tensor)]
                    if not all(error(a, b) <= 1 for a, b in zip(found, expected, strict=True)):
                        raise AssertionError("wrong in a child")
                code = 0
            finally:
                os._exit(code)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                self.calls["forked"] += 1
                if status:
                    self.wrong.append(f"a forked child ended with {status}")
                return
            time.sleep(0.05)
        os.kill(child, 9)
        os.waitpid(child, 0)
        self.errors.append("a forked child hung for two minutes")

    def duplicate(self, draw: random.Random) -> None:
        """A copy of a module answers as it does, and goes."""
        subject = draw.choice(self.subjects)
        twin = copy.deepcopy(subject.model)
        given, expected = subject.samples[subject.batch][0]
        with torch.no_grad():
            self.look(f"{subject.name}, a copy", twin(*given), expected)
        self.calls["copy"] += 1

    def run(self, seconds: float, threads: int) -> list[dict[str, float]]:
        end, started, number = time.monotonic() + seconds, time.monotonic(), 0
        draw = random.Random(self.seed)
        memory: list[dict[str, float]] = []
        workers: list[threading.Thread] = []
        report = fork = 0.0
        cpu = all(s.device.type == "cpu" for s in self.subjects)
        while time.monotonic() < end:
            workers = [w for w in workers if w.is_alive()]
            while len(workers) < threads:
                workers.append(threading.Thread(target=self.work, args=(number, end)))
                workers[-1].start()
                number += 1
            now = time.monotonic() - started
            if now >= report:
                memory.append({"seconds": round(now), **self.memory()})
                report = now + 60
                print(f"{now:.0f} s: {sum(self.calls.values())} calls, {len(self.wrong)} wrong, {len(self.errors)} errors, {memory[-1]}", file=sys.stderr)
            self.duplicate(draw)
            if cpu and now >= fork:
                self.fork()
                fork = now + 10
            time.sleep(0.2)
        for worker in workers:
            worker.join()
        return [*memory, {"seconds": round(time.monotonic() - started), **self.memory()}]

    @staticmethod
    def memory() -> dict[str, float]:
        with open("/proc/self/statm") as statm:
            found = {"rss_mib": round(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)}
        if torch.cuda.is_available():
            devices = range(torch.cuda.device_count())
            found["cuda_allocated_mib"] = round(sum(torch.cuda.memory_allocated(d) for d in devices) / 2**20, 1)
            found["cuda_reserved_mib"] = round(sum(torch.cuda.memory_reserved(d) for d in devices) / 2**20, 1)
        return found


def _times() -> dict[str, array[float]]:
    """Seconds of calls, in four bytes each: the memory reported is to be the modules', not this list's."""
    return {"program": array("f"), "eager": array("f")}


def percentiles(seconds: array[float]) -> dict[str, float]:
    """Of a call, in microseconds."""
    if not seconds:
        return {"calls": 0}
    ordered = sorted(seconds)
    at = {name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}
    return {"calls": len(ordered), **{f"{name}_us": round(value * 1e6, 1) for name, value in at.items()}}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shipped", nargs="*", type=Path, help="shipped folders; none: examples are optimised first")
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=4, help="that make calls at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", default="20s", help="of each example's search")
    parser.add_argument("--out", type=Path, help="where the document goes; else standard output")
    given = parser.parse_args()
    if given.minutes <= 0 or given.threads < 1:
        parser.error("--minutes and --threads must be more than nothing")
    with tempfile.TemporaryDirectory(prefix="planish-soak-") as made:
        shipped = given.shipped or [ship(ROOT / task, given.target, Path(made) / Path(task).stem, given.budget) for task in TASKS]
        idle = [folder for folder in shipped if json.loads((folder / "ship.json").read_text())["mode"] != "program"]
        for folder in idle:
            print(f"note: {folder} ships no program, as none was found that is faster", file=sys.stderr)
        shipped = [folder for folder in shipped if folder not in idle]
        if not shipped:
            raise SystemExit("error: there is no program to call; give shipped folders, or a larger --budget on a machine that does nothing else")
        count = torch.cuda.device_count() if given.target == "cuda" else 1
        if count == 0:
            raise SystemExit("error: torch sees no GPU")
        devices = [torch.device(given.target, i) if given.target == "cuda" else torch.device("cpu") for i in range(count)]
        subjects = [Subject(folder, device) for folder in shipped for device in devices]
        Soak(subjects, given.seed).run(min(15.0, given.minutes * 6), given.threads)  # warm: pools, caches and threads are there
        soak = Soak(subjects, given.seed + 1)
        before = [s.model._planish.shipped.runs() for s in subjects]
        load_before = os.getloadavg()[0]
        memory = soak.run(given.minutes * 60, given.threads)
        ran = [s.model._planish.shipped.runs() - b for s, b in zip(subjects, before, strict=True)]
    document = {
        "modules": [s.name for s in subjects], "torch": torch.__version__, "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "minutes": given.minutes, "threads": given.threads, "load_before": round(load_before, 1), "load_after": round(os.getloadavg()[0], 1),
        "calls": sum(soak.calls.values()), "by_kind": dict(sorted(soak.calls.items())), "answered_by_programs": ran,
        "wrong": len(soak.wrong), "first_wrong": soak.wrong[:5], "errors": len(soak.errors), "first_errors": soak.errors[:3],
        "program": percentiles(soak.times["program"]), "eager": percentiles(soak.times["eager"]), "memory": memory,
    }  # fmt: skip
    text = json.dumps(document, indent=1) + "\n"
    given.out.write_text(text) if given.out else print(text, end="")
    return 1 if soak.wrong or soak.errors or not all(ran) else 0


if __name__ == "__main__":
    sys.exit(main())
