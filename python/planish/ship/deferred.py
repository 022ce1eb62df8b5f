"""A program's outputs where gradients could be asked for later, with those of the original.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from planish.ship import context
else:
    context = importlib.import_module(__name__.removesuffix("deferred") + "context")

Tensor = torch.Tensor
FALLBACK = context.FALLBACK
_grad_enabled = torch.is_grad_enabled


class Parts:
    """What a module consists of when a program is bound to it, but for its tensors: enough to run its own code later as it was."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        """`modules` by qualified name, the whole one under the empty name."""
        self._parts = {name: (child, type(child), self._copied(child)) for name, child in modules.items() if name}
        self._root = (type(modules[""]), self._copied(modules[""]))

    @staticmethod
    def _copied(child: nn.Module) -> dict[str, Any]:
        kept = {key: value for key, value in vars(child).items() if key not in ("_parameters", "_buffers") and not key.startswith("_planish")}
        return {key: value.copy() if key.startswith("_") and isinstance(value, dict) else value for key, value in kept.items()}

    def rebuild(self, module: nn.Module, tensors: dict[str, Tensor]) -> nn.Module:
        """A module as it was then, of these tensors (by qualified name), with `module`'s own where the program used none."""
        made: dict[int, nn.Module] = {}
        for name, child, cls, attributes in [("", module, *self._root), *((n, *part) for n, part in self._parts.items())]:
            twin = made[id(child)] = object.__new__(cls)
            prefix = name + "." if name else ""
            vars(twin).update(self._fresh(attributes))
            for kind in ("_parameters", "_buffers"):
                vars(twin)[kind] = {key: tensors.get(prefix + key, value) for key, value in vars(child)[kind].items()}
        for twin in made.values():
            vars(twin)["_modules"] = {key: made.get(id(child), child) for key, child in vars(twin)["_modules"].items()}
        return made[id(module)]

    @staticmethod
    def _fresh(attributes: dict[str, Any]) -> dict[str, Any]:
        return {key: value.copy() if key.startswith("_") and isinstance(value, dict) else value for key, value in attributes.items()}


class Deferred(torch.autograd.Function):
    """The program's outputs, with the original's gradients: whoever asks for them makes the original run then, on what was given
    and as it was: later changes of attributes and replaced tensors do not count, and a tensor changed in place is an error, as
    with torch's own operators.

    Many callers time or use a model without no_grad and never ask. Whoever does ask, trains: from then on the attachment leaves
    such calls to the original, which would have run anyway."""

    @staticmethod
    def forward(
        ctx: Any,
        attachment: Any,
        module: nn.Module,
        parts: Parts,
        names: list[str],
        args: tuple[Any, ...],
        before: dict[str, Tensor | None],
        fixed: list[Tensor],
        *parameters: Tensor,
    ) -> Any:
        """`names` are those of `parameters`, which require gradients, and then of `fixed`, which do not. `before`: by name, what the
        program changes, as it is now; None where that says nothing about the outputs. Gradients are off in here."""
        result = FALLBACK if attachment.fast is None else attachment.fast(module, args, {})
        if result is FALLBACK:
            result = attachment(module, args, {})
        if result is FALLBACK:
            return FALLBACK
        ctx.before = before
        ctx.attachment, ctx.module, ctx.parts, ctx.names, ctx.count = attachment, module, parts, names, len(parameters)
        ctx.save_for_backward(*parameters, *fixed, *args)
        leaves = [result] if attachment._single_output else pytree.tree_leaves(result)
        ctx.mark_non_differentiable(*(t for t in leaves if isinstance(t, Tensor) and not t.is_floating_point()))
        return leaves[0] if attachment._single_output else tuple(leaves)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved = ctx.saved_tensors
        tensors, args = dict(zip(ctx.names, saved, strict=False)), saved[len(ctx.names) :]
        # The original changes its buffers once more: copies of them.
        now = dict(ctx.module.named_buffers(remove_duplicate=False)) if ctx.before else {}
        tensors |= {name: (now[name] if then is None else then).detach().clone() for name, then in ctx.before.items()}
        result = ctx.attachment._original(ctx.parts.rebuild(ctx.module, tensors), args)
        pairs = [(t, g) for t, g in zip(pytree.tree_leaves(result), gradients, strict=True) if isinstance(t, Tensor) and t.requires_grad and g is not None]
        found: Any = [None] * ctx.count
        if pairs:
            outputs, given = zip(*pairs, strict=True)
            found = torch.autograd.grad(outputs, saved[: ctx.count], given, allow_unused=True, create_graph=_grad_enabled())
        return None, None, None, None, None, None, None, *found


# What apply() comes to where no transform of torch.func is active, which was asked before: its own look at every argument takes 5 µs.
defer = super(torch.autograd.Function, Deferred).apply
