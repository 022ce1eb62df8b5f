"""What the evaluations of stored runs cost, by tier.

    bench/evaluation_costs.py [--store FILE] [--run RUN]                       of runs that were made
    bench/evaluation_costs.py --tasks TASK.py … [--budget 40s] [--target cuda]  makes them first, in a store of their own (checkout or dist folder)

A row a run with evaluations a minute and the mean seconds of compile, test and timing; new data, loading and waiting are the rest. The
rate is over the time between the first and the last evaluation of the search, so it includes everything in between. `--out FILE`
writes the rows as JSON, one run after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def launcher() -> Path:
    """`planish` of a dist folder, of PLANISH_BUILD, or of the checkout's build."""
    roots = [Path(os.environ[name]) for name in ("PLANISH_ROOT", "PLANISH_BUILD") if os.environ.get(name)]
    for root in (*roots, ROOT, ROOT / "build"):
        if (root / "bin" / "planish").exists():
            return root / "bin" / "planish"
    sys.exit("error: there is no bin/planish to make runs with\nhint: `make build`, or set PLANISH_BUILD")


def make_run(task: Path, store: Path, options: argparse.Namespace) -> str | None:
    """The id of a fresh run; None, and a line on stderr, where there is none."""
    command = [launcher(), "optimize", task, "--target", options.target, "--budget", options.budget, "--baselines", "none", "--cold"]
    done = subprocess.run([*command, "--store", store, "--out", store.parent / task.stem, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        print(f"{task}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return str(json.loads(done.stdout)["run"])


def costs(database: sqlite3.Connection, objects: Path, run: str) -> dict[str, Any] | None:
    """One run's row; None where it screened nothing."""
    about = database.execute("select task, device from runs where id=?", (run,)).fetchone()
    if about is None:
        sys.exit(f"error: the store has no run {run}")
    found = []
    for row in database.execute("select * from evaluations where run=? order by rowid", (run,)):
        if row["genome"] and row["level"] == "screen":
            digest = row["document"]
            found.append((row["at_seconds"], json.loads((objects / digest[:2] / digest[2:]).read_text())))
    if not found:
        return None
    documents = [document for _, document in found]
    count = len(found)
    each = (found[-1][0] - found[0][0]) / max(1, count - 1)
    mean = {
        "compile": sum(d.get("compile", {}).get("seconds", 0) for d in documents) / count,
        "test": sum(d.get("test", {}).get("seconds", 0) for d in documents) / count,
        "timing": sum(d["bench"].get("wall_ms", 0) * d["bench"].get("runs", 0) for d in documents if "bench" in d) / 1e3 / count,
    }
    return {
        "task": about["task"],
        "device": about["device"],
        "run": run,
        "evaluations": count,
        "outcomes": dict(Counter(d["outcome"] for d in documents)),
        "cached_compiles": sum(bool(d.get("compile", {}).get("cached")) for d in documents),
        "a_minute": 60 / each if each else 0,
        "seconds": {**mean, "other": each - sum(mean.values()), "all": each},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    parser.add_argument("--store", type=Path, default=home / "planish" / "store.db")
    parser.add_argument("--run", default="", help="this run alone")
    parser.add_argument("--tasks", type=Path, nargs="+", default=[], help="optimise these first")
    parser.add_argument("--budget", default="40s", help="of each of the tasks")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--out", type=Path, help="a file for the rows as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store.db" if options.tasks else options.store
        if not options.tasks and not store.exists():
            sys.exit(f"error: {store}: no such store\nhint: name one with --store FILE, or tasks to make runs of")
        rows: list[dict[str, Any]] = []
        heads = ("compile", "test", "timing", "other")
        print(f"{'task':28} {'run':24} {'evals':>6} {'ok':>5} {'a minute':>9}" + "".join(f" {head + ' s':>10}" for head in heads))

        def show(run: str) -> None:
            database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
            database.row_factory = sqlite3.Row
            row = costs(database, store.parent / "objects", run)
            database.close()
            if row is None:
                return
            rows.append(row)
            spent = "".join(f" {row['seconds'][head]:10.3f}" for head in heads)
            print(f"{row['task']:28} {run:24} {row['evaluations']:6} {row['outcomes'].get('ok', 0):5} {row['a_minute']:9.1f}{spent}", flush=True)
            if options.out:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps({"schema_version": 1, "runs": rows}, indent=1) + "\n")

        if options.tasks:
            for task in options.tasks:
                if run := make_run(task, store, options):
                    show(run)
        else:
            database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
            runs = [options.run] if options.run else [row[0] for row in database.execute("select id from runs order by started")]
            database.close()
            for run in runs:
                show(run)
    if not rows:
        sys.exit("error: no run screened anything")


main()
