"""The table of models in docs/results/compatibility.md, made from rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import marked

#: Around what is made here; the layers of torch.nn stand below (bench/compatibility/run.py).
BEGIN, END = "<!-- models: made by bench/compatibility/models from docs/results/compatibility -->", "<!-- end of models -->"
_WORDS = {
    "whole": "captured whole and equal to eager",
    "captured": "captured whole and run, not compared",
    "pieces": "not captured whole (left to pieces)",
    "refused": "refused with a sentence",
    "wrong": "wrong",
    "internal": "an internal error",
    "unmade": "not made or called by the library",
    "skipped": "left out, as the library cannot be imported",
}


_ABOUT = (
    "Small sizes and random parameters, each called as its documentation calls it. `make compatibility` makes the rows "
    "([{source}](compatibility/{source})) and this table, and goes on where it was interrupted; `make compatibility MODELS=--quick` takes a few models, "
    "`MODELS='--only NAME --again'` one. torchaudio is left out: its compiled part does not load beside a torch for CPUs. Nor does torchvision's, of which "
    "the models that call none of its operators are tried."
)
_COLUMNS = (
    "A program of PyTorch's own operators stands in for each model on data like the example's, or in all calls that `generate` or a pipeline makes "
    "of it: *ran* says in how many of them, "
    "and what differs from eager is `wrong` (tokens must be equal). *Gain* is over eager, by `planish.optimize` with a budget of seconds."
)


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def latest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each model the last row."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        found[row["library"], row["name"]] = row
    return list(found.values())


def section(rows: list[dict[str, Any]], source: str) -> str:
    rows = latest(rows)
    versions = {f"{row['library']} {row['version']}" for row in rows if row.get("version")}
    torch_versions, dates = {row["torch"] for row in rows}, sorted({row["date"] for row in rows})
    forms = Counter(row["form"] for row in rows)
    taken = [row for row in rows if row["form"] in ("whole", "captured", "pieces")]
    timed = [row for row in taken if row.get("outcome", "out of time") != "out of time"]
    generated = [row for row in rows if row["called"] == "generate" and row["form"] == "whole"]
    period = dates[0] + (f" to {dates[-1]}" if len(dates) > 1 else "")
    tried = sum(row["called"] == "generate" and row["form"] != "skipped" for row in rows)
    counts = ", ".join(f"{forms[form]} {words}" for form, words in _WORDS.items() if forms[form])
    lines = [BEGIN, "", "## Models of libraries", ""]
    commits = Counter(row["commit"] for row in rows if row.get("commit"))
    at = f"; {', '.join(f'{count} rows at {commit}' for commit, count in commits.most_common())}" if commits else ""
    where = f"{', '.join(sorted(versions))} beside torch {', '.join(sorted(torch_versions))}; {period}{at}; {machine.in_words(rows)}."
    gained = sum(row["outcome"] == "improved" for row in timed)
    lines += [f"{where} {_ABOUT.format(source=source)}", "", _COLUMNS, ""]
    lines += [f"**{len(rows)} rows: {counts}.** {len(timed)} were searched, of which {gained} gained; without a search no pieces run, and nothing is timed."]
    lines += [f"`generate` gave eager's tokens with a program in {len(generated)} of {tried} models.", ""]
    lines += ["| library | model | taken | ran | gain | said |", "|---|---|---|---|---|---|"]
    for row in rows:
        ran = f"{row['ran']} of {row['calls']}" if row.get("calls") else ""
        said = str(row.get("said") or row.get("reason") or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {row['library']} | {row['name']} | {row['form']} | {ran} | {_gain(row)} | {said} |")
    return "\n".join([*lines, "", END, ""])


def _gain(row: dict[str, Any]) -> str:
    if row.get("gain"):
        return f"{row['gain']:.2f}"
    if row["form"] not in ("whole", "captured", "pieces"):
        return ""
    return {"no_improvement": "none", "interrupted": "not timed"}.get(row.get("outcome", ""), "not timed")


def write(page: Path, rows: list[dict[str, Any]], source: str) -> None:
    marked.put(page, section(rows, source), BEGIN, END, "\n## ")
