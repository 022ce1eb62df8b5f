#!/usr/bin/env python3
"""How often the gate refuses honest code, and whether it catches every mutant.

    PYTHONPATH=python python bench/gate_false_alarms.py [--draws 200] [--json FILE]

Each draw takes a fresh seed, the next regime and a random tiling. Mutants are tried on task data of many seeds.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cheats"))

import torch
from harness import Harness
from variants import CASES, CORRUPTIONS, Case, corrupt

MUTANT_SEEDS = 5


def run_case(case: Case, draws: int) -> dict[str, Any]:
    """False alarms and missed mutants of one case."""
    harness = Harness(case.source)
    regimes, skipped = harness.region.regimes()
    rng = random.Random(case.name)
    failed: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    judged = 0
    names = list(case.honest)
    for draw in range(draws):
        regime = regimes[draw % len(regimes)]
        if "skipped" in harness.make(1000 + draw, regime):
            continue
        name = names[draw % len(names)] if len(names) % len(regimes) else names[(draw // len(regimes)) % len(names)]
        result = harness.judge(case.honest[name](harness.inputs(), rng))
        judged += 1
        counts[regime] += 1
        if not result["ok"]:
            failed.append({"variant": name, "seed": 1000 + draw, "regime": regime, "message": result["message"]})
    missed: list[str] = []
    mutants = 0
    for seed in range(MUTANT_SEEDS):
        harness.make(5000 + seed, "task")
        inputs = harness.inputs()
        honest = case.honest[names[0]](inputs, rng)
        tries = {name: mutant(inputs, rng) for name, mutant in case.mutants.items()}
        if any(o.is_floating_point() and o.numel() > 1 for o in honest) and case.name != "argmax":
            tries |= {how: corrupt(honest, how, rng) for how in CORRUPTIONS}
        for name, outputs in tries.items():
            mutants += 1
            if harness.judge(outputs)["ok"]:
                missed.append(f"{name} (seed {5000 + seed})")
    return {"task": case.name, "draws": judged, "regimes": dict(counts), "skipped": skipped, "failed": failed, "mutants": mutants, "missed": missed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", help="one task")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(min(2, torch.get_num_threads()))
    rows = []
    print(f"{'task':16} {'draws':>6} {'refused':>8} {'mutants':>8} {'missed':>7} {'seconds':>8}")
    for case in CASES:
        if args.only and case.name != args.only:
            continue
        start = time.monotonic()
        row = run_case(case, args.draws)
        row["seconds"] = time.monotonic() - start
        rows.append(row)
        print(f"{row['task']:16} {row['draws']:6} {len(row['failed']):8} {row['mutants']:8} {len(row['missed']):7} {row['seconds']:8.1f}", flush=True)
        for failure in row["failed"][:3]:
            print(f"    refused: {failure['variant']}, {failure['regime']}, seed {failure['seed']}: {failure['message']}")
        for name in row["missed"][:5]:
            print(f"    missed: {name}")
    draws, refused = sum(r["draws"] for r in rows), sum(len(r["failed"]) for r in rows)
    mutants, missed = sum(r["mutants"] for r in rows), sum(len(r["missed"]) for r in rows)
    print(f"{refused} of {draws} honest draws refused ({100 * refused / max(1, draws):.2f} %), {missed} of {mutants} mutants missed")
    if args.json:
        document = {
            "schema": "planish.bench.gate/1",
            "torch": torch.__version__,
            "draws": draws,
            "refused": refused,
            "mutants": mutants,
            "missed": missed,
            "tasks": rows,
        }
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if refused < 0.01 * draws and missed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
