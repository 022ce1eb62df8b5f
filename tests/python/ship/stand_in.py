"""A program for the tests of guards that computes nothing: it answers with what the module itself gave when it was captured, so that whoever gets
that answer after a change has got a stale one. Its calls go through the checks in C, where these are built, and through those in Python."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from planish import executor
from planish.capture.arguments import encode_plain
from planish.ship import archive, guards, live
from torch import nn
from torch.utils import _pytree as pytree

_RUN = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int] * 3, *[ctypes.c_void_p] * 2)
_nothing = _RUN(lambda *_: 0)
_address = ctypes.cast(_nothing, ctypes.c_void_p).value


class Answer:
    """In an executor's place. `runs` counts calls that the checks in Python let through."""

    own_results, effects, _constants = True, (), ()

    def __init__(self, result: Any, leaves: list[Any]) -> None:
        self.result, self.runs = result, 0
        tensors = [(index, t) for index, t in enumerate(leaves) if isinstance(t, torch.Tensor)]
        self.bindings = [executor.Binding(0, "user", index, "", t.dtype, tuple(t.shape), t.stride()) for index, t in tensors]

    def run(self, tensors: list[torch.Tensor]) -> list[Any]:
        self.runs += 1
        return [self.result]

    def direct(self) -> dict[str, Any]:
        return {"allocate": torch.empty_strided, "table": [0], "fresh": [], "arena": (0, torch.uint8, []), "results": [(self.result,)],
                "launch": (_address, 0, 0), "effects": [], "raise_versions": None, "threads": None, "brief": True, "device": -1,
                "error": RuntimeError}  # fmt: skip


class StandIn:
    """In place of a shipped folder."""

    defer_gradients, mode, key, module = False, "program", "a stand-in", executor

    def __init__(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], extension: Any = None, **manifest: Any) -> None:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        plain = [(k, v) for k, v in enumerate(leaves) if not isinstance(v, torch.Tensor)]
        scalars = [{"index": k, "arg": encode_plain(v, Path("task"))} for k, v in plain]
        one = pytree.tree_flatten(0)[1]
        self.manifest = {"input_tree": pytree.treespec_dumps(spec), "output_tree": pytree.treespec_dumps(one), "scalars": scalars, **manifest}
        self.program, self.extension = {"target": "cpu"}, extension
        self.answer = Answer(result, leaves)

    def executor(self, device: torch.device) -> Any:
        return self.answer


def attached(module: nn.Module, *args: Any, extension: Any = None, **kwargs: Any) -> Any:
    """The module, with a stand-in of its present answer to this call in front."""
    with torch.no_grad():
        shipped = StandIn(module(*args, **kwargs), args, kwargs, extension)
    original = type(module)
    attachment = guards.attach(shipped, module, original)
    module.__dict__.update(_planish=attachment, _planish_others=())
    module.__class__ = live._attached_class(original, ())
    return module


def extension() -> Any:
    """The checks in C, or None where they are not built."""
    from planish import rt

    folder = rt.find_library().parent
    return archive.load_extension(archive.Folder(folder))
