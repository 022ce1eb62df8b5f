"""What PyTorch loads only when it is first used, loaded beforehand: it takes a process that waits for its first request seconds that its
first request would take otherwise. Nothing of a task, and no device, has a part in it; what cannot be loaded is missed, and said, when it
is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import nn


def for_capture() -> None:
    """torch.export and what it runs on. Half of that is imported by the first call only."""
    _quietly(lambda: torch.export.export(nn.ReLU(), (torch.zeros(1),), strict=False))


def for_compiling() -> None:
    """torch.compile with Inductor and its code generators. Starts the pool of compile processes where Inductor has one (with Triton), and
    compiles nothing."""

    def load() -> None:
        import torch._inductor.compile_fx
        from torch._inductor.codegen.common import init_backend_registration

        init_backend_registration()
        with torch.no_grad():
            torch.compile(nn.ReLU(), backend="eager")(torch.zeros(1))

    _quietly(load)
    torch._dynamo.reset()


def _quietly(load: Callable[[], object]) -> None:
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        load()
