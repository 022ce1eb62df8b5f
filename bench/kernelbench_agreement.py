"""Whether `planish suite --compat kernelbench` says of solutions what KernelBench's own harness says of them.

    python bench/kernelbench_agreement.py CHECKOUT [--json FILE]

CHECKOUT is one of github.com/ScalingIntelligence/KernelBench. Its `eval_kernel_against_ref` judges every solution of bench/kernelbench/tasks.py in a
process of its own, on the CPU: the harness asks for CUDA, so in that process the calls that name or wait for a GPU are answered by nothing, and tensors stay
where they are. Seeds, casts, tolerances and the order of things are the checkout's own code. What it raises counts as its batch script counts it. Exits 1
where a solution gets two verdicts (compiled, correct), 3 where the checkout is none.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "tests" / "gpu"), str(HERE / "bench" / "kernelbench"), str(HERE / "python")]

import kernelbench_harness  # noqa: E402
import torch  # noqa: E402
from planish.runner.kernelbench import imports  # noqa: E402
from tasks import SOLUTIONS, TASKS  # noqa: E402

TRIALS = 5
FROM_A_FILE = ("triton", "tilelang")


def without_cuda() -> None:
    """What the harness asks of CUDA, answered for the CPU."""
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.get_device_name = lambda device=None: "CPU"
    cuda.get_device_properties = lambda device=None: SimpleNamespace(name="NVIDIA", gcnArchName="")
    cuda.device = lambda device=None: contextlib.nullcontext()
    for name in ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed"):
        setattr(cuda, name, lambda *args, **kwargs: None)
    cuda.current_device = lambda: 0


def judged(harness: Any, source: str, text: str, pipe: Any) -> None:
    """In a process of its own: sends (compiled, correct, why)."""
    without_cuda()
    backend = next((name for name in FROM_A_FILE if name in imports(text)), "cuda")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = harness.eval_kernel_against_ref(
                source, text, num_correct_trials=TRIALS, device=torch.device("cpu"), backend=backend, build_dir=tempfile.mkdtemp()
            )
        # A lock file is no verdict of the harness: it asks to be run again.
        pipe.send((False, False, "none") if found is None else (bool(found.compiled), bool(found.correctness), str(found.metadata)))
    except Exception as error:  # as the batch script counts what escapes
        pipe.send((False, False, f"{type(error).__name__}: {error}"))


def by_the_harness(harness: Any, source: str, text: str) -> tuple[bool, bool, str]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=judged, args=(harness, source, text, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv()  # type: ignore[no-any-return]
    except EOFError:  # it took its process with it, and its time would run out
        return False, False, "the process ended"
    finally:
        process.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--planish", default=str(HERE / "build" / "bin" / "planish"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # processes are forked
    randn = torch.randn
    try:
        harness = kernelbench_harness.load(options.checkout)
    except (ImportError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    torch.randn = randn  # the checkout's helpers may replace it
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        tasks, run = Path(scratch) / "KernelBench" / "level1", Path(scratch) / "run"
        tasks.mkdir(parents=True)
        run.mkdir()
        for name, text in TASKS.items():
            (tasks / name).write_text(text)
        for name, solutions in SOLUTIONS.items():
            problem = name.split("_")[0]
            for sample, (what, text) in enumerate(solutions.items()):
                (run / f"level_1_problem_{problem}_sample_{sample}_kernel.py").write_text(text)
                rows.append({"problem": problem, "sample": sample, "task": name, "solution": what, "text": text})
        began = time.monotonic()
        command = [options.planish, "suite", str(tasks.parent), "--solutions", str(run), "--target", "cpu", "--compat", "kernelbench",
                   "--no-times", "--seeds", "2", "--out", str(Path(scratch) / "out"), "--json"]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        ours_seconds = time.monotonic() - began
        document = json.loads(done.stdout)
        written = json.loads((Path(scratch) / "out" / "kernelbench" / "runs" / "level1" / "eval_results.json").read_text())
    strict = {(row["task"].split("/")[-1] + ".py", row["sample"]): row for row in document["tasks"]}
    began = time.monotonic()
    for row in rows:
        answers = [a for a in written[row["problem"]] if a["sample_id"] == row["sample"]]
        row["ours"] = [answers[0]["compiled"], answers[0]["correctness"]] if answers else None
        compiled, correct, why = by_the_harness(harness, TASKS[row["task"]], row.pop("text"))
        row |= {"harness": [compiled, correct], "harness_says": why.splitlines()[0][:200] if why else ""}
        judged_by_us = strict[(row["task"], row["sample"])]
        row["planish"] = judged_by_us["verdict"] or judged_by_us["outcome"]
        row["agree"] = row["ours"] == row["harness"]
        print(f"{'ok      ' if row['agree'] else 'DIFFERS '} {row['task']:<20} {row['solution']:<44} harness {row['harness']}, "
              f"compat {row['ours']}, planish {row['planish']}", flush=True)  # fmt: skip
    agreed = sum(row["agree"] for row in rows)
    print(f"{agreed} of {len(rows)} agree; planish took {ours_seconds:.0f} s for both rules, the harness {time.monotonic() - began:.0f} s for its own")
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "agree": agreed, "solutions": len(rows), "rows": rows}, indent=1) + "\n")
    return 0 if agreed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
