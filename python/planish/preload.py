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

    _quietly(_one_assembler)

    def load() -> None:
        import torch._inductor.compile_fx
        from torch._inductor.codegen.common import init_backend_registration

        init_backend_registration()
        with torch.no_grad():
            torch.compile(nn.ReLU(), backend="eager")(torch.zeros(1))

    _quietly(load)
    torch._dynamo.reset()


def _one_assembler() -> None:
    """Inductor's compile processes use the ptxas that comes with PyTorch, but the process that measures what they made does not (seen in
    2.11): Triton then finds none of it in its cache, which knows ptxas by its version, and compiles each choice again, one after the
    other. What is chosen is compiled by the former in the end, so that is what should be measured."""
    from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path

    _set_triton_ptxas_path()


def _quietly(load: Callable[[], object]) -> None:
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        load()
