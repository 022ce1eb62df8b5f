"""`planish try` on a GPU: CUDA and Triton with launch directives, a plain file of Triton, and a `ModelNew`, right and wrong.

python tests/gpu/try_check.py      exits 1 if a verdict is not as it must be, 3 without a GPU
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "python"), str(HERE / "tests" / "gpu")]

import torch  # noqa: E402
from device_programs import root  # noqa: E402

PLANISH = root() / "bin" / "planish-bin"
N = 1 << 20
TASK = f"""import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))
    def forward(self, x):
        return torch.relu(x) * self.scale

def get_inputs():
    return [torch.randn({N // 1024}, 1024)]

def get_init_inputs():
    return [1024]
"""
CUDA = f"""extern "C" __global__ void f(const float* x, const float* scale, float* y) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = (x[i] < 0.0f ? 0.0f : x[i]) * scale[i % 1024] * FACTOR;  // NaN stays, as PyTorch has it
}}
//@ launch f grid={N // 256} block=256 args=X, SCALE, out0
"""
KERNEL = """import triton
import triton.language as tl

@triton.jit
def f(x, scale, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, tl.where(v < 0.0, 0.0, v) * tl.load(scale + i % 1024) * FACTOR)
"""
PLAIN = f"import torch\n{KERNEL}\ndef forward(x, scale):\n    y = torch.empty_like(x)\n    f[({N // 1024},)](x, scale, y, BLOCK=1024)\n    return y\n"
NEW = TASK.replace("class Model(", "class ModelNew(").replace("self.scale\n", "self.scale * FACTOR\n")


@contextmanager
def served(home: Path) -> Iterator[None]:
    """One evaluator for all commands started in this folder: each would start its own, which takes longer than the rest. Ended in every case."""
    server = subprocess.Popen([str(PLANISH), "serve", "--idle", "10m", "--json"], cwd=home, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        socket = Path(json.loads(server.stdout.readline())["socket"])
        end = time.monotonic() + 60
        while not socket.is_socket() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        yield
    finally:
        server.terminate()
        try:
            server.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()


def main() -> int:
    if not torch.cuda.is_available():
        print("no GPU")
        return 3
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "task.py").write_text(TASK)

        def tried(*arguments: str) -> dict[str, Any]:
            command = [str(PLANISH), "try", "task.py", *arguments, "--target", "cuda", "--json"]
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=600)
            document: dict[str, Any] = json.loads(done.stdout)
            return document

        with served(home):
            lines = tried()["regions"][0]["description"].splitlines()
            (scale,) = [line.split(":")[0] for line in lines if line.startswith("in") and "f32[1024]" in line]
            x = "in1" if scale == "in0" else "in0"
            cuda = CUDA.replace("X,", f"{x},").replace("SCALE", scale)
            files = {"kernel.cu": cuda, "new.py": NEW}
            if importlib.util.find_spec("triton") is not None:
                files["plain.py"] = PLAIN
            for name, text in files.items():
                for factor, outcome in (("1.0", "ok"), ("1.01", "wrong")):
                    value = factor + ("f" if name.endswith(".cu") else "")
                    (home / name).write_text(text.replace("FACTOR", value))
                    said = tried(name)
                    good = said.get("outcome") == outcome and (outcome != "ok" or said["speedup"] > 0)
                    failed += not good
                    print(
                        f"{'ok  ' if good else 'FAIL'} {name} times {factor}: {said.get('outcome', said)} {said.get('median_ms')} ms, {said.get('speedup')}x",
                        flush=True,
                    )
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
