"""Measures every genome of small spaces of kernels on GPUs, and writes a table of each for search_replay.

    python bench/search/record.py DUMPS --out TABLES [--count N] [--seconds S] [--devices 4] [--only NAME] [--jobs J]

DUMPS is a folder of NAME.jsonl.gz as planish-search-draw prints them; those it lacks are drawn first. Works in a checkout (after
`ninja -C build planish-search-draw planish-compiler`) and in a dist folder. Compiling goes on beside timing, which has a core for itself;
times are of CUDA events, with a cold cache, until the median's 95 % interval is within 1 % or a cap; every output is compared with fp64. The
best of each task are timed again at its end. What is stopped goes on where it was; a task that is not finished gets a table of what there is.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import select
import shutil
import site
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from record_compile import CompilePool
from recorded import Json, Rows, find_program, identity, read_lines, short, write_table

HERE = Path(__file__).resolve().parent
os.environ.setdefault("PLANISH_SITE_PACKAGES", ":".join(site.getsitepackages()))  # where the compiler may find NVRTC
ELITES = 24  # timed again
REPLY_SECONDS = 30.0
OPEN_SECONDS = 180.0


@dataclass
class Task:
    """One kernel: the futures of its compiled genomes come in the order in which it is timed."""

    name: str
    dump: Path
    rows: Rows
    head: Json = field(default_factory=dict)
    todo: list[tuple[Json, Future[Any]]] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    compiled: dict[str, tuple[Json, list[Json]]] = field(default_factory=dict)  # of each program: launches, replies

    def load(self) -> None:
        lines = read_lines(self.dump)
        self.head = next(lines)
        known = self.rows.same_program()
        seen: set[str] = set()
        for drawn in lines:
            if drawn["genome"] in self.rows.by_genome:
                continue
            future: Future[Any] = Future()
            if "error" in drawn:
                future.set_result({"error": {"kind": "compile_error", "message": drawn["error"]}})
            else:
                drawn["program"] = identity(drawn)
                if drawn["program"] in seen or drawn["program"] in known:
                    future.set_result([])  # its program is measured already, or will be before
                seen.add(drawn["program"])
            self.todo.append((drawn, future))
        self.ready.set()


class Device:
    """The process that times. Replaced when it dies or hangs."""

    def __init__(self, index: int, pretend: bool) -> None:
        environment = dict(os.environ) | ({} if pretend else {"CUDA_VISIBLE_DEVICES": visible(index)})
        command = [sys.executable, str(HERE / "record_device.py")] + (["--pretend"] if pretend else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.buffer = b""
        self.name = str(self.receive(OPEN_SECONDS)["device"])

    def receive(self, seconds: float) -> Json:
        assert self.process.stdout is not None
        descriptor, deadline = self.process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            more = os.read(descriptor, 1 << 16)
            if not more:
                raise ConnectionError
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        answer: Json = json.loads(line)
        return answer

    def ask(self, request: Json, seconds: float) -> Json:
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()
        return self.receive(seconds)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def visible(index: int) -> str:
    """Of the devices that this process may see, the index-th."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name for name in given.split(",") if name]
    return names[index] if index < len(names) else str(index)


