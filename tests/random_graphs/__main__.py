"""Random modules through capture, partition, emitters, executor and gate; failures shrink themselves.

    python -m tests.random_graphs --cases 5000 --seed 1 --jobs 1             # kernels for this CPU
    python -m tests.random_graphs --cases 5000 --seed 1 --programs 0         # aten steps alone: capture and executor
    python -m tests.random_graphs --target cuda --compile-only --cases 100   # NVRTC, no GPU needed
    python -m tests.random_graphs --target triton --cases 100                # Triton's interpreter, no GPU needed
    python -m tests.random_graphs --task found.py … --programs 8             # task files: one found here, or anyone's

Each case has the key SEED/NUMBER; `--only KEY` runs one. Exit code 1 when a case failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait by spinning take the processor from those that work
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from .case import Case, Written
from .check import Failure, Options, simplest
from .driver import Driver, Job, Outcome, warm_up
from .generate import generate
from .shrink import shrink


def job_of(key: str, options: Options, steps: int = 0) -> Job:
    """The case of a key, with its own seed for genomes."""
    return Job(key, generate(key, steps), replace(options, seed=zlib.crc32(key.encode()) % 100_000, whole=False))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_graphs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=0, help="100 unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=0, help="stop drawing after so long")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=12, help="cases whose kernels are compiled together")
    parser.add_argument("--steps", type=int, default=0, help="length of every module (default: it varies)")
    parser.add_argument("--programs", type=int, default=2, help="random genomes for each case")
    parser.add_argument("--genes", default="", help="genes forced where they are legal: 'unroll=4 nt=1'")
    parser.add_argument("--arch", default="")
    parser.add_argument("--target", choices=["cpu", "cuda", "triton"], default="cpu")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--spawn", action="store_true", help="children import torch themselves: a torch built for CUDA may not survive a fork")
    parser.add_argument("--only", default="", help="keys, separated by commas")
    parser.add_argument("--task", nargs="+", default=[], help="task files in place of random ones, each with as many seeds as --cases says (1 unless given)")
    parser.add_argument("--show", action="store_true", help="print the cases and run nothing")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--out", default="", help="folder for the files of failing cases")
    given = parser.parse_args(arguments)
    if given.target == "triton":
        os.environ["TRITON_INTERPRET"] = "1"  # for the children
    options = Options(given.target, given.programs, genes=given.genes, arch=given.arch, compile_only=given.compile_only)
    cases = given.cases or 100
    keys = given.only.split(",") if given.only else [f"{given.seed}/{n}" for n in range(given.first, given.first + cases)]
    if given.show:
        for key in keys:
            print(f"# {key}\n{generate(key, given.steps).source()}")
        return 0
    return _run(given, options, keys)


def _run(given: Any, options: Options, keys: list[str]) -> int:
    warm_up()
    started = time.monotonic()
    stats: dict[str, int] = {}
    failed: list[tuple[str, Failure]] = []

    def jobs() -> Iterator[Job]:
        for task in given.task:
            for seed in range(given.cases or 1):
                yield Job(f"{task}/{seed}", Written(Path(task).read_text()), replace(options, seed=seed))  # type: ignore[arg-type]
        if given.task:
            return
        for key in keys:
            if given.seconds and time.monotonic() - started > given.seconds:
                return
            yield job_of(key, options, given.steps)

    def report(outcome: Outcome) -> None:
        stats["cases"] = stats.get("cases", 0) + 1
        for name, count in outcome.stats.items():
            stats[name] = stats.get(name, 0) + count
        if outcome.failure is not None:
            failed.append((outcome.key, outcome.failure))
            print(f"FAIL {outcome.key} {outcome.failure}", flush=True)

    # torch has imported Triton here, which reads TRITON_INTERPRET then.
    start = "spawn" if given.spawn or given.target == "triton" or (given.target == "cuda" and not given.compile_only) else "fork"
    with Driver(given.jobs, given.batch, start=start) as driver:
        driver.run(jobs(), report)
        seconds = time.monotonic() - started
        shown: set[tuple[str, str, str]] = set()
        for key, failure in failed:
            about = (failure.stage, failure.kind, simplest(failure.message))
            if given.no_shrink or given.task or about in shown:
                continue
            shown.add(about)
            job = job_of(key, options, given.steps)
            print(f"\n== {key}, shrunk:\n{describe(key, driver, job, failure, given.out)}", flush=True)
    summary = ", ".join(f"{count} {name}" for name, count in sorted(stats.items(), key=lambda item: -item[1]) if not name.startswith("refused:"))
    print(f"{len(failed)} failures in {seconds:.1f} s ({seconds / max(1, stats.get('cases', 0)):.2f} s a case): {summary}")
    for name in sorted(n for n in stats if n.startswith("refused:")):
        print(f"  {stats[name]} {name}")
    return 1 if failed else 0


def describe(key: str, driver: Driver, job: Job, failure: Failure, out: str = "") -> str:
    """Shrinks a failing case; its task file, with what to do in front. Written to `out` where given."""
    small = shrink(driver, job.case, failure, job.options)
    comment = "\n".join(f"# {line}" for line in str(small.failure).splitlines())
    text = f"# {key}: {len(job.case.steps)} steps shrunk to {len(small.case.steps)} in {small.checks} checks\n{comment}\n{small.case.source()}"
    if out:
        Path(out).mkdir(parents=True, exist_ok=True)
        (Path(out) / f"case_{key.replace('/', '_')}.py").write_text(text)
    return text


__all__ = ["Case", "describe", "job_of", "main"]

if __name__ == "__main__":
    sys.exit(main())
