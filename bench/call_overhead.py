"""What one call costs the host: eager, and a shipped module in each form, in µs.

    bench/call_overhead.py                 a one-kernel ReLU for the CPU, made here (needs g++ and a build)
    bench/call_overhead.py SHIPPED_FOLDER  what `planish optimize --out` wrote, on its device

Blocks of calls are interleaved; the figure is the fastest block of each. On a GPU calls are queued, so small tasks show the cost of submitting.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
for folder in ("python", "tests/python/ship", "tests/python/executor"):
    sys.path.insert(0, str(ROOT / folder))

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
    from programs import buffer, build, kernel, launch, program, user
    from shipping import with_kernels

    folder.mkdir()
    relu = kernel("relu", "auto* x = (const float*)args[0]; auto* y = (float*)args[1]; for (int i = 0; i < 64; ++i) y[i] = x[i] < 0 ? 0 : x[i];")
    steps, outputs = [launch(0, {"buffer": 0}, {"buffer": 1})], [{"buffer": 1, "kind": "user"}]
    document = program([buffer("input", [8, 8], user(0)), buffer("output", [8, 8])], steps, outputs, [relu])
    return with_kernels(folder, RELU, document, build([relu], folder))


def blocks(forms: dict[str, Callable[[], Any]], device: str, calls: int, rounds: int) -> dict[str, float]:
    best = dict.fromkeys(forms, float("inf"))
    for _ in range(rounds):
        for name, form in forms.items():
            start = time.perf_counter()
            for _ in range(calls):
                form()
            best[name] = min(best[name], (time.perf_counter() - start) / calls * 1e6)
            if device == "cuda":
                torch.cuda.synchronize()
    return best


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shipped", nargs="?", type=Path)
    parser.add_argument("--calls", type=int, default=2000, help="calls a block")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    planish = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish"
    with tempfile.TemporaryDirectory() as scratch:
        shipped = options.shipped or one_kernel(Path(scratch) / "made")
        shipped = shipped / "shipped" if (shipped / "shipped" / "ship.json").exists() else shipped
        text = Path(scratch) / "module_in_a_file.py"
        subprocess.run([planish, "export", shipped, "--form", "file", "--out", text], check=True, stdout=subprocess.DEVNULL)
        plain = Path(scratch) / "without_extension"
        shutil.copytree(shipped, plain)
        (plain / "planish_call.so").unlink(missing_ok=True)
        device = json.loads((shipped / "program.json").read_text())["target"]
        from planish.ship import load

        space: dict[str, Any] = {}
        exec(text.read_text(), space)
        models = {"shipped folder": load(shipped), "shipped file": space["load"](), "shipped folder, checks in Python": load(plain)}
        models = {"eager": space["Model"](*space["get_init_inputs"]()), **models}
        inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in space["get_inputs"]()]
        forms: dict[str, Callable[[], Any]] = {}
        for name, model in models.items():
            model.to(device)
            model(*inputs)
            forms[name] = lambda model=model: model(*inputs)
        for name in ("shipped folder", "shipped file"):
            assert models[name]._planish.fast is not None, f"{name}: {models[name]._planish.why or models[name]._planish.reason or 'not direct'}"
        costs = blocks(forms, device, options.calls, options.rounds)
    if options.json:
        print(json.dumps({"device": device, "us": costs}))
        return
    for name, cost in costs.items():
        print(f"{name:<36}{cost:8.2f} us  {cost / costs['eager']:5.2f}x eager")


if __name__ == "__main__":
    main()
