"""How many solutions a minute `planish suite --solutions` judges on the CPU, and where their seconds go.

    bench/solutions_rate.py [--samples 8] [--workers 1] [--ray ADDRESS] [--no-times] [--out FILE.json]

Every task of SET is answered by so many right solutions, each the task itself under the name ModelNew with a line of its own in front.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Small: what is measured is what judging costs, not the tasks.
SET = ["small/squared_relu_gate", "small/timestep_embedding"]


def launcher() -> Path:
    return Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish"


def write(folder: Path, samples: int) -> None:
    tasks, run = folder / "level1", folder / "run"
    tasks.mkdir()
    run.mkdir()
    for number, name in enumerate(SET, 1):
        text = (ROOT / "examples" / f"{name}.py").read_text()
        (tasks / f"{number}_{Path(name).name}.py").write_text(text)
        answer = text.replace("class Model(", "class ModelNew(").replace("super(Model,", "super(ModelNew,")
        for sample in range(samples):
            (run / f"level_1_problem_{number}_sample_{sample}_kernel.py").write_text(f"SAMPLE = {sample}\n{answer}")


def judge(folder: Path, workers: int, more: list[str]) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    command = [str(launcher()), "suite", str(folder / "level1"), "--solutions", str(folder / "run"), "--target", "cpu", "--baselines", "none",
               "--workers", str(workers), "--out", str(folder / "out"), "--json", "--quiet", *more]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout), time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--ray", help="address of a cluster whose workers judge")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), arguments.samples)
        more = [*(["--ray", arguments.ray] if arguments.ray else []), *(["--no-times"] if arguments.no_times else [])]
        document, seconds = judge(Path(name), arguments.workers, more)
    rows = document["tasks"]
    phases: dict[str, float] = {}
    for row in rows:
        for phase, spent in row.get("seconds_in", {}).items():
            phases[phase] = phases.get(phase, 0) + spent
    result = {
        "solutions": len(rows),
        "verified": sum(row["outcome"] == "verified" for row in rows),
        "workers": arguments.workers,
        "seconds": round(seconds, 1),
        "a_minute": round(60 * len(rows) / seconds, 1),
        "seconds_each": {phase: round(spent / len(rows), 2) for phase, spent in sorted(phases.items())},
    }
    print(json.dumps(result))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
