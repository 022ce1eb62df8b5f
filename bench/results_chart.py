#!/usr/bin/env python3
"""The chart of the README: one dot for each task of KernelBench that counts, from docs/results/rows.

    python bench/results_chart.py            # prints the SVG
    python bench/results_chart.py --write    # writes docs/results/gains.svg

Which row of a task counts, results_rows.py says. Colours are of middle brightness, so that one file is read on a light and on a dark page.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import results_rows

CHART = results_rows.ROWS.parent / "gains.svg"
LEVELS = {1: "single operators", 2: "chains of operators", 3: "whole networks"}
TEXT, LINE = "#768390", "#76839080"
COLOURS = {1: "#2f81f7", 2: "#2da44e", 3: "#c2680c"}
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 210, 20, 48, 44
LEAST, MOST = 0.8, 64.0
#: Pixels between two dots, and above the highest stack of a level.
STEP, GAP = 5.0, 34.0


def place(gain: float) -> float:
    """Where a gain lies from left to right; the scale is logarithmic."""
    share = math.log(gain / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def dots(gains: list[float]) -> list[tuple[float, int]]:
    """Columns of dots: (where, how many below it in its column)."""
    heights: Counter[int] = Counter()
    found = []
    for gain in sorted(gains):
        column = round(place(gain) / STEP)
        found.append((column * STEP, heights[column]))
        heights[column] += 1
    return found


def text(x: float, y: float, words: str, size: int = 13, anchor: str = "start", weight: str = "normal", colour: str = TEXT) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{words}</text>'


def chart(folder: Path = results_rows.ROWS) -> str:
    campaigns = results_rows.campaigns(folder)
    body: list[str] = []
    y = float(TOP)
    total = 0
    cards: set[str] = set()
    for level, what in LEVELS.items():
        counts = list(results_rows.counted(campaigns, level)[0].values())
        gains = [one.headline for one in counts]
        cards |= {one.row.doc["device"] for one in counts}
        total += len(gains)
        placed = dots(gains)
        y += GAP + STEP * max(height for _, height in placed)
        mean = results_rows.geometric(gains)
        body.append(f'<line x1="{LEFT}" y1="{y + 4:g}" x2="{WIDTH - RIGHT}" y2="{y + 4:g}" stroke="{LINE}"/>')
        body += [f'<circle cx="{x:g}" cy="{y - STEP * height:g}" r="2.2" fill="{COLOURS[level]}"/>' for x, height in placed]
        body.append(text(0, y - 34, f"Level {level}: {what}", weight="bold", colour=COLOURS[level]))
        body.append(text(0, y - 16, f"{len(gains)} tasks, mean {mean:.2f}×,"))
        body.append(text(0, y + 2, f"median {statistics.median(gains):.2f}×"))
    ticks = [2**k for k in range(7)]
    axis = [f'<line x1="{place(t):.1f}" y1="{TOP}" x2="{place(t):.1f}" y2="{y + 4:g}" stroke="{LINE}" stroke-dasharray="2 4"/>' for t in ticks]
    axis += [text(round(place(t), 1), y + 22, f"{t}×", anchor="middle") for t in ticks]
    height = y + BOTTOM
    title = f"Times as fast as max-autotune-no-cudagraphs: {total} tasks of KernelBench, {' and '.join(sorted(cards))}"
    note = "One dot a task, logarithmic scale. Dots at 1× gained nothing. Means are geometric."
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" role="img" '
        'font-family="system-ui, sans-serif">',
        f"<title>{title}</title>", text(0, 18, title, 14, weight="bold"), text(0, 38, note), *axis, *body, "</svg>", ""])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        CHART.write_text(chart())
    else:
        print(chart(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