class Recorder:
    """Threads: one a compiler, one a device (which alone touches its tasks once they are loaded), and the caller's, which watches the time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out, self.dumps = Path(options.out), Path(options.dumps)
        self.out.mkdir(parents=True, exist_ok=True)
        self.dumps.mkdir(parents=True, exist_ok=True)
        self.begin = time.monotonic()
        self.stopping = threading.Event()
        self.counts = {"ok": 0, "failed": 0, "same": 0}
        names = options.tasks or subprocess.run([find_program("planish-search-draw"), "--list"], capture_output=True, text=True, check=True).stdout.split()
        names = [name for name in names if options.only in name and not (self.out / f"{name}.jsonl.gz").exists()]
        self.tasks = [Task(name, self.dumps / f"{name}.jsonl.gz", Rows(self.out / f"{name}.rows.jsonl")) for name in names]

    def draw(self, task: Task) -> None:
        if task.dump.exists():
            return
        command = [str(find_program("planish-search-draw")), task.name, "--count", str(self.options.count)]
        part = task.dump.with_suffix(".part")
        with subprocess.Popen(command, stdout=subprocess.PIPE) as drawing, gzip.open(part, "wb", compresslevel=1) as packed:
            assert drawing.stdout is not None
            shutil.copyfileobj(drawing.stdout, packed, 1 << 20)
        if drawing.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed")
        part.rename(task.dump)

    def work(self, drawn: list[Future[None]]) -> Iterator[tuple[Future[Any], Json]]:
        """What is compiled, in the order in which the devices want it: they work on as many tasks at a time as there are devices."""
        width = self.options.devices
        for first in range(0, len(self.tasks), width):
            tasks = self.tasks[first : first + width]
            try:
                for task, future in zip(tasks, drawn[first:], strict=False):
                    future.result()
                    task.load()
            except (OSError, RuntimeError, ValueError, KeyError) as problem:
                self.say(f"error: {problem}")
                self.stopping.set()
            for row in zip_longest(*(list(task.todo) for task in tasks)):
                for one, compiled in filter(None, row):
                    if self.stopping.is_set():
                        return
                    if not compiled.done():
                        yield compiled, one

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.begin:6.1f} s] {text}", file=sys.stderr, flush=True)

    def ask(self, device: Device | None, index: int, task: Task, job: Json) -> tuple[Device | None, Json]:
        """The device is None where it has to be started (again) and has no task."""
        try:
            if device is None:
                device = Device(index, self.options.pretend)
                device.ask({"open": task.head}, OPEN_SECONDS)
            return device, device.ask(job, REPLY_SECONDS)
        except (TimeoutError, ConnectionError, BrokenPipeError) as problem:
            if device is not None:
                device.close()
            return None, {"outcome": "hang" if isinstance(problem, TimeoutError) else "crash", "message": ""}

    def open(self, device: Device, index: int, task: Task) -> Device | None:
        for fresh in (False, True):
            try:
                if fresh:
                    device = Device(index, self.options.pretend)
                device.ask({"open": task.head}, OPEN_SECONDS)
            except (TimeoutError, ConnectionError, BrokenPipeError):
                device.close()
            else:
                return device
        return None

    def serve(self, index: int) -> None:
        """Every task whose turn it is on this device, one after the other."""
        device: Device | None = None
        if not self.options.compile_only:
            device = Device(index, self.options.pretend)
        for task in self.tasks[index :: self.options.devices]:
            while not task.ready.wait(0.2):
                if self.stopping.is_set():
                    return
            name = "" if device is None else device.name
            if device is not None:
                device = self.open(device, index, task)
                if device is None:
                    self.say(f"error: {task.name}: its inputs and expected outputs could not be made on the device; it is left out")
                    device = Device(index, self.options.pretend)
                    continue
            same = task.rows.same_program()
            for position, (drawn, future) in enumerate(task.todo):
                while not future.done() and not self.stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        future.result(timeout=0.2)
                if self.stopping.is_set():
                    break
                row: Json = {"genome": drawn["genome"]}
                if program := drawn.get("program"):
                    row["program"] = program
                if program in same:
                    row = same[program] | row
                    self.counts["same"] += 1
                else:
                    device, found = self.measure(device, index, task, drawn, future.result())
                    row |= found
                    self.counts["ok" if "ms" in row else "failed"] += 1
                    if program:
                        same[program] = row
                task.rows.add(row)
                task.todo[position] = (drawn, None)  # type: ignore[call-overload]  # its source is no longer needed
                drawn.pop("launches", None)
            device = self.finish(device, index, task, name)
            if self.stopping.is_set():
                break
        if device is not None:
            device.close()

    def measure(self, device: Device | None, index: int, task: Task, drawn: Json, replies: Any) -> tuple[Device | None, Json]:
        if isinstance(replies, dict):
            return device, {"outcome": replies["error"]["kind"], "message": replies["error"]["message"][:200]}
        launches = [{key: value for key, value in launch.items() if key != "source"} for launch in drawn["launches"]]
        row: Json = {
            "kernels": [[r["registers"], r["spill_bytes"], r["shared_bytes"], r["local_bytes"], r["instructions"]] for r in replies],
            "launches": [
                [n["grid"][0] * n["grid"][1] * n["grid"][2], n["block"][0] * n["block"][1] * n["block"][2], n["cluster"][0], n["shared"]] for n in launches
            ],
        }
        job = {"launches": launches, "scratch_bytes": drawn["scratch_bytes"], "binaries": [r["path"] for r in replies], "runs": 0}
        if self.options.compile_only:
            return device, row | {"outcome": "not_timed"}
        device, timed = self.ask(device, index, task, job)
        if "ms" in timed:
            timed = {key: short(value) for key, value in timed.items()}
            task.compiled[drawn["program"]] = (job, replies)
        return device, row | timed

    def finish(self, device: Device | None, index: int, task: Task, name: str) -> Device | None:
        """Times the best again, and writes the table."""
        timed = sorted((row for row in task.rows.same_program().values() if "ms" in row), key=lambda row: row["ms"])
        ratios: list[float] = []
        for row in timed[:ELITES]:
            if row["program"] not in task.compiled or self.stopping.is_set():
                continue
            device, again = self.ask(device, index, task, task.compiled[row["program"]][0] | {"runs": 60})
            if "ms" not in again:
                continue
            ratios.append(abs(again["ms"] / row["ms"] - 1))
            for other in [r for r in task.rows.by_genome.values() if r.get("program") == row["program"]]:
                task.rows.by_genome[other["genome"]] = other | {key: short(value) for key, value in again.items()}
        ratios.sort()
        repeat = {"genomes": len(ratios)}
        if ratios:
            repeat |= {"median": short(ratios[len(ratios) // 2]), "p90": short(ratios[len(ratios) * 9 // 10])}
        task.compiled.clear()
        rows = task.rows
        if not rows.by_genome:
            return device
        best = f"best {timed[0]['ms']:.4f} ms of {len(timed)} programs" if timed else "nothing was timed"
        complete = len(rows.by_genome) >= task.head["genomes"]
        # One that is not finished can be gone on with: its rows stay, and its table has another name.
        table = self.out / (f"{task.name}.jsonl.gz" if complete else f"{task.name}.part.jsonl.gz")
        write_table(table, task.head, rows, name, repeat)
        if complete:
            rows.path.unlink()
            (self.out / f"{task.name}.part.jsonl.gz").unlink(missing_ok=True)
        self.say(f"{table.name}: {len(rows.by_genome)} of {task.head['genomes']} genomes, {best}, {table.stat().st_size} bytes")
        return device

    def record(self) -> int:
        if not self.tasks:
            self.say("nothing to do: every table is there")
            return 0
        jobs = self.options.jobs or max(1, (os.cpu_count() or 2) - 1 - self.options.devices)
        with ThreadPoolExecutor(jobs) as drawers, tempfile.TemporaryDirectory(prefix="planish-record-") as scratch:
            drawn = [drawers.submit(self.draw, task) for task in self.tasks]
            pool = CompilePool(find_program("planish-compiler"), jobs, "sm_90a", Path(scratch), self.work(drawn))
            devices = [threading.Thread(target=self.serve, args=(i,), daemon=True) for i in range(self.options.devices)]
            for thread in devices:
                thread.start()
            said = time.monotonic()
            while any(thread.is_alive() for thread in devices):
                devices[0].join(0.2) if devices[0].is_alive() else time.sleep(0.2)
                if self.options.seconds and time.monotonic() - self.begin > self.options.seconds and not self.stopping.is_set():
                    self.say("the time is over")
                    self.stopping.set()
                if time.monotonic() - said > 10:
                    said = time.monotonic()
                    left = sum(len(t.rows.by_genome) < t.head.get("genomes", 1) for t in self.tasks)
                    self.say(f"{self.counts['ok']} timed, {self.counts['failed']} failed, {self.counts['same']} as before; {left} tasks to go")
            self.stopping.set()
            pool.stop()
            for thread in pool.threads:
                thread.join(90)
        unfinished = [t.name for t in self.tasks if not (self.out / f"{t.name}.jsonl.gz").exists()]
        if unfinished:
            self.say(f"not finished: {', '.join(unfinished)}; the same command goes on with them")
        return 1 if unfinished else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", help="folder of drawn genomes; drawn where missing")
    parser.add_argument("--out", required=True, help="folder of the tables")
    parser.add_argument("--count", type=int, default=1100, help="legal genomes of a task, at least")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this long (0: when done)")
    parser.add_argument("--devices", type=int, default=1, help="spread the tasks over so many GPUs")
    parser.add_argument("--only", default="", help="tasks whose names hold this")
    parser.add_argument("--tasks", nargs="*", help="these tasks, in this order, instead of all")
    parser.add_argument("--jobs", type=int, default=0, help="compilers at a time (0: one a core, less one and one a device)")
    parser.add_argument("--compile-only", action="store_true", help="no GPU: registers and spills alone")
    parser.add_argument("--pretend", action="store_true", help="no GPU: made-up times, to test a recording")
    return Recorder(parser.parse_args()).record()


if __name__ == "__main__":
    sys.exit(main())
