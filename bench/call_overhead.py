"""What one call costs: eager, torch.compile's modes, and a shipped module in each form. Microseconds.

    bench/call_overhead.py                 a one-kernel ReLU for the CPU, made here (needs a checkout, g++ and a build)
    bench/call_overhead.py SHIPPED_FOLDER  what `planish optimize --out` wrote, on its device; in a checkout or a dist folder

`host_us` is the time until a call returns, its work not waited for: blocks of calls are interleaved, the queue is emptied between
them, and the median block (and the fastest) is given. `event_us` (CUDA) is the median time between two events around a call, with
nothing of its data in L2, as public harnesses measure. `parts` says what a call of the shipped folder spends where.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from planish.errors import PlanishError  # noqa: E402
from planish.runner.timing import Stopwatch  # noqa: E402
from planish.ship import load  # noqa: E402
from planish.ship.guards import COMPILE_OPTIONS  # noqa: E402

Form = Callable[[], Any]
_QUEUE = 600  # kernels that CUDA takes without making the caller wait
_EVENTS = 20  # timed calls of a form in turn

RELU = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(8, 8)]
"""


def one_kernel(folder: Path) -> Path:
    """A shipped ReLU over 64 numbers: next to no work, so that the call itself is what is measured."""
    for tests in ("tests/python/ship", "tests/python/executor"):
        sys.path.insert(0, str(ROOT / tests))
    try:
        from programs import buffer, build, kernel, launch, program, user
        from shipping import with_kernels
    except ImportError:
        sys.exit(f"error: {ROOT} has no tests to make a module with\nhint: give the folder that `planish optimize --out` wrote")

    folder.mkdir()
    relu = kernel("relu", "auto* x = (const float*)args[0]; auto* y = (float*)args[1]; for (int i = 0; i < 64; ++i) y[i] = x[i] < 0 ? 0 : x[i];")
    steps, outputs = [launch(0, {"buffer": 0}, {"buffer": 1})], [{"buffer": 1, "kind": "user"}]
    document = program([buffer("input", [8, 8], user(0)), buffer("output", [8, 8])], steps, outputs, [relu])
    return with_kernels(folder, RELU, document, build([relu], folder))


def launcher() -> Path:
    """`planish` of a dist folder, of PLANISH_BUILD, or of the checkout's build."""
    roots = [Path(os.environ[name]) for name in ("PLANISH_ROOT", "PLANISH_BUILD") if os.environ.get(name)]
    for root in (*roots, ROOT, ROOT / "build"):
        if (root / "bin" / "planish").exists():
            return root / "bin" / "planish"
    sys.exit("error: there is no bin/planish to export the single file with\nhint: `make build`, or set PLANISH_BUILD")


def settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def cpu_calls(form: Form) -> int:
    """As many as make a block of some twenty milliseconds."""
    start = time.perf_counter()
    for _ in range(3):
        form()
    return min(2000, max(3, int(0.06 / (time.perf_counter() - start))))


