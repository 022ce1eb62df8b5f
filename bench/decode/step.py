"""One token of a language model as a program, beside torch's forms of it, on a GPU:

    python3 bench/decode/step.py [--layers 32] [--places 2048] [--torch eager,graph,compile,reduce_overhead,max_autotune] [--profile FILE] > row.jsonl

The task is examples/models/llama_step.py with random weights. The program is its graph cut once, with the first guess of every
kernel's schedule and no search. A row of JSON: milliseconds of calls in a row (the median of batches that take turns), the host's
part of a call, launches, the bytes of weights and caches, what they take at the rate at which this card reads, and errors against
float64 where that fits (--exact). `--profile` writes when each launch of a call began and ended.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

from first_guess import executor_of, profile, program_of, read_rate, relative, times_in_turn, torch_forms  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, size in {"layers": 32, "places": 2048, "batch": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--torch", default="eager,graph")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder that the program and its cubins go to")
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    from planish.capture import load_task

    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = Path(name)
        task_file = folder / "task.py"
        sizes = [f"--{one}={getattr(options, one)}" for one in ("layers", "places", "batch")]
        task_file.write_bytes(subprocess.run([sys.executable, str(ROOT / "examples/models/llama_step.py"), *sizes], check=True, capture_output=True).stdout)
        torch.manual_seed(0)
        with torch.device("cuda"):
            task = load_task(task_file)
            model = task.model.cuda().eval()
        call = task.make_inputs(0, "cuda")
        args = call[0]
        program, cubins, blobs = program_of(task_file, model, call, folder)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / "program.json").write_text(json.dumps(program))
            for number, cubin in enumerate(cubins):
                shutil.copy(cubin, options.keep / f"{number}.cubin")
        executor, given = executor_of(program, cubins, blobs, model, args)
        ours = executor.run(given)[0].clone()
        row: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "layers": options.layers, "places": options.places}
        kinds = [step["kind"] for step in program["steps"]]
        row |= {"batch": options.batch, "launches": kinds.count("launch"), "aten": kinds.count("aten")}
        row["eager_difference"] = relative(ours, model(*args).double())
        if options.exact:
            row["error"], row["eager_error"] = errors(model, args, ours)
        forms = {"planish": lambda: executor.run(given)} | torch_forms(model, args, [n for n in options.torch.split(",") if n])
        row["ms"] = {form: round(ms, 4) for form, ms in times_in_turn(forms).items()}
        begin = time.perf_counter()
        for _ in range(20):
            executor.run(given)
        row["submission"] = executor.submission()
        row["host_us"] = round((time.perf_counter() - begin) / 20 * 1e6, 1)
        torch.cuda.synchronize()
        if options.profile:
            profile(forms["planish"], options.profile)
        tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        bytes_read = sum(t.numel() * t.element_size() for n, t in tensors.items() if n != "embedding.weight")
        rate = read_rate()
        row |= {"bytes": bytes_read, "read_rate": round(rate / 1e12, 3), "floor_ms": round(bytes_read / rate * 1e3, 4)}
        row["of_floor"] = round(row["floor_ms"] / row["ms"]["planish"], 4)
        print(json.dumps(row), flush=True)


def errors(model: nn.Module, args: tuple[Any, ...], ours: torch.Tensor) -> tuple[float, float]:
    """Ours and eager's, of the largest logit."""
    eager = model(*args)
    exact = model.double()(*args)
    model.bfloat16()
    return relative(ours, exact), relative(eager, exact)


if __name__ == "__main__":
    main()
