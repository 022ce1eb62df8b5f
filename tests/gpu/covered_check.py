"""Attention whose mask covers whole rows with the least number of its type: what a search finds is proved on such data.

python tests/gpu/covered_check.py [--target cuda] [--only float32] [--out FOLDER]      exits 1 if a proof fails there, 3 without a GPU
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "python"), str(HERE / "tests" / "gpu")]

import torch  # noqa: E402
from searched import searched  # noqa: E402

TASK = """import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def forward(self, q, k, v, m):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m)

def get_inputs():
    q, k, v = (torch.randn(2, 8, n, 64, dtype=torch.TYPE) for n in (QUERIES, 512, 512))
    hidden = torch.rand(2, 1, QUERIES, 512) < 0.3
    return [q, k, v, torch.zeros(2, 1, QUERIES, 512, dtype=torch.TYPE).masked_fill(hidden, torch.finfo(torch.TYPE).min)]

def get_init_inputs():
    return []
"""
#: Attention of few queries, of many, and in fp32 on tensor cores.
KINDS = [("bfloat16", 1), ("float16", 8), ("bfloat16", 256), ("float32", 256)]


def proof(folder: Path, dtype: str, queries: int, target: str) -> str:
    """Why it is not proved on covered rows; empty where it is."""
    source = TASK.replace("TYPE", dtype).replace("QUERIES", str(queries))
    return searched(folder, source, "masks", f"{dtype}-{queries}", "--target", target, "--budget", "4s", "--baselines", "none")[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--only", default="", help="cases whose name holds this: 'float32'")
    parser.add_argument("--out", type=Path, help="a folder that keeps the tasks and what was tried")
    options = parser.parse_args()
    target = options.target
    if target == "cuda" and not torch.cuda.is_available():
        print("error: no CUDA device that torch can use", file=sys.stderr)
        return 3
    failed = 0
    with tempfile.TemporaryDirectory(prefix="planish-covered-") as scratch:
        folder = options.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for dtype, queries in KINDS:
            if options.only not in f"{dtype}, {queries} queries":
                continue
            why = proof(folder, dtype, queries, target)
            print(f"{'FAIL' if why else 'ok  '} {dtype}, {queries} queries{': ' if why else ''}{why}", flush=True)
            failed += bool(why)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
