"""Runs whole programs whose kernels are Triton on the CPU: aten steps as the executor runs them, launches under the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from planish.executor import Executor, extent

from . import interpreter


class Interpreted(Executor):
    """An executor without the runtime. The kernels' "binaries" are their sources, as files."""

    def _load(self, program: dict[str, Any], binaries: Sequence[str], rt: Path | str | None) -> None:
        self._kernels = [
            interpreter.load(Path(path).read_text(), kernel["entry"], Path(path).parent) for path, kernel in zip(binaries, program["kernels"], strict=True)
        ]

    def _native(self, first: int, last: int) -> Callable[[list[Any], Any, Any], None]:
        def act(env: list[Any], table: Any, call: Any) -> None:
            for step in [*self._steps, *self._copies][first:last]:
                if step["kind"] == "copy":
                    self._at(table[step["to"]], step["to"]).copy_(self._at(table[step["from"]], step["from"]))
                    continue
                if step["kind"] != "launch":
                    raise NotImplementedError(step["kind"])
                tensors = [self._at(table[arg["buffer"]], arg["buffer"]) for arg in step["args"]]
                with np.errstate(all="ignore"):
                    self._kernels[step["kernel"]][tuple(step["grid"])](*tensors)

        return act

    def _at(self, address: int, buffer: int) -> torch.Tensor:
        """The elements of a buffer in their order in memory, booleans as bytes."""
        dtype = torch.uint8 if self._dtypes[buffer] == torch.bool else self._dtypes[buffer]
        bytes_ = max(1, extent(self._shapes[buffer], self._strides[buffer])) * dtype.itemsize
        return torch.frombuffer((ctypes.c_char * bytes_).from_address(address), dtype=dtype)
