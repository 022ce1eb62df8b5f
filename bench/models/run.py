"""Whole models as their libraries call them through `planish.optimize`, beside PyTorch's own forms of them, on a GPU:

    python3 bench/models/run.py --only sdxl-unet,bert-large --budget 20s --max-time 300s [--baselines eager,compile] [--torch eager,graph] --rows FILE

One process a model. A row of JSON says what `planish.optimize` made of it (outcome, its own times and errors, seconds) and what a caller sees
afterwards: milliseconds of calls in a row of the module with its program, of the same module without one (eager), of eager as a CUDA graph, and of
torch.compile's modes, in turn (the median of seven batches); and whether the calls ran the program.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "bench"), str(ROOT / "python")]

from each import options_with, run_each  # noqa: E402
from first_guess import host_us, read_rate, times_in_turn  # noqa: E402
from forms import forms_of, rewound  # noqa: E402
from subjects import STEPS, SUBJECTS  # noqa: E402


def row_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    import planish

    start = time.monotonic()
    row: dict[str, Any] = {"model": name, "torch": torch.__version__, "budget": options.budget}
    torch.manual_seed(0)
    subject = SUBJECTS[name](options.device)
    module, (args, kwargs) = subject.module, subject.call
    row["parameters"] = sum(p.numel() for p in module.parameters())
    row["made_s"] = round(time.monotonic() - start, 1)
    baselines = "none" if options.baselines == "none" else tuple(options.baselines.split(","))
    twin = copy.copy(module)  # the same parameters, and no program
    begin = time.monotonic()
    found = planish.optimize(
        module, subject.call, budget=options.budget, max_time=options.max_time, baselines=baselines, out=options.out and f"{options.out}/{name}", progress=True
    )
    result = found.result
    row |= {"outcome": result["outcome"], "timed": found.timed, "improved": found.improved, "speedups": found.speedups, "reason": found.reason}
    row |= {
        "optimize_s": round(time.monotonic() - begin, 1),
        "times_ms": result.get("times_ms"),
        "accuracy": result.get("accuracy"),
        "seconds": result.get("seconds"),
        "launches": (result.get("why") or {}).get("after", {}).get("launches"),
    }
    regions = result.get("regions") or []
    faster = [r for r in regions if r.get("best_ms") and (not r.get("fallback_ms") or r["best_ms"] < r["fallback_ms"])]
    row |= {"regions": len(regions), "regions_tried": sum(bool(r.get("tried")) for r in regions), "regions_faster": len(faster)}
    if options.device == "cpu":
        return row
    row["device"] = torch.cuda.get_device_name()
    forms, row["without"] = forms_of(twin, args, kwargs, [form for form in options.torch.split(",") if form])
    if found.improved:
        forms = {"planish": lambda: module(*args, **kwargs)} | forms
    forms = {form: rewound(call, subject.rewind, STEPS // 8) for form, call in forms.items()}
    row["ms"] = {form: round(ms, 4) for form, ms in times_in_turn(forms).items()}
    row["host_us"] = {form: host_us(call) for form, call in forms.items() if form in ("planish", "eager")}
    row["ran"] = str(planish.status(module)) if found.improved else ""
    if subject.streamed:
        rate = read_rate()
        row |= {"streamed": subject.streamed, "read_rate": round(rate / 1e12, 3), "floor_ms": round(subject.streamed / rate * 1e3, 4)}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--max-time", default="300s")
    parser.add_argument("--baselines", default="none")
    parser.add_argument("--out", type=Path, help="a folder that keeps what ships")
    parser.add_argument("--rows", type=Path, required=True)
    run_each(options_with(parser), row_of)


if __name__ == "__main__":
    main()
