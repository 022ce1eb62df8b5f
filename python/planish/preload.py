"""What PyTorch loads only when it is first used, and the libraries that a live module's classes come from, loaded beforehand: it takes a process that
waits for its first request seconds that its first request would take otherwise. No device has a part in it; what cannot be loaded is missed,
and said, when it is used."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress

import torch
from torch import nn
from torch.utils import _pytree as pytree

#: Modules of libraries, separated by commas: set by planish.optimize() for the processes of its run.
NAMES = "PLANISH_PRELOAD"


def libraries_of(module: nn.Module, call: tuple[tuple[object, ...], dict[str, object]]) -> str:
    """NAMES for a live module and its call: where classes of theirs are defined that are installed beside PyTorch. Files of the user's are not among
    them: these are run when the module is read."""
    parts = [*module.modules(), *pytree.tree_leaves(call), *call[1].values(), *call[0]]
    return ",".join(sorted({name for name in _where_defined(parts) if _is_installed(name)}))


def _where_defined(things: Iterable[object]) -> set[str]:
    return {cls.__module__ for thing in things for cls in type(thing).__mro__}


def _is_installed(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    folders = {
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        *(f for f in sys.path if f.rstrip("/").endswith(("site-packages", "dist-packages"))),
    }
    return name.partition(".")[0] not in ("torch", "planish") and any(file.startswith(folder + os.sep) for folder in folders)


def for_task() -> None:
    """The libraries of the live module that this process was started for."""
    for name in filter(None, os.environ.get(NAMES, "").split(",")):
        _quietly(lambda name=name: importlib.import_module(name))  # type: ignore[misc]


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
