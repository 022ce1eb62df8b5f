#!/usr/bin/env python3
"""Judges the whole cheat corpus and prints, and writes, what became of it: `make cheats`.

    PLANISH_BUILD=build python tests/cheats/run_corpus.py [--only WORDS] [--out docs/results/cheats.md]
    python tests/cheats/run_corpus.py --target cuda [--jobs N] [--out docs/results/cheats_cuda.md]     # in a checkout or a dist folder; part of make test-gpu

Minutes: every solution of others runs in processes of its own. On a GPU the solutions that are only checked are judged side by side; those that cheat
the clock, and the kernels, are timed alone. Ends with 1 where a cheat passes or an honest twin does not."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from corpus import CORPUS, Entry
from corpus_cuda import CUDA_CORPUS, CUDA_TASKS
from corpus_kept import KEPT
from corpus_later import LATER
from corpus_times import TIMED, TIMED_TASKS
from evaluator import TASK, Evaluator
from judge_corpus import Judge, Judged, lacking
from kernels_cuda import KERNELS, JudgedKernel, judge

_SAYING = threading.Lock()


def say(what: str, name: str, right: bool, reply: dict[str, Any]) -> None:
    with _SAYING:
        print(f"{'ok  ' if right else 'FAIL'} {what:5} {name}: {reply['outcome']} {reply['message'].splitlines()[:1]}", flush=True)


def judge_all(entries: Sequence[Entry], folder: Path, target: str) -> list[Judged]:
    """One after the other, by an evaluator of their own."""
    found: list[Judged] = []
    folder.mkdir()
    running = Judge(folder, target, {**CUDA_TASKS, **TIMED_TASKS})
    try:
        for entry in sorted(entries, key=lambda e: e.task):
            judged = running.judge(entry)
            found.append(judged)
            say("cheat", entry.name, judged.caught, judged.cheat)
            say("twin", entry.name, judged.passed, judged.twin)
    finally:
        running.close()
    return found


def shared_out(entries: Sequence[Entry], jobs: int) -> list[list[Entry]]:
    """At most `jobs` parts of like size, each of as few tasks as can be: opening one takes longer than judging a solution."""
    ordered = sorted(entries, key=lambda e: e.task)
    size = max(1, -(-len(ordered) // max(1, jobs)))
    return [ordered[k : k + size] for k in range(0, len(ordered), size)]


def side_by_side(entries: Sequence[Entry], folder: Path, target: str, jobs: int) -> list[Judged]:
    parts = shared_out(entries, jobs)
    with ThreadPoolExecutor(max(1, len(parts))) as pool:
        return [j for found in pool.map(lambda k: judge_all(parts[k], folder / f"part{k}", target), range(len(parts))) for j in found]


def judge_kernels(folder: Path, only: str) -> list[JudgedKernel]:
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    running = Evaluator(folder, folder / "task.py", target="cuda")
    try:
        found = judge(running, only)
    finally:
        running.close()
    for item in found:
        say("kern", item.kernel.name, item.caught, item.found)
        say("after", item.kernel.name, item.passed, item.after)
    return found


_MADE_ON_THE_CPU = (
    "Made by `make cheats` (`tests/cheats/run_corpus.py`): each solution of `tests/cheats/corpus.py`, `corpus_later.py`, `corpus_kept.py` and\n"
    "`corpus_times.py` is judged\n"
    "as `planish verify` judges it, on the CPU."
)
_MADE_ON_A_GPU = (
    "Made by `tests/cheats/run_corpus.py --target cuda`, which `make test-gpu` runs: each solution of `tests/cheats/corpus.py` and\n"
    "`tests/cheats/corpus_cuda.py` is judged as `planish verify` judges it (`timed`: with `--time`), each kernel of\n"
    "`tests/cheats/kernels_cuda.py` as a search judges it."
)


def document(target: str, found: list[Judged], kernels: list[JudgedKernel], left_out: list[tuple[Entry, str]], where: str) -> str:
    """`where`: seconds, machine and date, in words."""
    tried = [*found, *kernels]
    caught, passed = sum(j.caught for j in tried), sum(j.passed for j in tried)
    made = _MADE_ON_A_GPU if target == "cuda" else _MADE_ON_THE_CPU
    lines = [
        f"# Cheats caught, honest twins passed{', on a GPU' if target == 'cuda' else ''}", "", made,
        "`seen` is the number of the trick in the list of `docs/trust.md`, or `issue`: seen in an attack on Planish itself.", "",
        f"**Cheats caught: {caught} of {len(tried)}. Honest twins passed: {passed} of {len(tried)}.** {where}", "",
    ]  # fmt: skip
    if found:
        held = ", ".join(f"{key} {value}" for key, value in sorted(found[0].twin.get("sandbox", {}).items()) if value not in (None, [], ""))
        lines += [f"Active around the solutions: {held}.", "", "| cheat | seen | task | named | twin |", "|---|---|---|---|---|"]
    for j in found:
        lines.append(f"| {j.entry.name} | {j.entry.seen} | {j.entry.task}{', timed' if j.entry.time else ''} | {_named(j, j.cheat)} | {_twin(j, j.twin)} |")
    if kernels:
        lines += ["", "| kernel | seen | named | an honest one after it |", "|---|---|---|---|"]
        lines += [f"| {k.kernel.name} | {k.kernel.seen} | {_named(k, k.found)}{_pace(k)} | {_twin(k, k.after)} |" for k in kernels]
    if left_out:
        lines += ["", "Not tried on this machine: " + "; ".join(f"{e.name} (no {what})" for e, what in left_out) + "."]
    return "\n".join(lines) + "\n"


def _named(j: Judged | JudgedKernel, reply: dict[str, Any]) -> str:
    if j.caught and reply["outcome"] == "ok" and isinstance(j, Judged):  # right, and no faster for it
        return f"{reply['times']['median_ms'] / j.twin['times']['median_ms']:.1f}x its twin's time"
    return str(reply["outcome"]) if j.caught else f"**{reply['outcome']}**"


def _twin(j: Judged | JudgedKernel, reply: dict[str, Any]) -> str:
    return "passed" if j.passed else f"**{reply['outcome']}**"


def _pace(k: JudgedKernel) -> str:
    """Of one that may pass where it does its work at every run."""
    if k.kernel.slow_as == 0 or k.found["outcome"] != "ok":
        return ""
    return f", {k.found['bench']['median_ms']:.3f} ms (honest: {k.honest_ms:.3f})"


def through_a_verb(verb: str, only: str) -> int:
    """1 where a forged time was told."""
    from through import VERBS

    with tempfile.TemporaryDirectory(prefix="planish-corpus-") as folder:
        found = []
        for told in VERBS[verb](Path(folder), [e for e in TIMED if only in e.name]):
            gain = f"{told.gain:.3f}x" if told.gain is not None else "no gain"
            print(f"{'FAIL' if told.forged else 'ok  '} {told.name}: {told.outcome}, {gain}, {told.reward:.2f} of a reward", flush=True)
            found.append(told)
    print(f"{sum(t.forged for t in found)} of {len(found)} forged times through {verb}")
    return int(any(t.forged for t in found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="entries and kernels whose name contains this")
    parser.add_argument("--jobs", type=int, default=0, help="evaluators side by side; by default 1 on the CPU, and 3 for 4 cores, at most 12, on a GPU")
    parser.add_argument("--out", type=Path, help="write the table here")
    parser.add_argument("--through", choices=("environment", "try", "suite"), help="forged times through this verb, in place of the table; on the CPU")
    options = parser.parse_args()
    if options.through:
        return through_a_verb(options.through, options.only)
    cuda = options.target == "cuda"
    jobs = options.jobs or (max(1, min(12, (os.cpu_count() or 1) * 3 // 4)) if cuda else 1)
    wanted = [e for e in [*CORPUS, *LATER, *KEPT, *(CUDA_CORPUS if cuda else TIMED)] if options.only in e.name]
    left_out = [(e, what) for e in wanted if (what := lacking(e))]
    entries = [e for e in wanted if not lacking(e)]
    kernels_wanted = cuda and any(options.only in kernel.name for kernel in KERNELS)
    if not entries and not kernels_wanted:
        raise SystemExit(f"error: no entry has {options.only!r} in its name")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planish-cheats-") as name:
        folder = Path(name)
        found = side_by_side([e for e in entries if not e.time], folder, options.target, jobs)
        timed = [e for e in entries if e.time]
        found += judge_all(timed, folder / "timed", options.target) if timed else []
        kernels = judge_kernels(folder / "kernels", options.only) if kernels_wanted else []
    where = f"{time.monotonic() - start:.0f} s on {os.cpu_count()} cores, {date.today()}."
    if cuda:
        import torch

        where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {where}"
    text = document(options.target, found, kernels, left_out, where)
    print(next(line for line in text.split("\n") if line.startswith("**Cheats")))
    for entry, what in left_out:
        print(f"not tried: {entry.name}: this machine has no {what}")
    if options.out:
        options.out.write_text(text)
    return 0 if all(j.caught and j.passed for j in [*found, *kernels]) else 1


if __name__ == "__main__":
    sys.exit(main())
