#!/usr/bin/env python3
"""What each kind of kernel achieved in the published results, for the catalogue of patterns.

    python bench/patterns/achieved.py            # prints it
    python bench/patterns/achieved.py --write    # writes patterns/achieved.json; a test compares

Counted are the regions of all result documents under docs/results whose best kernel was timed: of a task that several documents have, the last one's. A
region's fraction is its roofline time over its measured time. Results are filed under the anchor (the first word of a region's summary).
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "patterns" / "achieved.json"


def achieved() -> dict[str, Any]:
    regions: dict[tuple[str, str, str, str], float] = {}
    for path in sorted((ROOT / "docs" / "results").rglob("*.json"), key=lambda p: p.stem[-10:]):
        document = json.loads(path.read_text())
        for task, result in document.items() if isinstance(document, dict) else ():
            if not isinstance(result, dict) or not isinstance(result.get("regions"), list) or not isinstance(result.get("device"), dict):
                continue
            for region in result["regions"]:
                if region.get("best_ms") and region.get("bound_ms"):
                    anchor = str(region.get("summary", "")).split(",")[0]
                    regions[anchor, result["device"]["name"], task, region["id"]] = region["bound_ms"] / region["best_ms"]
    out: dict[str, Any] = {}
    for anchor, device in sorted({key[:2] for key in regions}):
        fractions = sorted(v for k, v in regions.items() if k[:2] == (anchor, device))
        tasks = {k[2] for k in regions if k[:2] == (anchor, device)}
        out.setdefault(anchor, {})[device] = {
            "regions": len(fractions), "tasks": len(tasks), "median_fraction": round(statistics.median(fractions), 3), "best_fraction": round(fractions[-1], 3)
        }  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="What each kind of kernel achieved in the published results.")
    parser.add_argument("--write", action="store_true")
    text = json.dumps(achieved(), indent=1, sort_keys=True) + "\n"
    if parser.parse_args().write:
        TARGET.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
