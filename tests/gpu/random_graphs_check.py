"""Random modules on this GPU: captured, emitted as CUDA with random genomes, run and judged like a candidate (tests/random_graphs).

About a minute. A failing case prints its key; `python -m tests.random_graphs --target cuda --only KEY` shrinks it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE), str(HERE / "python")]
_library = Path(os.environ.get("PLANISH_ROOT", HERE / "build")) / "lib" / "libplanish_rt.so"
if _library.exists():
    os.environ.setdefault("PLANISH_RT", str(_library))


def main() -> int:
    from tests.random_graphs.__main__ import main as run

    # Each child imports torch and makes a context (seconds): few children with many cases each. The seed is the day's, so that the
    # machines see ever more cases; the key in a failure names the case whatever the day.
    seed = os.environ.get("PLANISH_RANDOM_SEED") or time.strftime("%Y%m%d")
    return run(["--target", "cuda", "--cases", "80", "--batch", "20", "--jobs", "4", "--seconds", "40", "--no-shrink", "--seed", seed])


if __name__ == "__main__":
    sys.exit(main())
