"""What benchmarks of one device file share: its text with the files that it includes, and the driver that launches it."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import torch

DEVICE = Path(__file__).resolve().parents[1] / "src" / "codegen" / "device"


def expanded(name: str, seen: set[str]) -> str:
    """A device file with those that it includes."""
    if name in seen:
        return ""
    seen.add(name)
    text = (DEVICE / name).read_text().replace("#pragma once\n", "")
    return re.sub(r'#include "(.*)"\n', lambda found: expanded(found[1], seen), text)


class Cuda:
    """The driver, as far as it is needed here."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *args: Any) -> None:
        if code := getattr(self.library, name)(*args):
            raise RuntimeError(f"{name} gave {code}")

    def function(self, cubin: Path, shared: int) -> ctypes.c_void_p:
        module, found = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin.read_bytes())
        self.call("cuModuleGetFunction", ctypes.byref(found), module, b"k0")
        self.call("cuFuncSetAttribute", found, 8, shared)
        return found

    def launch(self, function: ctypes.c_void_p, blocks: int, threads: int, shared: int, tensors: list[torch.Tensor]) -> None:
        held = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
        args = (ctypes.c_void_p * len(held))(*[ctypes.addressof(each) for each in held])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared, stream, args, None)
