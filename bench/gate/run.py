#!/usr/bin/env python3
"""The gate as a classifier: how many honest rewrites it refuses, and how many bad ones it accepts, beside the gate that was before it.

    PLANISH_BUILD=build PYTHONPATH=python python bench/gate/run.py [--target cpu|cuda] [--seeds 1] [--only WORDS] [--seconds N] [--json FILE]

An honest draw is one variant on one data set. A bad variant is accepted if it passes every data set of a proof (all regimes that the task takes,
and three of its own). It is `outright wrong` if somewhere its error is 1 % of the result and more than twice eager's, or an integer is wrong;
`less accurate` if it is more than twice eager's there; else `harmless`. `--quick`: a few operators. Ends with 1 where more passes or is refused than
docs/accuracy.md allows."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "cheats"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from former import Former
from harness import Harness
from planish import float8
from planish.oracle import layout, measure, statistics
from planish.oracle.gate import floor
from ranked_and_coded import FURTHER
from rewrites import OPERATORS, Operator, Variant
from seldom import SELDOM

_WRONG, _WORSE = 1e-2, 2.0
MOST_LESS_ACCURATE, MOST_REFUSED = 3, 0.02
QUICK = ("softmax", "linear", "argmax_input", "returned_input", "masked_logits")


def data_sets(harness: Harness, seeds: int, first: int) -> list[tuple[int, str]]:
    regimes, _ = harness.region.regimes()
    found = [(first + k, "task") for k in range(2 + seeds)]
    return found + [(first + 1000 + 10 * k, regime) for regime in regimes if regime != "task" for k in range(seeds)]


class Tried:
    """What became of one variant over the data sets of a proof."""

    def __init__(self, name: str, sort: str, variant: Variant) -> None:
        self.name, self.sort, self.variant = name, sort, variant
        self.draws = 0
        self.refused: list[str] = []
        self.refused_before = 0
        self.over = self.error = self.ratio = 0.0
        self.pools: dict[int, statistics.Pool] = {}

    def judge(self, harness: Harness, regime: str, seed: int, rng: random.Random, former: Former) -> None:
        if self.sort == "bad" and self.refused and self.refused_before:
            return
        outputs = self.variant(harness.inputs(), rng)
        harness.data.pools = self.pools
        result = harness.judge(outputs, "full")
        self.draws += 1
        passed_before = all(former.passes(i, slot.view) for i, slot in enumerate(harness.data.outputs) if i in former.compared)
        self.refused_before += not passed_before
        self.ratio = max(self.ratio, *(row.get("ratio", 0.0) for row in result["outputs"]))
        self._weigh(harness, former)
        if not result["ok"]:
            self.refused.append(f"{regime} {seed}: {result['message']}")

    def _weigh(self, harness: Harness, former: Former) -> None:
        for out, slot in zip(former.expected.outputs, harness.data.outputs, strict=True):
            actual = layout.flat(slot.view, out.order)
            if float8.is_float8(out.dtype):
                actual = float8.places(actual, out.dtype)
            if out.ref is None:
                if not bool(((actual == out.eager) | (actual == out.exact.to(actual.dtype))).all()):
                    self.over, self.error = max(self.over, 1e3), max(self.error, 1.0)
                continue
            errors = measure.compare(actual, out.ref)
            if errors.problem is not None:
                self.over = self.error = float("inf")
                continue
            eager = max(out.eager_error.fro, out.yardstick.fro, floor(out.dtype).fro)
            self.over, self.error = max(self.over, errors.fro / eager), max(self.error, errors.fro if errors.fro > _WORSE * eager else 0.0)

    def kind(self) -> str:
        return "outright wrong" if self.error >= _WRONG else "less accurate" if self.over > _WORSE else "harmless"


def run_operator(operator: Operator, dtype: str, device: str, seeds: int, first: int, only: str) -> dict[str, Any]:
    harness = Harness(operator.source(dtype), device=device)
    tried = [Tried(*v) for v in operator.variants(dtype) if only in f"{operator.name} {v[0]}"]
    rng = random.Random(f"{operator.name} {dtype}")
    sets = data_sets(harness, seeds, first)
    for seed, regime in sets:
        if "skipped" in harness.make(seed, regime):
            continue
        former = Former(harness.region.expected(harness.data), harness.data.input_tensors())
        for one in tried:
            one.judge(harness, regime, seed, rng, former)
    rows = [
        {
            "operator": operator.name, "dtype": dtype, "variant": t.name, "sort": t.sort, "draws": t.draws, "refused": len(t.refused),
            "refused_before": t.refused_before,
            "over_eager": _short(t.over), "kind": t.kind() if t.sort == "bad" else t.sort, "ratio": _short(t.ratio),
            "why": t.refused[:2] if t.sort != "bad" else [],
        }
        for t in tried
    ]  # fmt: skip
    return {"rows": rows, "skipped": dict(harness.region.skipped), "sets": len(sets)}


def _short(value: float) -> float:
    return float(f"{min(value, 1e30):.3g}")


def _passed(kind: str, rows: list[dict[str, Any]], key: str) -> int:
    return sum(not r[key] for r in rows if r["kind"] == kind)


def _of_kind(kind: str, rows: list[dict[str, Any]]) -> int:
    return sum(r["kind"] == kind for r in rows)


def table(rows: list[dict[str, Any]]) -> str:
    """For docs/accuracy.md."""
    dtypes = ["float32", "bfloat16", "float16"]
    lines = ["| by this gate / by the one before | " + " | ".join(dtypes) + " | all |", "|---|---|---|---|---|"]

    def line(name: str, count: Callable[[list[dict[str, Any]], str], int], of: Callable[[list[dict[str, Any]]], int]) -> None:
        cells = []
        for some in ([r for r in rows if r["dtype"] == dtype] for dtype in dtypes):
            cells.append(f"{count(some, 'refused')} / {count(some, 'refused_before')} of {of(some)}")
        cells.append(f"**{count(rows, 'refused')}** / {count(rows, 'refused_before')} of {of(rows)}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    def draws(sort: str) -> Callable[[list[dict[str, Any]]], int]:
        return lambda some: sum(r["draws"] for r in some if r["sort"] == sort)

    line("honest draws refused", lambda some, key: sum(r[key] for r in some if r["sort"] == "honest"), draws("honest"))
    for kind in ("outright wrong", "less accurate", "harmless"):
        line(f"bad accepted: {kind}", partial(_passed, kind), partial(_of_kind, kind))
    line("draws of other algebra refused", lambda some, key: sum(r[key] for r in some if r["sort"] == "algebra"), draws("algebra"))
    return "\n".join(lines)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    honest, bad, algebra = ([r for r in rows if r["sort"] == sort] for sort in ("honest", "bad", "algebra"))

    def accepted(key: str) -> dict[str, int]:
        return dict(Counter(r["kind"] for r in bad if not r[key]))

    return {
        "honest_variants": len(honest), "honest_draws": sum(r["draws"] for r in honest), "bad_variants": len(bad),
        "refused": sum(r["refused"] for r in honest), "refused_before": sum(r["refused_before"] for r in honest),
        "accepted": accepted("refused"), "accepted_before": accepted("refused_before"), "kinds": dict(Counter(r["kind"] for r in bad)),
        "algebra": {key: sum(r[key] for r in algebra) for key in ("draws", "refused", "refused_before")},
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seeds", type=int, default=1, help="data sets of each regime")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--only", default="", help="operators and variants whose names contain this")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--numbers-first", action="store_true", help="operators that give a few numbers before the others")
    parser.add_argument("--seconds", type=float, help="no further operator after so many")
    parser.add_argument("--quick", action="store_true", help="a few operators")
    parser.add_argument("--factors", help="other ones, for a sweep: of 16 bits and of the rest, as 2,1.5,1.5:3,2.5,2.5 (largest, quantiles, parts)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.factors:
        narrow, wide = (statistics.Factors(*map(float, part.split(","))) for part in options.factors.split(":"))
        statistics.NARROW, statistics.WIDE = narrow, wide
    start, rows, skipped = time.monotonic(), [], {}
    for operator in sorted([*OPERATORS, *FURTHER, *SELDOM], key=lambda o: not o.number and options.numbers_first):
        if options.seconds is not None and time.monotonic() - start > options.seconds:
            break
        if options.quick and operator.name not in QUICK:
            continue
        for dtype in operator.dtypes:
            names = [f"{operator.name} {v[0]}" for v in operator.variants(dtype)]
            if options.dtype not in dtype or not any(options.only in name for name in names):
                continue
            began = time.monotonic()
            found = run_operator(operator, dtype, options.target, options.seeds, options.first, options.only)
            rows += found["rows"]
            skipped[f"{operator.name} {dtype}"] = found["skipped"]
            here = summary(found["rows"])
            took = time.monotonic() - began
            honest = f"honest {here['refused']}/{here['honest_draws']}, before {here['refused_before']}"
            bad = f"bad {here['bad_variants']}, accepted {sum(here['accepted'].values())}, before {sum(here['accepted_before'].values())}"
            print(f"{operator.name:18} {dtype:9} {found['sets']:3} sets, {honest}; {bad}; {took:.1f} s", flush=True)
            for row in found["rows"]:
                if row["sort"] != "bad" and row["refused"]:
                    print(f"    refused ({row['sort']}) {row['refused']}/{row['draws']}: {row['variant']}: {row['why'][0]}")
                if row["sort"] == "bad" and not row["refused"]:
                    how = f"{row['over_eager']:.2g} times eager's error, {row['ratio']:.2f} of the gate"
                    print(f"    accepted, {row['kind']}: {row['variant']}, {how}")
    total = summary(rows)
    print(json.dumps(total, indent=1))
    print(table(rows))
    if options.json:
        where = torch.cuda.get_device_name() if options.target == "cuda" else "CPU"
        document = {"schema": "planish.bench.classifier/1", "torch": torch.__version__, "device": where, "seconds": round(time.monotonic() - start, 1),
                    "summary": total, "skipped": skipped, "rows": rows}  # fmt: skip
        options.json.write_text(json.dumps(document, separators=(",", ":")).replace('{"operator"', '\n{"operator"') + "\n")
    print(f"{time.monotonic() - start:.0f} s")
    fine = not total["accepted"].get("outright wrong") and total["accepted"].get("less accurate", 0) <= MOST_LESS_ACCURATE
    return 0 if fine and total["refused"] <= MOST_REFUSED * total["honest_draws"] else 1


if __name__ == "__main__":
    sys.exit(main())
