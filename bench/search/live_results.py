"""What a run found by when, and tables of it. Arithmetic alone."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

MARKS = (25, 50, 100)
NEAR = 0.95  # of the best speed
Curve = list[list[float]]  # [evaluations, ms] wherever the best became better


@dataclass(frozen=True)
class Result:
    task: str
    kind: str
    strategy: str
    seed: int
    curve: Curve


def curve_of(shown: dict[str, Any]) -> tuple[Curve, int]:
    """From what `planish show RUN --json` prints: the task's best time so far, and how many genomes were screened.

    The time of a task is that of its regions, each as often as it occurs. It has none until something passed in each: PyTorch's form of a region
    does not count, because it is searches that are compared.
    """
    counts = {region["id"]: region["count"] for region in shown["regions"] if region["genes"]}
    best: dict[str, float] = {}
    curve: Curve = []
    screened = 0
    for one in shown["evaluations"]:
        if not one["genome"] or one["level"] == "full" or one["region"] not in counts:
            continue
        screened += 1
        if one["outcome"] != "ok" or not one["median_ms"]:
            continue
        best[one["region"]] = min(best.get(one["region"], math.inf), one["median_ms"])
        total = sum(count * best.get(region, math.inf) for region, count in counts.items())
        if total < (curve[-1][1] if curve else math.inf):
            curve.append([screened, total])
    return curve, screened


def final_ms(shown: dict[str, Any]) -> float | None:
    """The sum over regions of the best that was measured again at level full; nothing where a region has none."""
    best: dict[str, float] = {}
    for one in shown["evaluations"]:
        if one["genome"] and one["level"] == "full" and one["outcome"] == "ok" and one["median_ms"]:
            best[one["region"]] = min(best.get(one["region"], math.inf), one["median_ms"])
    wanted = [r for r in shown["regions"] if r["genes"]]
    if not wanted or any(r["id"] not in best for r in wanted):
        return None
    return float(sum(r["count"] * best[r["id"]] for r in wanted))


def best_at(curve: Curve, evaluations: int) -> float:
    """Infinite before the first."""
    return min((ms for at, ms in curve if at <= evaluations), default=math.inf)


def evaluations_to(curve: Curve, target_ms: float, most: int) -> int:
    """Until `target_ms` or less; `most` + 1 where never."""
    return int(min((at for at, ms in curve if ms <= target_ms), default=most + 1))


def best_of_all(results: list[Result]) -> dict[str, float]:
    out: dict[str, float] = {}
    for one in results:
        out[one.task] = min(out.get(one.task, math.inf), best_at(one.curve, 1 << 30))
    return out


def mean_ratio(values: list[float]) -> float:
    """Geometric; infinite where one is."""
    return math.inf if any(math.isinf(v) for v in values) else math.exp(statistics.fmean(math.log(v) for v in values))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def cold_table(results: list[Result], most: int) -> str:
    """By task and strategy the median over seeds of best found over the best of all runs of the task, after 25 / 50 / 100 evaluations."""
    marks = [mark for mark in MARKS if mark <= most] or [most]
    strategies = list(dict.fromkeys(one.strategy for one in results))
    least = best_of_all(results)
    rows = []
    all_of: dict[tuple[str, int], list[float]] = {}
    for task, best in least.items():
        cells = [task, f"{best:.5g}"]
        for strategy in strategies:
            curves = [one.curve for one in results if one.task == task and one.strategy == strategy]
            medians = {mark: statistics.median(best_at(curve, mark) for curve in curves) / best if curves else math.inf for mark in marks}
            for mark, ratio in medians.items():
                all_of.setdefault((strategy, mark), []).append(ratio)
            cells.append(" / ".join(f"{medians[mark]:.3f}" for mark in marks))
        rows.append(cells)
    means = [" / ".join(f"{mean_ratio(all_of[strategy, mark]):.3f}" for mark in marks) for strategy in strategies]
    rows.append([f"geometric mean of {len(least)}", "", *means])
    seeds = len({one.seed for one in results})
    note = f"Best found over the best of all runs, after {' / '.join(map(str, marks))} evaluations; median of {seeds} seeds."
    return note + "\n\n" + table(["task", "best, ms", *strategies], rows)


def warm_table(results: list[Result], most: int) -> str:
    """Evaluations until within 5 % of the best that any run of the task found: median over seeds; `most` + 1 where never."""
    kinds = [kind for kind in ("cold", "others", "same") if any(one.kind == kind for one in results)]
    least = best_of_all(results)
    rows = []
    all_of: dict[str, list[float]] = {}
    for task, best in least.items():
        cells = [task, f"{best:.5g}"]
        for kind in kinds:
            needed = [evaluations_to(one.curve, best / NEAR, most) for one in results if one.task == task and one.kind == kind]
            if not needed:
                cells.append("–")
                continue
            all_of.setdefault(kind, []).append(statistics.median(needed))
            cells.append(f"{statistics.median(needed):g} ({', '.join(map(str, needed))})")
        rows.append(cells)
    rows.append([f"geometric mean of {len(least)}", "", *(f"{mean_ratio(all_of[kind]):.1f}" for kind in kinds)])
    note = f"Evaluations until within 5 % of the best of all runs of the task ({most + 1}: never): median, and by seed."
    return note + "\n\n" + table(["task", "best, ms", *kinds], rows)
