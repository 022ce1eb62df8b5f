"""Every operator of PyTorch's own list, with its own samples, through capture, oracle, planner and executor.

    python -m tests.operators                          # all, a quarter of an hour on one core
    python -m tests.operators --samples 1 --dtypes 1   # a few minutes
    python -m tests.operators --only linalg.solve,topk --verbose

Each is taken, or refused with a kind, an operator and a hint. Exit code 1 where one is not.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.random_graphs.driver import warm_up
from tests.random_graphs.parts import Tool

from .judge import Outcome, judge
from .samples import operators, samples_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.operators", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3, help="of each operator and type")
    parser.add_argument("--dtypes", type=int, default=2, help="types of each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="operators, separated by commas")
    parser.add_argument("--out", default="", help="a file for one JSON line a sample")
    parser.add_argument("--verbose", action="store_true", help="print every outcome, not only faults")
    given = parser.parse_args()
    warm_up()
    tool, began = Tool(), time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    faults: dict[str, Outcome] = {}
    out = open(given.out, "w") if given.out else None  # noqa: SIM115
    with tempfile.TemporaryDirectory() as blobs:
        for name in given.only.split(",") if given.only else operators():
            for sample in samples_of(name, given.samples, given.dtypes, given.seed):
                outcome = judge(sample.task(), tool, Path(blobs))
                counts[outcome.kind] += 1
                if not outcome.fine:
                    faults[sample.key] = outcome
                if given.verbose or not outcome.fine:
                    print(f"{sample.key}: {outcome.kind} ({outcome.where}): {outcome.message}", flush=True)
                if out:
                    out.write(json.dumps({"key": sample.key, **vars(outcome)}) + "\n")
                    out.flush()
    tool.close()
    print(f"{sum(counts.values())} samples in {time.monotonic() - began:.0f} s: " + ", ".join(f"{kind} {n}" for kind, n in counts.most_common()))
    print(f"{len(faults)} neither taken nor refused with a kind and a hint")
    return 1 if faults else 0


sys.exit(main())
