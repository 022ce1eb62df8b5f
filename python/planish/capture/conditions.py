"""torch.cond in a graph without branches: both sides are computed, and the condition chooses between their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

from planish.capture.refusals import unsized
from planish.capture.source import line_of
from planish.errors import task_error

_COND = torch.ops.higher_order.cond


def inline_conditions(module: fx.GraphModule, path: Path) -> None:
    """Replaces each torch.cond of the graph, also those inside branches. The branches are functions of their operands without effects (torch
    asks that of them), so that running both changes no value; what the one that is not taken costs, a program pays and eager does not.
    Raises PlanishError (unsupported_op) for branches whose results cannot be chosen from."""
    while found := [n for n in module.graph.nodes if n.op == "call_function" and n.target is _COND]:
        for node in found:
            _inline(module, node, path)
        module.graph.eliminate_dead_code()  # the branches, and what nothing reads of them
        module.recompile()


def _inline(module: fx.GraphModule, node: fx.Node, path: Path) -> None:
    condition, yes, no, operands = node.args
    with module.graph.inserting_before(node):
        sides = [_copied(module, branch, operands) for branch in (yes, no)]
        chosen = [_chosen(module, node, condition, a, b, path) for a, b in zip(*sides, strict=True)]
    if not all(isinstance(result, fx.Node) for result in chosen):
        raise task_error("unsupported_op", path, f"uses torch.cond{line_of(node)}, whose branches give what is no tensor", "return tensors from both branches")
    for user in list(node.users):
        assert isinstance(user.args[1], int)
        user.replace_all_uses_with(chosen[user.args[1]])
        module.graph.erase_node(user)
    module.graph.erase_node(node)


def _copied(module: fx.GraphModule, branch: Any, operands: Any) -> list[Any]:
    """The branch's nodes, before the one that is replaced; its results."""
    graph: fx.Graph = getattr(module, branch.target).graph
    inner = getattr(module, branch.target)
    known: dict[fx.Node, Any] = {}
    given = iter(operands)
    for one in graph.nodes:
        if one.op == "placeholder":
            known[one] = next(given)
        elif one.op == "output":
            return [known[r] if isinstance(r, fx.Node) else r for r in one.args[0]]
        elif one.op == "get_attr":  # a branch of a condition inside this one
            name = f"{branch.target}_{one.target}"
            setattr(module, name, getattr(inner, one.target))
            known[one] = module.graph.get_attr(name)
        else:
            known[one] = module.graph.node_copy(one, lambda n: known[n])
    return []


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
