"""Measures the tables that score.cpp reads: optimises small CPU tasks into a store of their own. `python bench/cost_model/record.py PLANISH FOLDER [EVALS]`.

The tasks are of a few megabytes each, so that a run takes about a minute on two cores; between them they have both anchors, long and short rows, and a
transposed access. `score` (ninja planish-cost-model-score) then says how well the cost model ranks genomes that it has not seen, and tasks that it has not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TASKS = {
    "softmax": ("torch.softmax(x, dim=-1)", "512, 2048"),
    "softmax_short": ("torch.softmax(x, dim=-1)", "16384, 60"),
    "layer_norm": ("torch.nn.functional.layer_norm(x, x.shape[-1:])", "256, 4096"),
    "rms_norm": ("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "2048, 500"),
    "logsumexp": ("torch.logsumexp(x, dim=-1)", "96, 8192"),
    "gelu_residual": ("torch.nn.functional.gelu(x + 0.5) + x", "512, 2048"),
    "transpose_scale": ("(x.t() * 0.5).contiguous()", "1024, 1000"),
    "mish_blend": ("0.3 * torch.nn.functional.mish(x) + 0.7 * x", "700, 1000"),
}

SOURCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
"""


def main() -> None:
    planish, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    evaluations = sys.argv[3] if len(sys.argv) > 3 else "60"
    folder.mkdir(parents=True, exist_ok=True)
    only = os.environ.get("TASKS", "").split()
    for seed, (name, (body, shape)) in enumerate(TASKS.items()):
        if only and name not in only:
            continue
        task = folder / f"{name}.py"
        task.write_text(SOURCE.format(body=body, shape=shape))
        flags = ["--target", "cpu", "--evals", evaluations, "--budget", "120s", "--baselines", "none", "--seed", str(seed)]
        command = [str(planish), "optimize", str(task), *flags, "--store", str(folder / "store.db"), "--out", str(folder / "out" / name), "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(name, "exit", done.returncode, done.stderr.strip()[-200:], flush=True)


if __name__ == "__main__":
    main()
