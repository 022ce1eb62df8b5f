"""Runs checks in child processes, many to a child, so that a kernel that crashes or hangs costs one case and not the run."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from planish.capture import capture

from .case import Case
from .check import Check, Failure, Fault, Options, short
from .parts import Built, CppBatch, Nvrtc, Tool, write_source

TIMEOUT = 240.0  # seconds without a word from a child


@dataclass(frozen=True)
class Job:
    key: str
    case: Case
    options: Options


@dataclass
class Outcome:
    key: str
    failure: Failure | None
    stats: dict[str, int] = field(default_factory=dict)


def as_it_is(source: str) -> str:
    return source


def warm_up() -> None:
    """Pays for torch.export's imports once, before children are forked."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        capture(torch.nn.ReLU(), (torch.zeros(2),), {}, Path(folder))
    _remember_operator_lists()


def _remember_operator_lists() -> None:
    """torch lists every operator anew for each export (0.1 s and more); nothing registers operators here meanwhile."""
    from functools import cache

    with contextlib.suppress(ImportError, AttributeError):
        from torch._export import utils

        utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)
        utils._collect_all_valid_cia_ops_for_namespace = cache(utils._collect_all_valid_cia_ops_for_namespace)
    # Each decomposition makes thousands of functions there whose annotations are evaluated anew: a quarter of a capture.
    if hasattr(torch._ops, "Callable"):
        torch._ops.Callable = _Annotation  # type: ignore[attr-defined]


class _Annotation:
    """Takes a type's arguments and does nothing with them."""

    def __class_getitem__(cls, _: object) -> type[_Annotation]:
        return cls


def _interpret_triton() -> None:
    """Programs of Triton kernels run under its interpreter in this process, which must have been started with TRITON_INTERPRET=1."""
    from planish.runner import handles

    from tests.triton_emit import interpreter, program

    interpreter.prepare()
    handles.Executor = program.Interpreted  # type: ignore[misc]


def _child(jobs: list[Job], folder: Path, change: Callable[[str], str], talk: Connection) -> None:
    """Says ("at", key) before anything that may crash, and ("done", outcome)."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    tool = Tool()
    batch = CppBatch(folder, change)
    nvrtc = Nvrtc(folder / "cache") if any(j.options.target == "cuda" for j in jobs) else None

    interpreted = any(j.options.target == "triton" for j in jobs)
    if interpreted:
        _interpret_triton()

    def build(kernel: dict[str, Any], arch: str) -> Built:
        if interpreted:
            return write_source(folder, change(kernel["source"]), kernel["entry"])
        return batch.add(kernel, arch) if nvrtc is None else nvrtc.build(kernel, arch, change)

    def guarded(check: Check, key: str, half: Callable[[], None], last: bool) -> bool:
        talk.send(("at", key))
        failure = None
        try:
            half()
        except Fault as fault:
            failure = fault.failure
        except Exception as error:
            failure = Failure("tester", type(error).__name__, f"{short(error)}\n{traceback.format_exc()}")
        if failure is not None or last:
            talk.send(("done", Outcome(key, failure, check.stats)))
        return failure is None

    checks: list[tuple[str, Check]] = []
    for job in jobs:
        check = Check(job.case, job.options, tool, folder / "blobs")
        if guarded(check, job.key, lambda check=check: check.prepare(build), False):  # type: ignore[misc]
            checks.append((job.key, check))
    talk.send(("at", "compile"))
    batch.build()
    for key, check in checks:
        guarded(check, key, check.finish, True)
    tool.close()
    if nvrtc is not None:
        nvrtc.close()


class Driver:
    """`change` is applied to every kernel's source: how a test plants a defect. Use as a context manager."""

    def __init__(self, jobs: int = 1, batch: int = 10, change: Callable[[str], str] = as_it_is, start: str = "fork") -> None:
        self.width, self.batch, self.change = jobs, batch, change
        self.context = multiprocessing.get_context(start)
        self.folder = Path(tempfile.mkdtemp(prefix="planish-random-graphs-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.number = 0

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, jobs: Iterable[Job], report: Callable[[Outcome], None]) -> None:
        """Runs all jobs; `report` is called as each ends, in any order."""
        source = iter(jobs)
        again: list[list[Job]] = []
        running: dict[Connection, _Running] = {}
        exhausted = False
        while True:
            while len(running) < self.width and not (exhausted and not again):
                jobs_now = again.pop() if again else _take(source, self.batch)
                if not jobs_now:
                    exhausted = True
                    continue
                started = self._start(jobs_now)
                running[started.pipe] = started
            if not running:
                return
            for pipe in wait(list(running), TIMEOUT) or list(running):
                child = running[pipe]  # type: ignore[index]
                if not self._listen(child, report):
                    del running[child.pipe]
                    rest = self._bury(child, report)
                    if rest:
                        again.append(rest)

    def _start(self, jobs: list[Job]) -> _Running:
        self.number += 1
        ours, theirs = self.context.Pipe()
        folder = self.folder / str(self.number)
        process = self.context.Process(target=_child, args=(jobs, folder, self.change, theirs))
        process.start()
        theirs.close()
        return _Running(process, ours, folder, {j.key: j for j in jobs})

    def _listen(self, child: _Running, report: Callable[[Outcome], None]) -> bool:
        """False when the child has no more to say."""
        try:
            if not child.pipe.poll(0):
                child.hung = True
                return False
            kind, what = child.pipe.recv()
        except (EOFError, ConnectionResetError):
            return False
        if kind == "at":
            child.at = what
        else:
            child.left.pop(what.key, None)
            report(what)
        return True

    def _bury(self, child: _Running, report: Callable[[Outcome], None]) -> list[Job]:
        """Ends the child; blames the case it was at. Returns the jobs to run again."""
        if child.hung:
            child.process.kill()
        child.process.join()
        shutil.rmtree(child.folder, ignore_errors=True)
        if not child.left:
            return []
        code = child.process.exitcode or 0
        kind = "timeout" if child.hung else signal.Signals(-code).name if code < 0 else f"exit {code}"
        culprit = child.left.pop(child.at, None)
        if culprit is None:  # while compiling: each alone will tell
            if len(child.left) > 1:
                jobs = list(child.left.values())
                for job in jobs[1:]:
                    self._alone(job, report)
                return jobs[:1]
            culprit = next(iter(child.left.values()))
            child.left.clear()
        report(Outcome(culprit.key, Failure("crash", kind, f"the process ended with {kind} while at this case")))
        return list(child.left.values())

    def _alone(self, job: Job, report: Callable[[Outcome], None]) -> None:
        child = self._start([job])
        while True:
            if not wait([child.pipe], TIMEOUT):
                child.hung = True
                break
            if not self._listen(child, report):
                break
        self._bury(child, report)

    def check(self, case: Case, options: Options) -> Failure | None:
        """One case by itself."""
        return self.check_all([replace_key("0", case, options)])[0]

    def check_all(self, jobs: list[Job]) -> list[Failure | None]:
        """The failures of jobs, in their order. Keys must differ."""
        found: dict[str, Failure | None] = {}
        self.run(jobs, lambda outcome: found.__setitem__(outcome.key, outcome.failure))
        return [found.get(j.key) for j in jobs]


@dataclass
class _Running:
    process: Any
    pipe: Connection
    folder: Path
    left: dict[str, Job]
    at: str = ""
    hung: bool = False


def replace_key(key: str, case: Case, options: Options) -> Job:
    return Job(key, case, replace(options))


def _take(source: Any, count: int) -> list[Job]:
    found = []
    for job in source:
        found.append(job)
        if len(found) == count:
            break
    return found
