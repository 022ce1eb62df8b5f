#!/usr/bin/env python3
"""Where the time of many tasks goes: `python bench/where_time_goes.py [--target cuda] [--limit N] [--budget 5s] FOLDER...` runs
`planish suite` over the folders and prints a table of the phases; `--of RESULTS.json` prints that of a suite that was run before."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PHASES = ("capture", "check", "prepare", "search", "compose", "ship", "claim")
SAYS = {
    "capture": "PyTorch imported, task imported, captured",
    "check": "regimes, what would pass wrongly, the captured program on one seed",
    "prepare": "regions described, their PyTorch forms timed",
    "search": "the budget, finals included",
    "compose": "the whole program",
    "ship": "written, and proved in fresh processes",
    "claim": "baselines compiled and timed; the proof of one, where it ships",
}


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row(name: str, values: list[float], total: float, says: str = "") -> str:
    return (
        f"| {name} | {statistics.fmean(values):.1f} | {statistics.median(values):.1f} | {percentile(values, 0.9):.1f} | {max(values):.1f} "
        f"| {100 * sum(values) / total:.0f} % | {says} |"
    )


def table(document: dict[str, Any]) -> str:
    rows = [r for r in document["tasks"] if isinstance(r.get("seconds"), int | float) and r.get("seconds_in")]
    if not rows:
        sys.exit("no task of this suite was measured: there are no times to show")
    total = sum(float(r["seconds"]) for r in rows)
    lines = ["| phase | mean s | median s | 90 % below | most | share | what it is |", "|---|---|---|---|---|---|---|"]
    for phase in PHASES:
        values = [float(r["seconds_in"].get(phase, 0)) for r in rows]
        lines.append(row(phase, values, total, SAYS[phase]))
    rest = [float(r["seconds"]) - sum(float(v) for v in r["seconds_in"].values()) for r in rows]
    lines.append(row("between them", rest, total))
    lines.append(row("all", [float(r["seconds"]) for r in rows], total, f"{len(rows)} tasks; {len(document['tasks']) - len(rows)} not measured"))
    return "\n".join(lines)


def tasks_of(folders: list[Path], limit: int, into: Path) -> Path:
    """A folder with links to the first tasks, so that a suite takes no more of them."""
    found = sorted(path.resolve() for folder in folders for path in folder.rglob("*.py") if "class Model" in path.read_text(errors="replace"))
    for number, path in enumerate(found[:limit] if limit else found):
        (into / f"{number:03d}_{path.name}").symlink_to(path)
    return into


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="of tasks")
    parser.add_argument("--of", type=Path, help="the --json document of a suite that was run before")
    parser.add_argument("--planish", default=os.environ.get("PLANISH", "build/bin/planish"))
    parser.add_argument("--target", default="auto")
    parser.add_argument("--budget", default="5s")
    parser.add_argument("--baselines", default="eager,max_autotune_no_cudagraphs")
    parser.add_argument("--limit", type=int, default=0, help="take so many tasks (0: all)")
    options = parser.parse_args()
    if options.of:
        print(table(json.loads(options.of.read_text())))
        return
    if not options.folders:
        parser.error("name a folder of tasks, or --of RESULTS.json")
    with tempfile.TemporaryDirectory(prefix="planish-times-") as work:
        tasks = Path(work) / "tasks"
        tasks.mkdir()
        tasks_of(options.folders, options.limit, tasks)
        command = [options.planish, "suite", str(tasks), "--target", options.target, "--budget", options.budget, "--baselines", options.baselines]
        began = time.monotonic()
        done = subprocess.run([*command, "--out", str(Path(work) / "out"), "--json"], stdout=subprocess.PIPE, text=True, check=False)
        wall = time.monotonic() - began
        if not done.stdout.strip():
            sys.exit(f"the suite ended with {done.returncode} and no result")
        document = json.loads(done.stdout)
    count = len(document["tasks"])
    print(f"{count} tasks in {wall:.0f} s, {wall / max(1, count):.1f} s each\n")
    print(table(document))


if __name__ == "__main__":
    main()
