#!/usr/bin/env python3
"""Small copies of the tasks of examples/suite, for machines without a GPU.

    python bench/small_tasks.py --out SMALL [FOLDER]
    build/bin/planish suite SMALL --target cpu --budget 5s --out RESULTS

A task of that folder names its sizes on one line, with small ones behind them:

    ROWS, WIDTH = 16411, 12007  # small: 11, 203

In the copy the small ones stand in their place, and nothing else is changed: a copy is a task like any other, with a source of its own."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

SUITE = Path(__file__).resolve().parents[1] / "examples" / "suite"
_SIZES = re.compile(r"^([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = (.+?)  # small: (.+)$", re.MULTILINE)


def small_source(source: str) -> str:
    """The task with its small sizes. Raises ValueError where it does not name them, or not as many as it has."""
    lines = list(_SIZES.finditer(source))
    if len(lines) != 1:
        raise ValueError(f"{len(lines)} lines of sizes with small ones behind them, not one")
    names, full, small = (part.split(", ") for part in lines[0].groups())
    if not len(names) == len(full) == len(small):
        raise ValueError(f"{len(names)} names, {len(full)} sizes, {len(small)} small ones")
    return _SIZES.sub(r"\1 = \3", source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SUITE)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = sorted(options.folder.glob("*.py"))
    for path in tasks:
        try:
            (options.out / path.name).write_text(small_source(path.read_text()))
        except ValueError as error:
            raise SystemExit(f"error: {path}: {error}\nhint: write `SIZE = 4096  # small: 48`") from error
    print(f"{len(tasks)} tasks in {options.out}")


if __name__ == "__main__":
    main()
