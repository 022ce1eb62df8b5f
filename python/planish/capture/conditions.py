"""torch.cond in a graph without branches: both sides are computed, and the condition chooses between their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

from planish.capture.refusals import unsized
from planish.capture.source import line_of
from planish.capture.splice import copied
from planish.errors import task_error

_COND = torch.ops.higher_order.cond


def inline_conditions(module: fx.GraphModule, path: Path) -> bool:
    """Replaces each torch.cond of the graph, also those inside branches; whether there were any. The branches are functions of their operands without
    effects (torch asks that of them), so that running both changes no value; what the one that is not taken costs, a program pays and eager does not.
    Raises PlanishError (unsupported_op) for branches whose results cannot be chosen from."""
    any_found = False
    while found := [n for n in module.graph.nodes if n.op == "call_function" and n.target is _COND]:
        any_found = True
        for node in found:
            _inline(module, node, path)
        module.graph.eliminate_dead_code()  # the branches, and what nothing reads of them
        module.recompile()
    return any_found


def _inline(module: fx.GraphModule, node: fx.Node, path: Path) -> None:
    given: Any = node.args
    condition, yes, no, operands = given
    with module.graph.inserting_before(node):
        sides = [copied(module, branch, operands) for branch in (yes, no)]
        chosen = [_chosen(module, node, condition, a, b, path) for a, b in zip(*sides, strict=True)]
    if not all(isinstance(result, fx.Node) for result in chosen):
        raise task_error("unsupported_op", path, f"uses torch.cond{line_of(node)}, whose branches give what is no tensor", "return tensors from both branches")
    for user in list(node.users):
        assert isinstance(user.args[1], int)
        user.replace_all_uses_with(chosen[user.args[1]])
        module.graph.erase_node(user)
    module.graph.erase_node(node)


def _chosen(module: fx.GraphModule, node: fx.Node, condition: Any, a: Any, b: Any, path: Path) -> Any:
    if not isinstance(condition, fx.Node):
        return a if condition else b
    if not isinstance(condition.meta["val"], torch.Tensor):
        raise unsized(condition, path)
    if a is b or not (isinstance(a, fx.Node) and isinstance(b, fx.Node)):
        return a if a is b else None
    made = module.graph.call_function(torch.ops.aten.where.self, (condition, a, b))
    made.meta = {k: v for k, v in node.meta.items() if k != "val"}
    known = [n.meta["val"] for n in (condition, a, b)]
    mode = detect_fake_mode(known)
    assert mode is not None
    with mode, torch.no_grad():
        made.meta["val"] = torch.ops.aten.where.self(*known)
    return made
