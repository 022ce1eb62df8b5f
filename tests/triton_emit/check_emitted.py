"""Runs what planish-emit-dump --triton printed under Triton's interpreter and compares with torch: no worse than twice its own fp32 error.

planish-emit-dump --small --triton --random 4 > dump.json
TRITON_INTERPRET=1 python tests/triton_emit/check_emitted.py dump.json [--family softmax] [--variants 3]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu"))
sys.path.insert(0, str(HERE))

import interpreter  # noqa: E402
from emit_references import DTYPES, compare, make_inputs, reference  # noqa: E402

MOST_PROGRAMS = 64


def most_points(kernel: dict[str, Any]) -> int:
    return max(math.prod(t["shape"]) for t in kernel["inputs"] + kernel["outputs"])


def check(kernel: dict[str, Any], folder: Path, most: int, points: int) -> tuple[int, list[str]]:
    """How many variants ran, and what is wrong with them."""
    variants = [v for v in kernel["variants"] if v["grid"][0] <= MOST_PROGRAMS]
    chosen = ([v for v in variants if v["seed"]][:1] + [v for v in variants if not v["seed"]])[:most]
    if most_points(kernel) > points:
        return 0, []
    inputs = make_inputs(kernel, "cpu")
    exact, plain = reference(kernel, inputs, torch.float64), reference(kernel, inputs, torch.float32)
    wrong = [v["error"] for v in kernel["variants"] if "error" in v]
    for variant in chosen:
        function = interpreter.load(variant["source"], variant["entry"], folder)
        held = [interpreter.Guarded(t) for t in inputs]
        outputs = []
        for declared in kernel["outputs"]:
            dtype = DTYPES[declared["dtype"]]
            poison = float("nan") if dtype.is_floating_point else 77 if dtype != torch.bool else True
            outputs.append(interpreter.Guarded(torch.full(declared["shape"], poison, dtype=dtype)))
        problem = ""
        try:
            interpreter.run(function, variant["grid"], held + outputs)
        except Exception as error:  # whatever the kernel raises is its failure
            problem = f"{type(error).__name__}: {error}"
        if not problem and not all(t.intact() for t in outputs):
            problem = "wrote beside an output"
        problem = problem or compare(kernel, [t.tensor for t in outputs], exact, plain)
        if problem:
            wrong.append(f"[{variant['genome']}] {problem}\n{variant['source']}")
    return len(chosen), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    parser.add_argument("--family", default="")
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--points", type=int, default=1 << 30, help="leave out kernels with a larger tensor")
    options = parser.parse_args()
    torch.set_num_threads(1)
    interpreter.prepare()
    runs = failures = kernels = 0
    with tempfile.TemporaryDirectory() as folder:
        for kernel in json.loads(Path(options.dump).read_text())["kernels"]:
            if options.family and kernel["family"] != options.family:
                continue
            done, wrong = check(kernel, Path(folder), options.variants, options.points)
            runs += done
            kernels += done > 0
            failures += len(wrong)
            for one in wrong:
                print(f"FAIL {kernel['family']} {kernel['parameters']} {one}", flush=True)
    print(f"{kernels} kernels, {runs} runs, {failures} failures")
    return 1 if failures or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
