"""Values of a graph's nodes that are the same at each call: they follow from constants and from what makes numbers of nothing (`arange`, `full`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

_MOST = {
    True: 1 << 26,
    False: 1 << 20,
}  # elements of truth values (a mask of attention), and of numbers; larger ones are computed by nobody while a graph is made


class KnownValues:
    """Computes whole numbers and truth values as they are asked for. What is no whole number is not known: a program computes it as eager does."""

    def __init__(self, known: Mapping[fx.Node, torch.Tensor]) -> None:
        self._values: dict[fx.Node, torch.Tensor | None] = dict(known)
        self._met: list[fx.Node] = []

    @staticmethod
    def of(program: ExportedProgram) -> KnownValues:
        """What the program's constants say."""
        names = {s.arg.name: str(s.target) for s in program.graph_signature.input_specs if s.kind == InputKind.CONSTANT_TENSOR}
        return KnownValues({n: program.constants[names[n.name]] for n in program.graph.nodes if n.op == "placeholder" and n.name in names})

    def value(self, node: Any) -> torch.Tensor | None:
        if not isinstance(node, fx.Node):
            return None
        if node not in self._values:
            self._values[node] = self._computed(node)
        return self._values[node]

    def _computed(self, node: fx.Node) -> torch.Tensor | None:
        target, meta = node.target, node.meta.get("val")
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            return None
        if torch.Tag.nondeterministic_seeded in target.tags or (target._schema.is_mutable and target is not torch.ops.aten.detach_.default):
            return None
        if not isinstance(meta, torch.Tensor) or meta.numel() > _MOST[meta.dtype == torch.bool] or meta.is_floating_point() or meta.is_complex():
            return None
        given: dict[fx.Node, torch.Tensor] = {}
        for one in node.all_input_nodes:
            value = self.value(one)
            if value is None:
                return None
            given[one] = value
        self._met.append(node)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: given[n])  # type: ignore[misc]
        with torch.no_grad():
            found: Any = target(*args, **kwargs)
        return found if isinstance(found, torch.Tensor) else None

    def erase_unread(self, graph: fx.Graph) -> None:
        """Of what was computed, the nodes that nothing reads any more."""
        for node in reversed(self._met):
            if not node.users:
                graph.erase_node(node)
