"""A shipped task whose kernel uses OpenMP as printed kernels do, for tests of what surrounds it: forks, threads, small stacks."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from programs import buffer, launch, program, user  # noqa: E402
from shipping import with_kernels  # noqa: E402

SIZE = 1 << 18  # elements: large enough for torch to use threads as well

TASK = f"""
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn({SIZE})]
"""
KERNEL = {
    "language": "cpp",
    "entry": "twice",
    "flags": [],
    "source": """#include <cstdint>
#include <omp.h>
extern "C" __attribute__((visibility("default"))) int team;
int team = 0;
extern "C" void twice(void** args) {
  auto* in = (const float*)args[0];
  auto* out = (float*)args[1];
  const auto n = *(const int64_t*)args[2];
  const int allowed = omp_get_max_threads();
#pragma omp parallel num_threads(allowed < 4 ? allowed : 4)
  {
    if (omp_get_thread_num() == 0) team = omp_get_num_threads();
#pragma omp for
    for (int64_t i = 0; i < n; ++i) out[i] = 2 * in[i];
  }
}
""",
}


def folder(where: Path, extension: bool = True, task: str = TASK, **more: Any) -> Path:
    """The shipped folder. Its kernel takes as many threads as it may, four at most."""
    document = program(
        [buffer("input", [SIZE], user(0)), buffer("output", [SIZE])],
        [launch(0, {"buffer": 0}, {"buffer": 1}, {"i64": SIZE})],
        [{"buffer": 1, "kind": "user"}],
        [KERNEL],
    )
    binary = where / "twice.so"
    (where / "twice.cpp").write_text(str(KERNEL["source"]))
    subprocess.run(["g++", "-O2", "-fopenmp", "-shared", "-fPIC", "-o", str(binary), str(where / "twice.cpp")], check=True)
    return with_kernels(where, task, document, [str(binary)], extension, **more)


def team(shipped: Path) -> int:
    """How many threads the kernel took when it last ran in this process."""
    return ctypes.c_int.in_dll(ctypes.CDLL(str(shipped / "kernels" / "k0.so")), "team").value