def host_times(forms: dict[str, Form], device: str, calls: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds a call, one figure a block."""
    found: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, form in forms.items():
            form()  # caches are as another form left them
            form()
            settle(device)
            start = time.perf_counter()
            for _ in range(calls):
                form()
            found[name].append((time.perf_counter() - start) / calls * 1e6)
            settle(device)
    return found


def event_times(forms: dict[str, Form], device: str, rounds: int) -> dict[str, list[float]]:
    """Microseconds between events around single calls, none on the CPU."""
    found: dict[str, list[float]] = {name: [] for name in forms}
    if device == "cuda":
        watch = Stopwatch(torch.device("cuda", torch.cuda.current_device()))
        for _ in range(rounds):
            for name, form in forms.items():
                form()
                found[name] += [ms * 1e3 for ms in watch.samples(lambda k, form=form: form(), _EVENTS)]
    return found


def parts(model: Any, inputs: list[Any], device: str) -> dict[str, Form]:
    """Pieces of a shipped call, to be timed like the whole."""
    attachment, bound = model._planish, model._planish._bound
    executor = bound.executor
    found: dict[str, Form] = {"the call without nn.Module's side of it": lambda: attachment.fast(model, inputs, {})}
    direct = executor.direct()
    allocate = direct["allocate"]
    shapes = [(shape, strides, dtype) for _, shape, strides, dtype in direct["fresh"]]
    if direct["arena"][0]:
        shapes.append(((direct["arena"][0],), (1,), torch.uint8))
    found["allocating outputs and workspace"] = lambda: [allocate(*one) for one in shapes]
    # The launches alone, on memory that stays: what is left is mostly the driver's.
    call = executor._new_call()
    keep = [allocate(*one) for one in shapes]
    params = [store[key] for _, store, key, *_ in bound.params]
    position = {p: inputs[index] for p, index, *_ in bound.users} | {p: t for (p, *_), t in zip(bound.params, params, strict=True)}
    for p, b, used in executor._bound:
        if used:
            call.table[b] = position[p].data_ptr()
    for (b, *_), tensor in zip(direct["fresh"], keep, strict=False):
        call.table[b] = tensor.data_ptr()
    for b, offset in direct["arena"][2]:
        call.table[b] = keep[-1].data_ptr() + offset
    if device == "cuda":
        import ctypes

        call.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    action = executor._actions[0]
    found["launching (through ctypes)"] = lambda keep=keep: action((), call.table, call)  # the table's memory lives as long
    found["an empty call"] = lambda: None
    return found


def make_forms(shipped: Path, scratch: Path, device: str, compiled: bool) -> tuple[dict[str, Any], list[Any], dict[str, str]]:
    """Modules by name, their inputs, and why some are missing."""
    text, plain = scratch / "module_in_a_file.py", scratch / "without_extension"
    shutil.copytree(shipped, plain)
    (plain / "planish_call.so").unlink(missing_ok=True)
    space: dict[str, Any] = {}
    missing: dict[str, str] = {}
    models: dict[str, Any] = {"shipped folder": load(shipped), "shipped folder, checks in Python": load(plain)}
    exporting = subprocess.run([launcher(), "export", shipped, "--form", "file", "--out", text], capture_output=True, text=True)
    reference: Any = sys.modules[type(models["shipped folder"]).__module__]
    if exporting.returncode == 0:
        exec(text.read_text(), space)
        models["shipped file"] = space["load"]()
    else:
        missing["shipped file"] = exporting.stderr.strip().splitlines()[0]
    eager = reference.Model(*reference.get_init_inputs())
    eager.load_state_dict(models["shipped folder"].state_dict())
    models = {"eager": eager, **models}
    inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in reference.get_inputs()]
    for name in ("compile", "max_autotune_no_cudagraphs") if compiled else ():
        models[name] = torch.compile(copy.deepcopy(eager).to(device), **COMPILE_OPTIONS[name])
    for name, model in list(models.items()):
        try:
            for _ in range(4):
                model.to(device)(*inputs)
            settle(device)
        except Exception as error:
            if not name.startswith(("compile", "max")):
                raise
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            del models[name]
    return models, inputs, missing


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shipped", nargs="?", type=Path)
    parser.add_argument("--calls", type=int, default=0, help="calls a block (default: 20 ms of them; on a GPU as many as it queues)")
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each form")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes most of the time")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="a file for the JSON document; written as soon as there is something to write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        shipped = (options.shipped or one_kernel(Path(scratch) / "made")).resolve()
        shipped = shipped / "shipped" if (shipped / "shipped" / "ship.json").exists() else shipped
        try:
            manifest = json.loads((shipped / "ship.json").read_text())
        except OSError:
            sys.exit(f"error: {shipped}: no shipped folder (it has no ship.json)\nhint: give the folder that `planish optimize --out` wrote")
        if manifest["mode"] != "program":
            sys.exit(f"error: {shipped} ships a baseline ({manifest['baseline']}), whose calls are torch's own")
        program = json.loads((shipped / "program.json").read_text())
        device = program["target"]
        try:
            models, inputs, missing = make_forms(shipped, Path(scratch), device, not options.no_compile)
        except PlanishError as error:
            sys.exit(f"error: {error}")
        direct = [name for name in ("shipped folder", "shipped file") if name in models and models[name]._planish.fast is not None]
        for name in ("shipped folder", "shipped file"):
            if name in models and name not in direct:
                missing[f"{name}, in C"] = models[name]._planish.why or models[name]._planish.reason or "the call is not of the C form's kind"
        forms: dict[str, Form] = {name: (lambda model=model: model(*inputs)) for name, model in models.items()}
        pieces = parts(models["shipped folder"], tuple(inputs), device) if "shipped folder" in direct else {}
        # Eager launches a kernel an operator, of which a graph has rarely more than thirty.
        calls = options.calls or (_QUEUE // 30 if device == "cuda" else cpu_calls(forms["eager"]))
        host = host_times(forms | pieces, device, calls, options.rounds)
        if options.out:  # what is known is kept, should the rest be cut off
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps({"unfinished": {n: statistics.median(us) for n, us in host.items()}}) + "\n")
        event = event_times(forms, device, max(1, options.rounds // 3))
        submission = models["shipped folder"]._planish._bound.executor.submission() if direct else {}
        figures = {
            name: {
                "host_us": statistics.median(host[name]),
                "host_us_fastest": min(host[name]),
                **({"event_us": statistics.median(event[name])} if event.get(name) else {}),
            }
            for name in host
        }
    steps = len(program["steps"])
    about = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "task": manifest.get("task", {}).get("name", ""),
        "steps": steps,
        "calls": calls,
        "rounds": options.rounds,
        "in_c": direct,
        "submission": submission,
        "missing": missing,
    }
    document = json.dumps(about | {"forms": {n: figures[n] for n in forms}, "parts": {n: figures[n] for n in pieces}}, indent=1)
    if options.out:
        options.out.write_text(document + "\n")
    if options.json:
        print(document)
        return
    print(f"{about['task']} on {about['device']}, {steps} steps, torch {torch.__version__}")
    for name, figure in figures.items():
        ratio = "" if name in pieces else f"  {figure['host_us'] / figures['eager']['host_us']:5.2f}x eager"
        between = f"  {figure['event_us']:8.2f} us between events" if "event_us" in figure else ""
        print(f"{'  ' * (name in pieces)}{name:<42}{figure['host_us']:8.2f} us{ratio}{between}")
    if submission:
        print("submission: " + ", ".join(f"{name} {value if isinstance(value, str) else round(value, 2)}" for name, value in submission.items()))
    for name, why in missing.items():
        print(f"{name}: {why}")


if __name__ == "__main__":
    main()
