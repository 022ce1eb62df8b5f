"""Runs `planish suite` until it ends or a limit is over, and writes its document as a page of a few tables."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: What it needs to write down what it has, once it is interrupted.
PATIENCE = 180.0
THRESHOLDS = ("0", "1", "1.5", "2", "5")

Doc = dict[str, Any]


def split_arguments() -> tuple[list[str], list[str]]:
    """This program's own, and those behind `--`."""
    own = sys.argv[1:]
    return (own[: own.index("--")], own[own.index("--") + 1 :]) if "--" in own else (own, [])


def add_suite_options(parser: argparse.ArgumentParser) -> None:
    """What each of these programs hands on to the suite, and where its results go."""
    parser.add_argument("--devices", default="", help="as planish suite takes them; empty: all")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--minutes", type=float, default=0, help="0: until it ends")
    parser.add_argument("--out", type=Path, required=True)


def suite_arguments(options: argparse.Namespace) -> list[str]:
    """Of `planish suite`, from add_suite_options() and --baselines."""
    arguments = ["--baselines", options.baselines, "--target", options.target, "--workers", str(options.workers)]
    return [*arguments, *(["--devices", options.devices] if options.devices else [])]


def write_page(document: Doc, head: str, out: Path) -> None:
    """page(), on the terminal and as OUT/table.md."""
    text = page(document, head)
    (out / "table.md").write_text(text)
    print(text)


def launcher() -> str:
    """Of a checkout or of a dist folder."""
    packed = ROOT / "bin" / "planish"
    return str(packed if packed.exists() else Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish")


def run_suite(tasks: Path, out: Path, arguments: list[str], minutes: float) -> Doc:
    """suite.json, of as many tasks as were reached in the time, with `minutes` that it took."""
    began = time.monotonic()
    command = [launcher(), "suite", str(tasks), "--out", str(out), "--quiet", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(minutes * 60 if minutes > 0 else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
    document = out / "suite.json"
    if not document.exists():
        sys.exit(f"error: {document} was not written (exit status {process.returncode})\nhint: run it by hand: {' '.join(command)}")
    found: Doc = json.loads(document.read_text())
    found["minutes"] = (time.monotonic() - began) / 60
    return found


def _cell(value: float | str | None, digits: int = 2) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:.{digits}f}"


def _levels(document: Doc) -> list[str]:
    heads = ["level", "tasks", "correct", "against", *(f"fast_{p}" for p in THRESHOLDS), "geometric mean"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for level in document.get("levels", []):
        for name, scores in level["against"].items():
            label = "all" if level["level"] is None else str(level["level"])
            cells = [label, str(level["tasks"]), str(level["correct"]), name]
            cells += [_cell(scores["fast_p"].get(p)) for p in THRESHOLDS] + [_cell((scores.get("geomean") or {}).get("speedup"))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _row(row: Doc, baselines: list[str]) -> str:
    times, speedup = row.get("times_ms") or {}, row.get("speedup") or {}
    own = times.get("shipped") or times.get("solution")
    error = row.get("error") or {}
    why = error.get("message", "") if isinstance(error, dict) else str(error)
    words = (str(why or row.get("reason") or "").splitlines() or [""])[0].replace("|", "\\|")
    verdict = row.get("verdict") or ""
    outcome = row["outcome"] + (f" ({verdict})" if verdict not in ("", "ok") else "")
    cells = [row["task"], outcome, _cell(row.get("error_ratio")), _cell(own, 4)]
    cells += [_cell(speedup.get(mode)) for mode in baselines]
    cells += [_cell(row.get("seconds"), 0), words[:160]]
    return "| " + " | ".join(cells) + " |"


def page(document: Doc, head: str) -> str:
    """Markdown: a paragraph, counts, a table a level, a row a task."""
    rows = document["tasks"]
    baselines = sorted({mode for row in rows for mode in (row.get("speedup") or {})})
    counts: dict[str, int] = {}
    for row in rows:
        verdict = row.get("verdict") or ""
        name = row["outcome"] + (f": {verdict}" if verdict not in ("", "ok") else "")
        counts[name] = counts.get(name, 0) + 1
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
    reached = [row for row in rows if row["outcome"] not in ("interrupted", "unanswered")]
    lines = [head, "", f"{len(rows)} rows, {document['minutes']:.1f} minutes, {len(reached) / document['minutes']:.2f} a minute: {said}.", ""]
    lines += [*_levels(document), ""]
    heads = ["task", "outcome", "error ratio", "ms", *(f"× {mode}" for mode in baselines), "s", "why"]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += [_row(row, baselines) for row in rows]
    return "\n".join(lines) + "\n"
