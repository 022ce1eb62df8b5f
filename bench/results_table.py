#!/usr/bin/env python3
"""A table of `optimize --json` documents, and one document of them all without paths.

    python bench/results_table.py RESULT.json… [--latency] [--merge ALL.json]

A row a task; means are geometric and count what ships (a baseline that ships counts as 1.00). With --latency the columns are those of
single calls on an idle device.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

BASELINES = ("eager", "compile", "max_autotune_no_cudagraphs")
Doc = dict[str, Any]


def milliseconds(doc: Doc, name: str, latency: bool) -> float | None:
    table = ((doc.get("latency") or {}).get("ms") if latency else doc.get("times_ms")) or {}
    found = table.get(name) or {}
    return found.get("median")


def number(value: float | str | None, digits: int) -> str:
    """`inf` and its kin are strings in the documents."""
    return "–" if value is None else value if isinstance(value, str) else f"{value:.{digits}f}"


def row(name: str, doc: Doc, latency: bool) -> tuple[list[str], dict[str, float]]:
    ms = {mode: milliseconds(doc, mode, latency) for mode in (*BASELINES, "shipped", "candidate")}
    found = ms["candidate"] if doc.get("form") == "baseline" else ms["shipped"]
    shipped = ms["shipped"]
    speed = {mode: value / shipped for mode in BASELINES if (value := ms[mode]) and shipped}
    roofline, accuracy = doc.get("roofline") or {}, doc.get("accuracy") or {}
    best = min((value for mode in BASELINES if (value := ms[mode])), default=None)
    bound = roofline.get("bound_ms") if roofline.get("bound") == "memory" else None
    digits = 4 if latency else 3
    cells = [name, str(doc["outcome"]), number(accuracy.get("ratio"), 2)]
    cells += [number(ms[mode], digits) for mode in BASELINES] + [number(found, digits), number(shipped, digits)]
    cells += [f"{speed[mode]:.2f}" if mode in speed else "–" for mode in BASELINES]
    if latency:
        cells.append(number(doc.get("host_us_per_call"), 1))
    else:
        cells.append(f"{best / shipped:.2f}" if best and shipped else "–")
        cells.append(f"{100 * bound / found:.0f} %" if bound and found else "–")
    return cells, speed


def geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--merge", type=Path)
    options = parser.parse_args()
    docs: dict[str, Doc] = {}
    for path in options.results:
        text = path.read_text()
        docs[path.stem] = json.loads(text) if text.strip() else {"error": {"message": "no document: the command was stopped"}}
    head = ["task", "outcome", "error ratio", *(m.replace("_", "-") for m in BASELINES), "found", "shipped", *(f"× {m.replace('_', '-')}" for m in BASELINES)]
    head += ["host µs"] if options.latency else ["best baseline", "of copy bound"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    speeds: dict[str, list[float]] = {mode: [] for mode in BASELINES}
    for name, doc in sorted(docs.items()):
        if "error" in doc:
            print(f"| {name} | error: {doc['error'].get('message', '')} |" + " |" * (len(head) - 2))
            continue
        cells, speed = row(name, doc, options.latency)
        print("| " + " | ".join(cells) + " |")
        for mode, value in speed.items():
            speeds[mode].append(value)
    print()
    for mode, values in speeds.items():
        if values:
            print(f"{mode}: {geometric(values):.3f} over {len(values)} tasks, least {min(values):.2f}, largest {max(values):.2f}")
    if options.merge:
        merged = {}
        for name, doc in sorted(docs.items()):
            kept = dict(doc)
            for field in ("shipped", "task_path", "out"):
                if isinstance(kept.get(field), str):
                    kept[field] = Path(kept[field]).name
            merged[name] = kept
        options.merge.write_text(json.dumps(merged, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
