"""Runs a program once, on data of its own, and ends: what a profiler is put in front of.

`python -m planish.runner.launched LAUNCH.json`, with {"program": a planish.program/1 document, "binaries": [its kernels' files],
"blobs": the folder of its constants}. Nothing is compared: floats are normal, integers and booleans zero, so that indices are legal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from planish import rt
from planish.executor import Binding, Executor


def _tensor(binding: Binding, device: torch.device) -> torch.Tensor:
    tensor = torch.empty_strided(binding.shape, binding.strides, dtype=binding.dtype, device=device)
    return tensor.normal_() if binding.dtype.is_floating_point and binding.dtype.itemsize > 1 else tensor.zero_()


def main(file: str) -> None:
    about: dict[str, Any] = json.loads(Path(file).read_text())
    device = torch.device("cuda", 0) if about["program"]["target"] == "cuda" else torch.device("cpu")
    torch.manual_seed(0)
    executor = Executor(about["program"], about["binaries"], about["blobs"], rt.find_library(), device)
    with torch.no_grad():
        executor.execute([_tensor(binding, device) for binding in executor.bindings])
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main(sys.argv[1])
