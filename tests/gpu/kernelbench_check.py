"""KernelBench's own harness on what Planish ships: two small tasks are optimised, exported as one file, and put to the checkout's
`eval_kernel_against_ref`, correctness and timing.

    python tests/gpu/kernelbench_check.py CHECKOUT [--budget 15s] [--json FILE]

Exits 1 if the harness finds a file wrong or slower than it should be, 3 where something is missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "tests" / "gpu"), str(HERE / "python")]

import kernelbench_harness  # noqa: E402
import torch  # noqa: E402
from device_programs import root  # noqa: E402

#: One without parameters and one with: the harness times both in grad mode.
TASKS = ("swiglu_residual", "layer_norm_gelu_residual")
TRIALS = 5


def planish() -> str:
    return str(root() / "bin" / "planish")


def optimised(task: Path, folder: Path, budget: str) -> tuple[dict[str, Any], str]:
    """The result document, and the text of the single file."""
    common = {"check": False, "capture_output": True, "text": True}
    out = folder / "out"
    command = [planish(), "optimize", str(task), "--target", "cuda", "--budget", budget, "--baselines", "eager", "--out", str(out), "--json"]
    done = subprocess.run([*command, "--store", str(folder / "store.db")], **common)  # type: ignore[call-overload]
    if done.returncode not in (0, 1):
        raise SystemExit(f"error: planish optimize {task.name} failed\ncaused by: {done.stderr.strip()}")
    exported = subprocess.run([planish(), "export", str(out), "--form", "file", "--out", str(folder / "file.py")], **common)  # type: ignore[call-overload]
    if exported.returncode != 0:
        raise SystemExit(f"error: planish export failed\ncaused by: {exported.stderr.strip()}")
    return json.loads(done.stdout), (folder / "file.py").read_text()


def judged(harness: Any, source: str, text: str, **how: Any) -> Any:
    return harness.eval_kernel_against_ref(
        source, text, num_correct_trials=TRIALS, num_perf_trials=100, measure_performance=True, device=torch.device("cuda:0"), **how
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--budget", default="15s")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: no CUDA device that torch can use", file=sys.stderr)
        return 3
    try:
        harness = kernelbench_harness.load(options.checkout)
    except (ImportError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    rows, failed = [], 0
    for name in TASKS:
        task = HERE / "examples" / "small" / f"{name}.py"
        with tempfile.TemporaryDirectory() as scratch:
            result, text = optimised(task, Path(scratch), options.budget)
        source = task.read_text()
        for backend in ("cuda", "triton"):  # one execs the text, the other imports it from a temporary file
            found = judged(harness, source, text, backend=backend)
            good = found is not None and found.compiled and found.correctness
            row = {"task": name, "backend": backend, "form": result["form"], "correct": good, "metadata": str(getattr(found, "metadata", None))}
            if good:
                speedup = found.ref_runtime / found.runtime
                ours = result["times_ms"]["eager"]["median"] / result["times_ms"]["shipped"]["median"]
                # Its events are not ours: half of our own speed-up is asked for, which an original that ran instead would not reach.
                good = result["form"] != "program" or speedup > max(1.0, ours / 2)
                row |= {"ms": found.runtime, "reference_ms": found.ref_runtime, "speedup": speedup, "our_speedup_over_eager": ours}
            # The harness must be able to tell: a file that returns something else has to fail.
            wrong = text + "\n_right = ModelNew.__call__\nModelNew.__call__ = lambda self, *a, **k: _right(self, *a, **k) * 1.01 + 0.1\n"
            caught = judged(harness, source, wrong, backend=backend)
            row["catches_a_wrong_file"] = caught is not None and not caught.correctness
            good = good and row["catches_a_wrong_file"]
            failed += not good
            rows.append(row)
            print(f"{'ok  ' if good else 'FAIL'} {json.dumps(row)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, indent=1))
    print(f"{failed} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
