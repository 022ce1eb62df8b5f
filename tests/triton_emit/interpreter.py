"""Runs emitted Triton kernels on CPU tensors with Triton's interpreter.

The interpreter of Triton 3.6 differs from the compiler in ways that matter here; `prepare` sets them right: it has no libdevice (numpy and
torch stand in), narrows to bfloat16 by truncation, takes `maximum` without NaN propagation for the propagating one, and folds with a function
other than its own sum, maximum and minimum element by element. What libdevice itself computes is therefore not tested here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

MARGIN = 64  # bytes on both sides of every tensor; reads may stray there unnoticed, writes may not
CANARY = 0xA5

_UNARY = {
    "rint": np.rint, "trunc": np.trunc, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": lambda x: torch.erf(torch.from_numpy(np.ascontiguousarray(x))).numpy(),
    "erfc": lambda x: torch.erfc(torch.from_numpy(np.ascontiguousarray(x))).numpy(),
}  # fmt: skip
_BINARY = {"fmod": np.fmod, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}


def available() -> bool:
    return importlib.util.find_spec("triton") is not None


def _narrow(data: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(data).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(data), np.uint16(0x7FC0), rounded)


def prepare() -> None:
    """Once, in a process that was started with TRITON_INTERPRET=1: torch imports Triton by itself, which reads it then."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("start this process with TRITON_INTERPRET=1")
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime import interpreter

    def over(function: Any) -> Any:
        def call(*args: Any) -> Any:
            tensors = [interpreter.interpreter_semantic.to_tensor(arg) for arg in args]
            dtype = tensors[0].dtype
            with np.errstate(all="ignore"):
                data = np.asarray(function(*[t.handle.data for t in tensors])).astype(tensors[0].handle.data.dtype)
            shape = next((t.type for t in tensors if t.type.is_block() and list(t.type.shape) == list(data.shape)), tensors[0].type)
            return tl.core.tensor(interpreter.TensorHandle(data, dtype.scalar), shape)

        return call

    for name, function in {**_UNARY, **_BINARY}.items():
        setattr(libdevice, name, over(function))

    builder = interpreter.InterpreterBuilder
    convert = builder.cast_impl

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        if src.dtype.scalar == tl.float32 and dst_type.scalar == tl.bfloat16:
            return interpreter.TensorHandle(_narrow(src.data), dst_type.scalar)
        with np.errstate(all="ignore"):
            return convert(self, src, dst_type)

    builder.cast_impl = cast
    builder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
    builder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)

    def reduce(self: Any, input: Any) -> Any:
        """Halves the axis until one element is left. Its length is a power of two."""
        current = list(input)
        while current[0].shape[self.axis] > 1:
            halves: list[list[Any]] = [[], []]
            for tensor in current:
                for side, data in enumerate(np.split(tensor.handle.data, 2, axis=self.axis)):
                    halves[side].append(self.to_tensor(data, tensor.dtype))
            folded = self.combine_fn.fn(*halves[0], *halves[1])
            current = list(folded) if isinstance(folded, tuple) else [folded]
        if self.keep_dims:
            return current
        return [self.to_tensor(np.squeeze(t.handle.data, self.axis), t.dtype) for t in current]

    interpreter.ReduceOps.generic_reduce = reduce


def load(source: str, entry: str, folder: Path) -> Any:
    """The kernel function of an emitted module. Its text must lie in a file, where Triton looks for it."""
    name = "emitted_" + hashlib.sha256(source.encode()).hexdigest()[:16]
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, entry)


class Guarded:
    """A copy of a tensor between canaries, 64-byte aligned."""

    def __init__(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.bytes = storage.nbytes() - tensor.storage_offset() * tensor.element_size()
        raw = torch.full((self.bytes + 2 * MARGIN + 64,), CANARY, dtype=torch.uint8)
        start = MARGIN + -(raw.data_ptr() + MARGIN) % 64
        self.raw, self.start = raw, start
        whole = raw[start : start + self.bytes]
        whole.copy_(torch.empty(0, dtype=torch.uint8).set_(storage)[storage.nbytes() - self.bytes :])
        flat = whole.view(tensor.dtype)
        self.tensor = flat.as_strided(tensor.shape, tensor.stride())
        # Booleans are bytes to an emitted kernel.
        self.argument = whole if tensor.dtype == torch.bool else flat

    def intact(self) -> bool:
        return bool((self.raw[: self.start] == CANARY).all() and (self.raw[self.start + self.bytes :] == CANARY).all())


def run(kernel: Any, grid: list[int], tensors: list[Guarded]) -> None:
    with np.errstate(all="ignore"):
        kernel[tuple(grid)](*[t.argument for t in tensors])
