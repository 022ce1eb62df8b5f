#!/usr/bin/env python3
"""The tables of results in the pages, from the documents and rows beside them, so that they cannot drift.

    python bench/results_summary.py            # prints the summary of docs/results/README.md
    python bench/results_summary.py --write    # puts all tables into their pages

Sets, their tasks and their documents are named in docs/results/sets.json; KernelBench's are rows in docs/results/rows (results_rows.py).
Gains are against max-autotune-no-cudagraphs (the headline), and against the best baseline that was timed. A task whose best baseline is
what ships counts as 1.00 and is counted as a copy. A page has each table between two comments, of which the first names what it is.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import results_rows
from results_rows import geometric

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
BEGIN, END = "<!-- summary: made by bench/results_summary.py --write -->", "<!-- end of summary -->"
MODES = ("eager", "compile", "max_autotune_no_cudagraphs", "max_autotune")
HEADLINE = "max_autotune_no_cudagraphs"
Doc = dict[str, Any]


@dataclass
class Row:
    """One task as it was measured last. Gains are None where the baseline was not timed."""

    task: str
    copies: bool  # what ships is a baseline
    error_ratio: float | None
    ms: dict[str, float]  # by mode, `shipped` and `found` too
    headline: float | None
    best: float | None
    as_found: float | None  # of the best kernels found, also where they do not ship
    device: str
    document: str


def value(number: Any) -> float | None:
    """Documents spell what JSON cannot hold ("inf")."""
    return None if number is None else float(number)


def milliseconds(doc: Doc, measure: str) -> dict[str, float]:
    table = (doc.get("latency") or {}).get("ms") if measure == "latency" else doc.get("times_ms")
    found = {name: entry["median"] for name, entry in (table or {}).items() if entry.get("median")}
    if measure == "times_ms" and all("kept" in entry for name, entry in (table or {}).items() if name in found):
        # The lesser gain is claimed: both ways to call stand in the document.
        kept = {name: entry["kept"]["median"] for name, entry in table.items() if name in found}
        if any(kept[m] / kept["shipped"] < found[m] / found["shipped"] for m in MODES if m in found and "shipped" in found):
            return kept
    return found


def read_row(task: str, doc: Doc, measure: str, document: str) -> Row:
    ms = milliseconds(doc, measure)
    copies = doc.get("form") == "baseline"
    ms["found"] = ms.pop("candidate", ms.get("shipped", 0.0)) if copies else ms.get("shipped", 0.0)
    timed = [ms[m] for m in MODES if m in ms]
    ours = ms["found"]
    headline = ms[HEADLINE] / ours if HEADLINE in ms and ours else None
    best = min(timed) / ours if timed and ours else None
    ratio = value((doc.get("accuracy") or {}).get("ratio"))
    if copies:
        return Row(task, True, ratio, ms, 1.0 if headline is not None else None, 1.0 if best is not None else None, headline, uuid_of(doc), document)
    return Row(task, False, ratio, ms, headline, best, headline, uuid_of(doc), document)


def uuid_of(doc: Doc) -> str:
    device = doc.get("device") or {}
    return str(device.get("uuid") or device.get("name") or "not recorded")


def rows_of(task_set: Doc, results: Path) -> dict[str, Row]:
    """A task as its last document with the headline baseline has it; without such a document, as its last has it."""
    found: dict[str, Row] = {}
    for name in task_set["documents"]:
        for task, doc in json.loads((results / task_set["folder"] / name).read_text()).items():
            if task not in task_set["tasks"] or "times_ms" not in doc:
                continue
            row = read_row(task, doc, task_set["measure"], name)
            if task not in found or row.headline is not None or found[task].headline is None:
                found[task] = row
    return found


def means(title: str, rows: list[Row]) -> str:
    def cell(values: list[float | None]) -> str:
        there = [v for v in values if v]
        return f"{geometric(there):.2f} / {statistics.median(there):.2f} ({len(there)})" if there else "–"

    def against(row: Row, mode: str) -> float | None:
        return row.ms[mode] / row.ms["shipped"] if mode in row.ms and row.ms.get("shipped") else None

    copies = sum(row.copies for row in rows)
    cells = [title, cell([r.headline for r in rows]), cell([r.best for r in rows]), cell([r.as_found for r in rows])]
    cells += [cell([against(r, m) for r in rows]) for m in ("eager", "compile", "max_autotune")]
    return "| " + " | ".join([*cells, f"{copies} of {len(rows)}"]) + " |"


def number(x: float | None, digits: int) -> str:
    return "–" if x is None else "inf" if math.isinf(x) else f"{x:.{digits}f}"


def summary(results: Path = RESULTS) -> str:
    out: list[str] = []
    for task_set in json.loads((results / "sets.json").read_text())["sets"]:
        rows = rows_of(task_set, results)
        listed = [rows[t] for t in sorted(rows)]
        missing = [t for t in task_set["tasks"] if t not in rows]
        out += [f"## {task_set['title']}", ""]
        out.append(f"Set `{task_set['name']}`, fixed {task_set['fixed']}: {len(task_set['tasks'])} tasks, {len(listed)} of them measured"
                   + (f". **Not measured: {len(missing)}** ({', '.join(missing)})." if missing else "."))  # fmt: skip
        timed = ", ".join(f"{m.replace('_', '-')} {sum(m in r.ms for r in listed)}" for m in MODES)
        out.append(f"Baselines timed, by number of tasks: {timed}; all four beside {sum(all(m in r.ms for m in MODES) for r in listed)}.")
        ratios = [r for r in listed if r.error_ratio is not None and r.error_ratio > 2]
        out.append(f"Error ratio (ours over eager's own against fp64) above 2, where the gate's floor or the response decides: {len(ratios)}"
                   + (f" ({', '.join(f'{r.task} {number(r.error_ratio, 1)}' for r in ratios)})." if ratios else "."))  # fmt: skip
        devices = sorted({r.device for r in listed})
        named = f" ({', '.join(devices)})" if len(devices) < 4 else ", named by the end of their UUIDs in each row"
        out += [f"Devices by the documents: {len(devices)}{named}.", ""]
        out += ["Geometric mean / median (tasks).", ""]
        out.append("| tasks | headline | best baseline | kernels as found | against eager | against compile | against max-autotune (CUDA graphs) "
                   "| ships a copy of the baseline |")  # fmt: skip
        out.append("|---" * 8 + "|")
        out.append(means("all measured", listed))
        for title, tasks in task_set["subsets"].items():
            out.append(means(title, [rows[t] for t in tasks if t in rows]))
        for title, tasks in task_set["without"].items():
            out.append(means(f"without {', '.join(tasks)}: {title}", [r for r in listed if r.task not in tasks]))
        digits = 4 if task_set["measure"] == "latency" or task_set["name"].startswith("small") else 3
        modes = " | ".join(m.replace("_", "-") for m in MODES)
        out += ["", f"| task | error ratio | {modes} | found | ships | headline | best baseline | device | document |"]
        out.append("|---" * (8 + len(MODES)) + "|")
        for r in listed:
            cells = [r.task, number(r.error_ratio, 2), *(number(r.ms.get(m), digits) for m in MODES), number(r.ms["found"], digits)]
            cells += ["baseline" if r.copies else "kernels", number(r.headline, 2), number(r.best, 2)]
            cells += [r.device.split("-")[-1][-6:], f"[{r.document.removesuffix('.json')}]({task_set['folder']}/{r.document})"]
            out.append("| " + " | ".join(cells) + " |")
        out += ["", f"    {task_set['command']}", ""]
    return "\n".join(out)


def put_in(text: str, block: str) -> str:
    """`text` with what lies between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{block}\n{END}{after}"


