"""A variant of planish-contraction-dump with one launch, as a function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch


def launched(subject: Any, variant: dict[str, Any], compiled: dict[str, Any], inputs: list[torch.Tensor], out: torch.Tensor) -> tuple[Callable[[], None], Any]:
    """The function, and the scratch that it needs as long as it is called. Raises RuntimeError with the compiler's log."""
    (launch,) = variant["launches"]
    cubin, log, _ = compiled[launch["source"]]
    if not cubin:
        raise RuntimeError(log)
    scratch = [torch.zeros(bytes_, device="cuda", dtype=torch.uint8) for bytes_ in variant["scratch_bytes"]]
    places = {"input": inputs, "output": [out], "scratch": scratch}
    arguments = [ctypes.c_void_p(places[kind][index].data_ptr()) for kind, index in launch["args"]]
    config = subject.driver.config(launch["grid"], launch["block"], launch["shared"], torch.cuda.current_stream().cuda_stream, launch["cluster"])
    function = subject.driver.load(cubin, "planish_kernel", launch["shared"])
    return lambda: subject.driver.launch(function, config, arguments), scratch
