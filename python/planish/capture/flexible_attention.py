"""flex_attention as what it computes where nobody compiles it: a product, the function of its scores, a mask, a softmax and a product.

Its functions are of one score and its place; over all places they are functions of tensors. Blocks that a block mask leaves out are those in which its
function masks everything, so that the function alone says what counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from planish.capture.splice import spliced

_FLEX = getattr(torch.ops.higher_order, "flex_attention", None)
Function = Callable[..., torch.Tensor]


def inline_flexible_attention(program: ExportedProgram) -> bool:
    """Replaces each flex_attention of the graph. Whether there was one: what made its block mask, and results that nobody reads, may be dead then."""
    module = program.graph_module
    found = [n for n in module.graph.nodes if n.op == "call_function" and n.target is _FLEX]
    for node in found:
        _inline(module, node)
        for done in (*node.users, node):  # and nothing else: what opens and closes a vmap has no users either
            module.graph.erase_node(done)
    module.recompile()
    return bool(found)


def _inline(module: fx.GraphModule, node: fx.Node) -> None:
    leaves, form = pytree.tree_flatten(node.args)
    nodes = dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, fx.Node))
    functions = {n: found for n in nodes if n.op == "get_attr" and isinstance(found := getattr(module, str(n.target)), torch.nn.Module)}
    given = [n for n in nodes if n not in functions]

    def attention(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        known = {**functions, **dict(zip(given, tensors, strict=True))}
        return _dense(*pytree.tree_unflatten([known.get(leaf, leaf) if isinstance(leaf, fx.Node) else leaf for leaf in leaves], form))

    results = spliced(module.graph, node, attention, given)
    for reader in node.users:
        reader.replace_all_uses_with(results[reader.args[1]])


def _dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score: Function, blocks: tuple[Any, ...], scale: float, _: Any,
    score_tensors: tuple[Any, ...] = (), mask_tensors: tuple[Any, ...] = (),
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """The result, and logarithms (of base 2) of sums and of maxima. The first product and all between the two are in 32 bits at least, as torch has it; a
    query that sees nothing gives zeros."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    key, value = (t.expand(query.shape[0], *t.shape[1:]) for t in (key, value))
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    places = [torch.arange(n, device=query.device) for n in scores.shape]
    changed = _everywhere(score, 1, len(score_tensors))(scores, *places, *score_tensors)
    counts = _everywhere(blocks[-1], 0, len(mask_tensors))(*places, *mask_tensors)
    scores = torch.where(counts, changed.to(wide), -torch.inf)
    most = scores.amax(-1)
    sums = torch.where(most == -torch.inf, -torch.inf, scores.logsumexp(-1))
    return torch._safe_softmax(scores, dim=-1).to(query.dtype) @ value, sums / math.log(2), most / math.log(2)


def _everywhere(function: Any, first: int, last: int) -> Function:
    """A function of (a score,) batch, head, query, key and further tensors, over all places at once."""
    found: Any = function
    for axis in (3, 2, 1, 0):
        found = torch.vmap(found, in_dims=(*[0] * first, *(0 if k == axis else None for k in range(4)), *[None] * last))
    whole: Function = found
    return lambda *given: _first(whole(*given))


def _first(result: Any) -> torch.Tensor:
    """Graphs of functions give their results in a tuple."""
    tensor: torch.Tensor = result[0] if isinstance(result, tuple | list) else result
    return tensor
