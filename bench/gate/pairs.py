"""How far medians of equal modules differ between two processes that take turns on one GPU: `between_processes` (src/evaluate/gain.h) is its bound.

    python3 bench/gate/pairs.py --json ROWS [--seconds 35]

Each pair is two new processes; each turn is some calls timed by events with the L2 flushed, and the first of a round changes. A row has the median of
the rounds' ratios, which the bound must hold."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import sys, json, torch
from torch import nn
torch.manual_seed(0)
d = "cuda"
n = {
    "relu": lambda: (torch.relu, (torch.randn(1 << 20, device=d),)),
    "softmax": lambda: (lambda x: torch.softmax(x, -1), (torch.randn(4096, 2048, device=d),)),
    "perceptron": lambda: (nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024)).to(d), (torch.randn(512, 1024, device=d),)),
    "norm": lambda: (nn.LayerNorm(4096).to(d), (torch.randn(2048, 4096, device=d),)),
    "attention": lambda: (nn.functional.scaled_dot_product_attention, tuple(torch.randn(2, 8, 512, 64, device=d).bfloat16() for _ in range(3))),
}
modules = {k: v() for k, v in n.items()}
flush = torch.empty(256 << 20, dtype=torch.uint8, device=d)
with torch.no_grad():
    for f, a in modules.values():
        for _ in range(5): f(*a)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        name, count = line.split()
        f, a = modules[name]
        f(*a); found = []
        for _ in range(int(count)):
            for t in a: t.normal_()
            flush.zero_()
            s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            s.record(); f(*a); e.record(); e.synchronize()
            found.append(s.elapsed_time(e))
        print(json.dumps(sorted(found)[len(found) // 2]), flush=True)
"""
NAMES = ("relu", "softmax", "perceptron", "norm", "attention")


def start() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(child: subprocess.Popen[str], line: str) -> float:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
    found: float = json.loads(child.stdout.readline())
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=35)
    options = parser.parse_args()
    end, rows, rng = time.monotonic() + options.seconds, [], random.Random(1)
    children = [start() for _ in range(6)]  # fifteen pairs
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
    pairs = [(i, j) for i in range(6) for j in range(i)]
    rng.shuffle(pairs)
    for i, j in pairs:
        for name in NAMES:
            if time.monotonic() > end:
                break
            ratios = []
            for k in range(9):
                order = (i, j) if k % 2 else (j, i)
                ms = {c: ask(children[c], f"{name} 15") for c in order}
                ratios.append(ms[i] / ms[j])
            middle = statistics.median(ratios)
            rows.append({"module": name, "pair": [i, j], "ratio": middle, "apart": max(middle, 1 / middle) - 1, "ms": ms[i]})
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    apart = sorted(r["apart"] for r in rows)
    summary = {"pairs": len(rows), "largest": apart[-1], "95 %": apart[int(0.95 * (len(apart) - 1))], "median": apart[len(apart) // 2]}
    options.json.write_text(json.dumps({"schema": "planish.bench.pairs/1", "summary": summary, "rows": rows}))
    print(summary)


if __name__ == "__main__":
    main()
