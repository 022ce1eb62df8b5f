"""Seconds from an edit to its verdict: `planish try` on a served evaluator, each time with another text.

python bench/try_latency.py [--target cpu] [--edits 8] [--pause 6]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLANISH = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish-bin"
WIDTH, ROWS = 96, 64
TASK = f"""import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(torch.tanh(x) + x * x) * x

def get_inputs():
    return [torch.randn({ROWS}, {WIDTH})]
"""
CPP = f"""#include <cmath>
// edit EDIT
extern "C" void whole(void** args) {{
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(args[1]);
  for (int i = 0; i < {ROWS * WIDTH}; ++i) y[i] = x[i] / (1 + std::exp(-(std::tanh(x[i]) + x[i] * x[i]) - EDIT * 1e-30f));
}}
//@ launch whole args=in0, out0
"""
CUDA = f"""// edit EDIT
extern "C" __global__ void whole(const float* x, float* y) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < {ROWS * WIDTH}) y[i] = x[i] / (1 + expf(-(tanhf(x[i]) + x[i] * x[i]) - EDIT * 1e-30f));
}}
//@ launch whole grid={(ROWS * WIDTH + 255) // 256} block=256 args=in0, out0
"""
NEW = "# edit EDIT\n" + TASK.replace("class Model(", "class ModelNew(")
FUNCTION = "# edit EDIT\nimport torch\n\ndef forward(x):\n    return torch.sigmoid(torch.tanh(x) + x * x) * x\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--edits", type=int, default=8)
    parser.add_argument("--pause", type=float, default=6, help="seconds between a verdict and the next edit")
    options = parser.parse_args()
    kernel = ("kernel.cpp", CPP) if options.target == "cpu" else ("kernel.cu", CUDA)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "task.py").write_text(TASK)
        environment = os.environ | {"XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}
        server = subprocess.Popen([str(PLANISH), "serve", "--json"], cwd=home, env=environment, stdout=subprocess.PIPE)
        assert server.stdout is not None
        socket = Path(json.loads(server.stdout.readline())["socket"])
        while not socket.is_socket():
            time.sleep(0.01)
        try:
            print("| what was edited | first try, s | median of the next, s | least | most |\n|---|---|---|---|---|")
            for what, (name, text), flags in (
                ("kernels and launches, `--quick`", kernel, ["--quick"]),
                ("kernels and launches", kernel, []),
                ("`ModelNew`, `--quick`", ("new.py", NEW), ["--quick"]),
                ("`ModelNew`", ("new.py", NEW), []),
                ("a function, `--quick`", ("function.py", FUNCTION), ["--quick"]),
            ):
                seconds = []
                for edit in range(options.edits + 1):
                    (home / name).write_text(text.replace("EDIT", str(edit)))
                    began = time.perf_counter()
                    done = subprocess.run(
                        [str(PLANISH), "try", "task.py", name, "--target", options.target, "--json", *flags],
                        cwd=home,
                        env=environment,
                        capture_output=True,
                        text=True,
                    )
                    seconds.append(time.perf_counter() - began)
                    if done.returncode != 0:  # a busy machine may disturb a timing; the verdict came all the same
                        print(f"note: {name}, edit {edit}: {json.loads(done.stdout).get('outcome', done.stderr)}", file=sys.stderr)
                    time.sleep(options.pause)
                rest = seconds[1:]
                print(f"| {what} | {seconds[0]:.2f} | {statistics.median(rest):.2f} | {min(rest):.2f} | {max(rest):.2f} |", flush=True)
        finally:
            server.terminate()
            server.wait(60)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
