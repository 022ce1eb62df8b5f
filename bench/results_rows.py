"""Rows of campaigns (docs/results/rows): which of them count, what they say, and the tables that are made of them.

A campaign is one file of JSON lines: its facts first, then one row a task that was run. docs/results/rows/README.md has the fields and
the rule; `python bench/results_summary.py --write` puts what follows from them into the pages.

    python bench/results_rows.py SUITE_OUT --campaign NAME --order N --title TEXT --commit HASH --date DAY --command TEXT

makes the file of a campaign from the folder that `planish suite --out` wrote.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADLINE = "max_autotune_no_cudagraphs"
#: What a task is timed beside; `eager_cuda_graph` where eager's launches were recorded by hand.
BASELINES = ("eager", "compile", HEADLINE, "max_autotune", "eager_cuda_graph")
GRAPHS = ("max_autotune", "eager_cuda_graph")
ROWS = Path(__file__).resolve().parents[1] / "docs" / "results" / "rows"
#: Parts of a level that pages speak of, by the names of their tasks.
SUBSETS = {
    1: {"convolutions": "conv", "without convolutions": "^(?!.*conv)"},
    2: {"chains of convolutions": "Conv", "chains of products": "^(?!.*Conv)"},
    3: {"recurrent networks": "LSTM|GRU|RNN", "without recurrent ones": "^(?!.*(LSTM|GRU|RNN))"},
}
#: Kinds of errors of a task that Planish declines, rather than fails on.
REFUSED = ("random_ops", "not_exportable", "unsupported_op", "data_dependent")
#: Outcomes that count as 1.00 whatever was timed: nothing of ours ships.
NOTHING = ("no_improvement", "refused", "failed", "interrupted")
Doc = dict[str, Any]


@dataclass
class Measured:
    """One row, read."""

    campaign: Doc
    doc: Doc
    task: str = field(init=False)
    number: tuple[int, int] = field(init=False)  # level and problem

    def __post_init__(self) -> None:
        self.task = self.doc["task"]
        level, _, name = self.task.partition("/")
        self.number = (int(level), int(name.partition("_")[0]))

    @property
    def outcome(self) -> str:
        return str(self.doc["outcome"])

    def ms(self, name: str) -> float | None:
        time = self.doc["times_ms"].get(name)
        return None if time is None else float(time["median"])

    def gain(self, baseline: str) -> float | None:
        """Over a baseline; 1 at most where nothing of ours ships. None where it was not timed."""
        ours, theirs = self.ms("shipped"), self.ms(baseline)
        found = theirs / ours if ours and theirs else self.doc.get("gains", {}).get(baseline)
        if self.outcome in NOTHING:
            return None if found is None and theirs is None else 1.0
        return found

    @property
    def headline(self) -> float | None:
        """Over max-autotune-no-cudagraphs, and over no less than that where it is refused by the gate: the lesser counts."""
        return self.gain(HEADLINE)

    @property
    def best(self) -> float | None:
        """Over the best of all that were timed."""
        found = [g for g in map(self.gain, BASELINES) if g is not None]
        return min(found) if found else None

    @property
    def meant_for_headline(self) -> bool:
        return HEADLINE in self.campaign["baselines"]


@dataclass
class Counted:
    """What counts of a task: the row, its gains, and why they are 1.00 where nothing was gained."""

    row: Measured
    headline: float
    best: float


def campaigns(folder: Path) -> list[tuple[Doc, list[Measured]]]:
    """All files of the folder, in the order of their commits."""
    found = []
    for path in folder.glob("*.jsonl"):
        head, *rows = [json.loads(line) for line in path.read_text().splitlines()]
        if head["campaign"] != path.stem:
            raise ValueError(f"{path}: its first line names the campaign {head['campaign']!r}")
        found.append((head, [Measured(head, row) for row in rows]))
    return sorted(found, key=lambda one: one[0]["order"])


def counted(found: list[tuple[Doc, list[Measured]]], level: int) -> tuple[dict[tuple[int, int], Counted], dict[tuple[int, int], Measured]]:
    """(tasks that count, those that were only run beside something else), by level and number: the rule of rows/README.md."""
    last: dict[tuple[int, int], Measured] = {}
    apart: dict[tuple[int, int], list[Measured]] = {}
    for _, rows in found:
        for row in rows:
            if row.number[0] != level:
                continue
            if row.meant_for_headline:
                last[row.number] = row
                apart.pop(row.number, None)
            else:
                apart.setdefault(row.number, []).append(row)
    counts: dict[tuple[int, int], Counted] = {}
    for number, row in last.items():
        headline = row.headline
        if headline is None and row.outcome in NOTHING:
            headline = 1.0
        if headline is None:
            continue
        # What was run later beside less than that lowers a figure, and never raises it.
        lower = [g for g in (other.best for other in apart.get(number, [])) if g is not None]
        best = min([row.best if row.best is not None else headline, headline, *lower])
        counts[number] = Counted(row, min([headline, *lower]), best)
    for number, others in apart.items():
        if number not in counts and others[-1].outcome in NOTHING:
            counts[number] = Counted(others[-1], 1.0, 1.0)
    return counts, {number: others[-1] for number, others in apart.items() if number not in counts}


def geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def mean_text(values: list[float]) -> str:
    return f"{geometric(values):.2f} / {statistics.median(values):.2f}" if values else "–"


def short(task: str) -> str:
    return task.partition("_")[0]


def names(tasks: list[Measured]) -> str:
    return ", ".join(short(t.task) for t in sorted(tasks, key=lambda t: t.number))


def set_summary(found: list[tuple[Doc, list[Measured]]], level: int, size: int) -> str:
    """The table of a level: all that counts, by card, and what does not."""
    counts, elsewhere = counted(found, level)
    rows = [counts[n] for n in sorted(counts)]
    out = [f"### Level {level}: {len(rows)} of {size}", ""]
    columns = ("tasks", "number", "headline", "best of all", "with CUDA graphs among these", "nothing gained", "refused, failed or cut off")
    out += ["Geometric mean / median.", "", f"| {' | '.join(columns)} |"]
    out.append("|---" * 7 + "|")

    def line(title: str, part: list[Counted]) -> str:
        graphs = sum(any(r.row.gain(g) is not None for g in GRAPHS) for r in part)
        nothing = sum(r.row.outcome == "no_improvement" or (r.row.outcome == "improved" and r.headline < 1.005) for r in part)
        lost = sum(r.row.outcome in ("refused", "failed", "interrupted") for r in part)
        return f"| {title} | {len(part)} | {mean_text([r.headline for r in part])} | {mean_text([r.best for r in part])} | {graphs} | {nothing} | {lost} |"

    out.append(line("all that count", rows))
    for title, pattern in SUBSETS[level].items():
        out.append(line(title, [r for r in rows if re.search(pattern, r.row.task)]))
    for card in sorted({r.row.doc["device"] for r in rows}):
        out.append(line(f"last run on an {card}", [r for r in rows if r.row.doc["device"] == card]))
    lost = {o: [r.row for r in rows if r.row.outcome == o] for o in ("refused", "failed", "interrupted")}
    lines = [f"{outcome}: {names(those)}" for outcome, those in lost.items() if those]
    if lines:
        out += ["", f"Counted as 1.00 because nothing of ours ships: {'; '.join(lines)}."]
    if elsewhere:
        beside = ", ".join(f"{short(r.task)} {r.best:.2f}" for r in (elsewhere[n] for n in sorted(elsewhere)) if r.best is not None)
        out += ["", f"Not beside max-autotune-no-cudagraphs, and in no mean (over the best of what was timed): {beside}."]
    missing = [f"{level}/{n}" for n in range(1, size + 1) if (level, n) not in counts and (level, n) not in elsewhere]
    if missing:
        out += ["", f"Never run to its end: {', '.join(missing)}."]
    return "\n".join(out)


def number_text(x: float | None, digits: int = 3) -> str:
    return "–" if x is None else f"{x:.{digits}f}"


def time_text(row: Measured, name: str) -> str:
    time = row.doc["times_ms"].get(name)
    if time is None:
        return "–"
    if time["lo"] is None:
        return f"{time['median']:.3f}"
    return f"{time['median']:.3f} ({time['lo']:.3f} to {time['hi']:.3f})"


def campaign_table(found: list[tuple[Doc, list[Measured]]], name: str) -> str:
    """The rows of a campaign; `before`: the gain of the task's row before it."""
    earlier: dict[tuple[int, int], float] = {}
    for head, rows in found:
        if head["campaign"] == name:
            break
        for row in rows:
            gain = row.headline
            if gain is not None:
                earlier[row.number] = gain
    else:
        raise ValueError(f"there is no campaign {name}")
    modes = [m for m in BASELINES if any(m in r.doc["times_ms"] for r in rows)]
    compare = any(r.number in earlier for r in rows)
    columns = ["task", "shipped", *(m.replace("_", "-") for m in modes), "gain", "best of all", *(["before"] if compare else [])]
    columns += ["error ratio", "card, commit", "note"]
    out = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for r in rows:
        cells = [r.task, time_text(r, "shipped") if r.outcome not in NOTHING else r.outcome.replace("_", " "), *(time_text(r, m) for m in modes)]
        cells += [number_text(r.headline, 2), number_text(r.best, 2), *([number_text(earlier.get(r.number), 2)] if compare else [])]
        cells += [number_text(r.doc.get("error_ratio"), 2), f"{r.doc['device']}, {r.doc['commit'] or '–'}", r.doc.get("note", "")]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def task_name(row: Doc) -> str:
    """Level, problem and name, of a row of suite.json whose tasks lie in folders `level1`, …."""
    found = re.fullmatch(r"(?:.*/)?level(\d+)/(\d+_.*)", str(row["task"]))
    if found is None:
        raise ValueError(f"{row['task']}: no task of a level")
    return f"{found.group(1)}/{found.group(2)}"


