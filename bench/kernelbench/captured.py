"""Which tasks of a KernelBench checkout are captured on the CPU, at small sizes.

    python bench/kernelbench/captured.py CHECKOUT [--levels 1,2,3] [--jobs 2] [--out FILE.jsonl] [--only 2/19,3/48]

The checkout's own sizes do not fit a small machine: numbers that are assigned at the beginning of a line lose what makes them large (a
batch, places of an image, a length, wide layers). Each task is then captured in a process of its own, its data and float64 reference are
made, and eager's outputs pass the gate or do not. A line of JSON a task, and how many of each outcome.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "compatibility"), str(HERE.parents[1] / "python")]

from draw import folder_of_levels  # noqa: E402

_LIMIT = 120.0  # seconds a task may take
_ASSIGNED = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*(?:\s*[,=]\s*[A-Za-z_][A-Za-z0-9_]*)*) = (\d+(?: \* \d+)*(?:, \d+(?: \* \d+)*)*)[ \t]*(?=#|$)", re.MULTILINE)


def smaller(name: str, size: int, level: int) -> int:
    """A size that this name of a task of the level may have here."""
    if "batch" in name:
        return min(size, 2)
    if re.search(r"height|width|depth|length|seq|^[hwd]$", name) and "kernel" not in name:
        return min(size, 224 if level > 2 else 24)
    return size if size < 2048 else smaller(name, size // 2, level) if size >= 4096 else size // 4


def small(source: str, level: int) -> str:
    def shrink(found: re.Match[str]) -> str:
        names = re.split(r"\s*[,=]\s*", found[1])
        sizes = [math.prod(int(factor) for factor in size.split("*")) for size in found[2].split(",")]
        if len(sizes) not in (1, len(names)):
            return found[0]
        return f"{found[1]} = " + ", ".join(str(smaller(names[i].lower(), size, level)) for i, size in enumerate(sizes))

    return _ASSIGNED.sub(shrink, source)


def judged(task: Path) -> dict[str, Any]:
    """In this process."""
    import torch
    from planish.errors import PlanishError
    from run import judge_task

    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="planish-captured-") as folder:
        try:
            judge_task(task, Path(folder), "cpu", whole=False)
            found: dict[str, Any] = {"outcome": "captured"}
        except PlanishError as error:
            found = {"outcome": "refused", "kind": error.kind, "message": f"{error.message} ({error.hint})".replace(f"{task}: ", "")}
        except Exception as error:
            found = {"outcome": "failed", "message": f"{type(error).__name__}: {error}"[:300]}
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def asked(task: Path) -> dict[str, Any]:
    """In a process of its own."""
    level = int(task.parent.name[-1])
    with tempfile.TemporaryDirectory(prefix="planish-captured-") as folder:
        copy = Path(folder) / task.name
        copy.write_text(small(task.read_text(), level))
        said: dict[str, Any]
        try:
            done = subprocess.run([sys.executable, __file__, "--task", str(copy)], capture_output=True, text=True, timeout=_LIMIT, check=False)
            lines = done.stdout.strip().splitlines()
            said = json.loads(lines[-1]) if lines else {"outcome": "failed", "message": done.stderr[-300:]}
        except subprocess.TimeoutExpired:
            said = {"outcome": "failed", "message": f"took longer than {_LIMIT:.0f} s"}
    return {"task": f"{level}/{task.stem}"} | said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="tasks by level and number: 2/19,3/48")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--task", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(judged(options.task)))
        return 0
    if not options.checkout:
        parser.error("name a checkout of KernelBench")

    def number(task: Path) -> int:
        return int(task.name.split("_")[0])

    levels = folder_of_levels(options.checkout)
    tasks = [task for level in options.levels.split(",") for task in sorted((levels / f"level{level}").glob("*.py"), key=number)]
    if options.only:
        tasks = [task for task in tasks if f"{task.parent.name[-1]}/{number(task)}" in options.only.split(",")]
    counts: Counter[str] = Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        out = options.out.open("w") if options.out else sys.stdout
        for found in pool.map(asked, tasks):
            counts[found["outcome"]] += 1
            print(json.dumps(found), file=out, flush=True)
    print(dict(counts), file=sys.stderr)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
