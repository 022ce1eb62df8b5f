"""State that a call leaves outside buffers, where another call, or the caller, would not see it: attributes that it assigns, entries of containers,
globals; and weights that hooks of torch's compute anew each time."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils import _pytree as pytree

from planish.errors import PlanishError, task_error
from planish.ship import reach
from planish.ship.hooks import weight_hooks


@contextmanager
def changes_refused(model: torch.nn.Module, path: Path) -> Iterator[None]:
    """Around a call of the model, which is to leave what its forward can reach as it is: parameters, buffers and inputs aside. Raises PlanishError
    (not_exportable) where it does not, and where what it can reach cannot be told: a program would never be allowed to stand in for it."""
    if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in model.parameters()):
        yield  # its first call makes it what it is
        return
    before = _reached(model)
    if before.problem:
        raise task_error("not_exportable", path, before.problem, reach.REMEDY)
    yield
    after = _reached(model)
    for name in [n for n, token in after.tokens.items() if before.tokens.get(n, "absent") != token]:
        was, now = before.tokens.get(name, "absent"), after.tokens[name]
        message = f"forward changes '{name}' (from {was} to {now}), which a program would not"
        raise task_error("not_exportable", path, message, "make it a buffer (register_buffer), written with copy_() or add_(), or leave it out")


def _reached(model: torch.nn.Module) -> reach.Reached:
    """Who watches the calls that the model makes (oracle/clocks.py) waits: these are a million, and none of them the model's."""
    watcher = sys.getprofile()
    sys.setprofile(None)
    try:
        return reach.reach(model)
    finally:
        sys.setprofile(watcher)


def refuse_hidden_state(model: torch.nn.Module, program: ExportedProgram, said: list[str], path: Path) -> None:
    """torch.export warns (`said`) of tensor attributes that forward assigns, and takes them for constants: the next call would not see the
    change. (Modules of torch's own assign their parameters again, which changes nothing.) Raises PlanishError (not_exportable)."""
    known = {id(t) for t in (*model.parameters(), *model.buffers())}
    # In the order of names: torch lists them in that of a set.
    for name in sorted({name for text in said if "assigned during export" in text for name in re.findall(r"\bself\.([\w.]+)", text)}):
        place, _, attribute = name.rpartition(".")
        owner: Any = model
        for part in place.split(".") if place else ():
            owner = getattr(owner, part, None)
        tensors = [t for t in pytree.tree_leaves(getattr(owner, attribute, None)) if isinstance(t, torch.Tensor)]
        hook = weight_hooks(owner).get(attribute) if isinstance(owner, torch.nn.Module) else None
        if hook is not None:
            _refuse_hook(model, program, name, hook, tensors, path)
        elif any(id(t) not in known for t in tensors):
            message = f"forward keeps state in the attribute '{name}', which another call would not see"
            raise task_error("not_exportable", path, message, f"make it a buffer: self.register_buffer('{attribute}', ...), written with copy_()")


def _refuse_hook(model: torch.nn.Module, program: ExportedProgram, name: str, hook: Any, tensors: list[torch.Tensor], path: Path) -> None:
    """What a hook writes before it is read is no state. A read that comes earlier sees what the last call left: export made that a constant."""
    kind = "weight_norm" if type(hook) is WeightNorm else "spectral_norm" if type(hook) is SpectralNorm else "pruning"
    if "." not in name:
        message = f"the module itself has torch's {kind} hook for '{name}', which torch runs before whatever stands in for its forward"
        raise _of_hook(path, kind, name, message)
    kept = {t.untyped_storage().data_ptr() for t in program.constants.values() if isinstance(t, torch.Tensor)}
    if any(t.untyped_storage().data_ptr() in kept for t in tensors):
        raise _of_hook(path, kind, name, f"forward reads '{name}' before torch's {kind} hook computes it, and finds what the last call left there")


def _of_hook(path: Path, kind: str, name: str, message: str) -> PlanishError:
    attribute = name.rpartition(".")[2]
    hint = f"call torch.nn.utils.remove_{kind}() on that layer, or use torch.nn.utils.parametrizations.{kind}"
    if kind == "pruning":
        hint = f"make the pruned weight permanent: torch.nn.utils.prune.remove(layer, '{attribute}')"
    return task_error("not_exportable", path, message, hint)


@contextmanager
def weights_of_hooks_kept(model: torch.nn.Module) -> Iterator[None]:
    """Calls inside leave the attributes that hooks compute as they were: calls on tensors without contents leave such there."""
    kept = [(vars(child), name, vars(child)[name]) for child in model.modules() for name in weight_hooks(child) if name in vars(child)]
    try:
        yield
    finally:
        for attributes, name, value in kept:
            attributes[name] = value