#: Levels of KernelBench and how many tasks they have.
LEVELS = {1: 100, 2: 100, 3: 50}
PAGES = (
    *(ROOT / name for name in ("README.md", "docs/gains.md", "docs/gallery.md")),
    *(RESULTS / name for name in ("README.md", "rows/README.md", "kernelbench-h200.md", "networks.md")),
)
BLOCK = re.compile(r"<!-- table (\S+) (\S+): made by bench/results_summary.py --write -->\n.*?<!-- end of table -->", re.DOTALL)


#: Rows of the README, of those that docs/gains.md has: no set twice, and of small tensors the measure with the lesser gains.
FIVE = ("level 1", "level 2", "level 3", "large", "small-in-a-row")


def sets_table(names: tuple[str, ...] | None = None, results: Path = RESULTS) -> str:
    """What gains, by sets: one row each."""
    lines: dict[str, str] = {}
    sets = {s["name"]: s for s in json.loads((results / "sets.json").read_text())["sets"]}

    def line(name: str, title: str, headline: list[float], best: list[float], nothing: str) -> None:
        lines[name] = f"| {title} | {geometric(headline):.2f} | {statistics.median(headline):.2f} | {geometric(best):.2f} | {nothing} |"

    def of_set(name: str, title: str) -> None:
        rows = list(rows_of(sets[name], results).values())
        line(name, title.format(len(rows)), [r.headline for r in rows if r.headline], [r.best for r in rows if r.best], str(sum(r.copies for r in rows)))

    of_set("large", "{} large ones (1 to 17 GB a call), H200")
    of_set("small", "{} small ones, H200, single calls")
    of_set("small-in-a-row", "{} small ones, H200, calls in a row")
    found = results_rows.campaigns(results / "rows")
    for level, size in LEVELS.items():
        counts = list(results_rows.counted(found, level)[0].values())
        lost = sum(c.row.outcome in ("refused", "failed", "interrupted") for c in counts)
        cards = " and ".join(sorted({c.row.doc["device"] for c in counts}))
        nothing = sum(c.headline < 1.005 for c in counts)
        line(f"level {level}", f"{len(counts)} of the {size} of level {level} of KernelBench, {cards}", [c.headline for c in counts],
             [c.best for c in counts], f"{nothing}, {lost} of them refused or cut off" if lost else str(nothing))  # fmt: skip
    of_set("cpu", "{} on two CPU cores, results dropped at once")
    head = ["| set of tasks | mean | median | mean over each task's fastest baseline | tasks without a gain |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(lines[name] for name in names or lines)])


def gallery_table(number_of_rows: int = 10, results: Path = RESULTS) -> str:
    """The tasks of the large set that gained most over the best baseline."""
    sets = {s["name"]: s for s in json.loads((results / "sets.json").read_text())["sets"]}
    rows = sorted(rows_of(sets["large"], results).values(), key=lambda r: -(r.best or 0))[:number_of_rows]
    out = ["| task | eager | max-autotune-no-cudagraphs | ours | gain | error ratio |", "|---|---|---|---|---|---|"]
    for r in rows:
        cells = [f"[{r.task}](../examples/gpu/{r.task}.py)", number(r.ms.get("eager"), 3), number(r.ms.get(HEADLINE), 3), number(r.ms["found"], 3)]
        out.append("| " + " | ".join([*cells, f"{number(r.best, 2)}×", number(r.error_ratio, 2)]) + " |")
    return "\n".join(out)


def task_table(name: str, results: Path = RESULTS) -> str:
    """Times of one task, by SET/TASK."""
    wanted, _, task = name.partition("/")
    task_set = next(s for s in json.loads((results / "sets.json").read_text())["sets"] if s["name"] == wanted)
    row = rows_of(task_set, results)[task]
    modes = [m for m in MODES if m in row.ms]
    head = "| " + " | ".join([*(m.replace("_", "-") for m in modes), "Planish", "error ratio"]) + " |"
    cells = [*(number(row.ms[m], 2) for m in modes), number(row.ms["found"], 2), number(row.error_ratio, 2)]
    return "\n".join([head, "|---" * len(cells) + "|", "| " + " | ".join(cells) + " |"])


def block(kind: str, name: str) -> str:
    """A table by its kind and name."""
    if (kind, name) == ("gains", "gallery"):
        return gallery_table()
    if kind == "gains":
        return sets_table({"by-sets": None, "five": FIVE}[name])
    if kind == "task":
        return task_table(name)
    found = results_rows.campaigns(RESULTS / "rows")
    if kind == "level":
        return results_rows.set_summary(found, int(name), LEVELS[int(name)])
    if kind == "campaign":
        return results_rows.campaign_table(found, name)
    raise ValueError(f"there is no table {kind} {name}")


def made(path: Path) -> str:
    """The text of a page with its tables as they are made now."""

    def table(match: re.Match[str]) -> str:
        first = match.group(0).partition("\n")[0]
        return f"{first}\n\n{block(match.group(1), match.group(2))}\n\n<!-- end of table -->"

    text = BLOCK.sub(table, path.read_text())
    return put_in(text, summary()) if BEGIN in text else text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not options.write:
        print(summary())
        return 0
    for path in PAGES:
        path.write_text(made(path))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
