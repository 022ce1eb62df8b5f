"""Hand-written program documents for the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import torch

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.int64: "i64", torch.bool: "bool", torch.float64: "f64", torch.bfloat16: "bf16"}


def contiguous(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides


def buffer(role: str, shape: list[int], source: dict[str, Any] | None = None, dtype: str = "f32", strides: list[int] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"role": role, "dtype": dtype, "shape": shape, "strides": contiguous(shape) if strides is None else strides}
    if source:
        made["source"] = source
    return made


def user(index: int) -> dict[str, Any]:
    return {"kind": "user", "index": index}


def param(name: str) -> dict[str, Any]:
    return {"kind": "param", "name": name}


def state(name: str) -> dict[str, Any]:
    return {"kind": "buffer", "name": name}


def aten(op: str, args: list[dict[str, Any]], outs: list[int | None]) -> dict[str, Any]:
    return {"kind": "aten", "op": op, "args": args, "outs": outs}


def add(a: int, b: int, out: int) -> dict[str, Any]:
    return aten("aten.add.Tensor", [{"name": "self", "buffer": a}, {"name": "other", "buffer": b}, {"name": "alpha", "int": 1}], [out])


def launch(kernel: int, *args: dict[str, Any]) -> dict[str, Any]:
    one = [1, 1, 1]
    return {"kind": "launch", "kernel": kernel, "grid": one, "block": one, "cluster": one, "shared": 0, "args": list(args)}


def program(
    buffers: list[dict[str, Any]], steps: list[dict[str, Any]], outputs: list[dict[str, Any]], kernels: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"schema": "planish.program/1", "target": "cpu", "arch": "x86-64", "buffers": buffers, "kernels": kernels or [],
            "steps": steps, "outputs": outputs}  # fmt: skip


def kernel(entry: str, body: str) -> dict[str, Any]:
    """A cpp kernel over `void** args`."""
    source = f'#include <cstdint>\nextern "C" void {entry}(void** args) {{ {body} }}\n'
    return {"language": "cpp", "entry": entry, "flags": [], "source": source}


# out[i] = in[i] * factor, over n elements
SCALE = kernel(
    "scale",
    "auto* in = (const float*)args[0]; auto* out = (float*)args[1]; auto n = *(const int64_t*)args[2]; auto f = *(const float*)args[3];"
    "for (int64_t i = 0; i < n; ++i) out[i] = in[i] * f;",
)


def scale(a: int, b: int, n: int, factor: float = 2.0) -> dict[str, Any]:
    return launch(0, {"buffer": a}, {"buffer": b}, {"i64": n}, {"f32": factor.hex()})


def build(kernels: list[dict[str, Any]], folder: Path) -> list[str]:
    """Compiles each kernel to a shared object."""
    made = []
    for k, item in enumerate(kernels):
        source, binary = folder / f"k{k}.cpp", folder / f"k{k}.so"
        source.write_text(item["source"])
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", str(binary), str(source)], check=True)
        made.append(str(binary))
    return made
