"""Hand-written programs of CUDA kernels for the checks of this folder, and the executors that run them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "python"), str(HERE / "tests" / "gpu")]

import torch  # noqa: E402
from emit_check import Compiler  # noqa: E402
from planish.executor import Executor  # noqa: E402

SOURCE = r"""
extern "C" __global__ void twice_plus(const float* x, float* y, long long n, float plus) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + plus;
}
extern "C" __global__ void relu_scale(const float* x, const float* w, float* y, long long n, long long width) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i]; y[i] = (v < 0.0f ? 0.0f : v) * w[i % width]; }
}
extern "C" __global__ void ranks(const float* x, float* y, long long n, float plus) {
  unsigned rank, size;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + plus * (float)(size * 100 + rank);
}
"""
BLOCK = 256


def root() -> Path:
    """A dist folder or a build folder."""
    found = os.environ.get("PLANISH_ROOT")
    return Path(found) if found else HERE if (HERE / "bin").exists() else HERE / "build"


def runtime() -> Path:
    return root() / "lib" / "libplanish_rt.so"


@cache
def cubin(folder: Path) -> Path:
    image, _, _, error = Compiler().cuda(SOURCE)
    if error:
        raise SystemExit(f"error: the check's own kernels do not compile\ncaused by: {error}")
    path = folder / "kernels.cubin"
    path.write_bytes(image)
    return path


def buffer(role: str, shape: list[int], source: dict[str, Any] | None = None) -> dict[str, Any]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    made: dict[str, Any] = {"role": role, "dtype": "f32", "shape": shape, "strides": strides}
    return made | ({"source": source} if source else {})


def launch(kernel: int, elements: int, *args: dict[str, Any], cluster: int = 1) -> dict[str, Any]:
    grid = -(-elements // BLOCK)
    return {"kind": "launch", "kernel": kernel, "grid": [-(-grid // cluster) * cluster, 1, 1], "block": [BLOCK, 1, 1], "cluster": [cluster, 1, 1],
            "shared": 0, "args": list(args)}  # fmt: skip


def kernel(entry: str) -> dict[str, Any]:
    return {"language": "cuda", "entry": entry, "flags": [], "source": SOURCE}


def program(buffers: list[dict[str, Any]], steps: list[dict[str, Any]], outputs: list[int], entries: list[str]) -> dict[str, Any]:
    return {"schema": "planish.program/1", "target": "cuda", "arch": "sm_90a", "buffers": buffers, "kernels": [kernel(e) for e in entries],
            "steps": steps, "outputs": [{"buffer": b, "kind": "user"} for b in outputs]}  # fmt: skip


def chain(length: int, elements: int, cluster: int = 1) -> dict[str, Any]:
    """x → 2x + 1, `length` times; with clusters the last kernel adds what its block's place in one is."""
    user = {"kind": "user", "index": 0}
    buffers = [buffer("input", [elements], user), *(buffer("temp", [elements]) for _ in range(length - 1)), buffer("output", [elements])]
    n, one = {"i64": elements}, {"f32": (1.0).hex()}
    steps = [launch(0, elements, {"buffer": k}, {"buffer": k + 1}, n, one) for k in range(length)]
    if cluster > 1:
        steps[-1] = launch(1, elements, {"buffer": length - 1}, {"buffer": length}, n, one, cluster=cluster)
    return program(buffers, steps, [length], ["twice_plus", "ranks"] if cluster > 1 else ["twice_plus"])


@contextmanager
def submitting(way: str) -> Iterator[None]:
    """PLANISH_GRAPH for the programs that are loaded inside."""
    before = os.environ.get("PLANISH_GRAPH")
    os.environ["PLANISH_GRAPH"] = way
    try:
        yield
    finally:
        del os.environ["PLANISH_GRAPH"]
        if before is not None:
            os.environ["PLANISH_GRAPH"] = before


def changing(length: int, elements: int, targets: int) -> dict[str, Any]:
    """A chain whose result also becomes the new value of `targets` buffers of the caller's."""
    document = chain(length, elements)
    document["outputs"] += [{"buffer": length, "kind": "mutate_buffer", "target": f"s{k}"} for k in range(targets)]
    return document


def executor(document: dict[str, Any], folder: Path, way: str = "auto", effects: list[dict[str, Any]] | None = None) -> Executor:
    with submitting(way):
        return Executor(document, [str(cubin(folder))] * len(document["kernels"]), lambda name: b"", runtime(), "cuda", effects)


def has_gpu() -> bool:
    return torch.cuda.is_available()