def row_of(row: Doc, result: Doc | None, commit: str, date: str, budget: str) -> Doc:
    """A row of a campaign, of one of suite.json and of the result of its task, where there is one."""
    result = result or {}
    error = row.get("error") or {}
    degenerate = (result.get("accuracy") or {}).get("degenerate") or []
    # A task that is refused by kind, or as degenerate, is none that was tried and failed.
    refused = bool(degenerate) or error.get("kind") in REFUSED
    times = {name: {key: time.get(key) for key in ("median", "lo", "hi")} for name, time in (result.get("times_ms") or {}).items() if time.get("median")}
    ratio = (result.get("accuracy") or {}).get("ratio")
    out = {"task": task_name(row), "device": (result.get("device") or {}).get("name"), "commit": commit, "date": date, "budget": budget,
           "outcome": "refused" if refused else row["outcome"], "times_ms": times}  # fmt: skip
    if result.get("refused_baselines"):
        out["refused_baselines"] = result["refused_baselines"]
    out["error_ratio"] = None if ratio is None else float(ratio)
    note = error.get("message") or row.get("reason")
    return out | ({"note": note} if note else {})


def make_campaign(folder: Path, facts: Doc, commit: str, date: str) -> list[Doc]:
    """The lines of a campaign, from what a suite wrote."""
    suite = json.loads((folder / "suite.json").read_text())
    settings = suite["settings"]
    budget = f"{settings['budget_seconds']:g}s"
    head = {**facts, "baselines": settings["baselines"]}
    lines = [head]
    for row in suite["tasks"]:
        path = folder / row["task"] / "result.json"
        result = json.loads(path.read_text()) if path.exists() else None
        lines.append(row_of(row, result, commit, date, budget))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name in ("campaign", "title", "command", "commit", "date"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--order", type=int, required=True)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--suite", default="KernelBench 423217d")
    o = parser.parse_args()
    facts = {"campaign": o.campaign, "order": o.order, "title": o.title, "command": o.command, "torch": o.torch, "suite": o.suite}
    lines = make_campaign(o.folder, facts, o.commit, o.date)
    (ROWS / f"{o.campaign}.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
