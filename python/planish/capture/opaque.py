"""A task that has no graph: its module is one node of a document, and its own reference (docs/accuracy.md).

What torch.export cannot follow (a loop over lengths that lie in a tensor, an operator of somebody's own) is still a function of its inputs.
The document names these, the results and the effects; whoever runs the node runs the module.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from planish import generators
from planish.capture import arguments, draws
from planish.capture.export import Captured, device_of
from planish.capture.refusals import no_strided_tensor, refuse_dtype
from planish.errors import PlanishError, task_error
from planish.ship.guards import name_types

OPERATOR = "planish.module.default"
#: What capture says of modules that may still be run; what else it says is wrong with them whoever runs them.
KINDS = frozenset({"data_dependent", "unsupported_op", "not_exportable"})
_LINE = re.compile(r"\(([^():]+\.py):(\d+)")


class SizesVaryError(RuntimeError):
    """The module returned something of another form than on its own data."""


class Module:
    """The node's target: from the tensors of the document's inputs, in order, to what the node gives. Changes none of them."""

    _schema = torch._C.parse_schema("planish::module(Tensor[] inputs) -> Tensor[]")
    __name__ = "module"  # what fx calls the node by
    tags = ()

    def __init__(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path) -> None:
        self.model = model
        self.path = path
        leaves, self.tree = pytree.tree_flatten((args, kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        users: list[tuple[str, str | int, torch.Tensor]] = [("user", i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        state: list[tuple[str, str | int, torch.Tensor]] = [("param", n, p.detach()) for n, p in model.named_parameters()]
        state += [("buffer", n, b) for n, b in model.named_buffers()]
        self.inputs = [(kind, key) for kind, key, _ in (*state, *users)]
        self.tensors = [tensor for _, _, tensor in (*state, *users)]  # let go of once it has been looked at
        self.dtypes = [tensor.dtype for tensor in self.tensors]
        self.device = device_of((args, kwargs), model)
        self.default_dtype = torch.get_default_dtype()
        self.draws = False  # from torch's generator
        self.written: list[int] = []  # places of inputs that a call writes into
        self.shapes: list[torch.Size] = []  # of what the node gives: the tensors of the result, then what was written
        self.plain: list[Any] = []  # what else the result holds
        self.seen: frozenset[str] = frozenset()  # names of the operators that its runs met
        self.seconds = 0.0  # that a run in double takes
        self.reads: list[Any] = []  # what Python learned of values in the last run: numbers, truths, sizes

    def call(self, tensors: Sequence[torch.Tensor]) -> tuple[list[Any], Any, list[torch.Tensor]]:
        """(leaves of the result, its form, the inputs after the call). Writes into the tensors where the module does."""
        leaves, state = list(self.leaves), {}
        for (kind, key), tensor in zip(self.inputs, tensors, strict=True):
            if kind == "user":
                leaves[int(key)] = tensor
            else:
                state[str(key)] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        with torch.no_grad(), _reparametrize_module(self.model, state, tie_weights=True):
            result = self.model(*args, **kwargs)
            buffers = dict(self.model.named_buffers(remove_duplicate=False))
        after = [buffers[str(key)] if kind == "buffer" else tensor for (kind, key), tensor in zip(self.inputs, tensors, strict=True)]
        return *pytree.tree_flatten(result), after

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        given = [t.clone() if i in self.written else t for i, t in enumerate(tensors)]
        versions = [t._version for t in given]
        leaves, _, after = self.call(given)
        if any(t._version != v for i, (t, v) in enumerate(zip(given, versions, strict=True)) if i not in self.written):
            raise SizesVaryError("it writes into an input that it left alone on its own data")
        found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)] + [after[i] for i in self.written]
        if [t.shape for t in found] != self.shapes:
            raise SizesVaryError("its results have other sizes than on its own data")
        if [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)] != self.plain:
            raise SizesVaryError("it returns other numbers than on its own data")
        return found


def opaque(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path, refusal: PlanishError) -> Captured:
    """The document of a module that `refusal` says has no graph. Runs it once. Raises the refusal where it cannot be run on tensors and
    numbers alone either."""
    target = Module(model, args, kwargs, path)
    try:
        scalars = [{"index": i, "arg": arguments.encode_plain(leaf, path)} for i, leaf in enumerate(target.leaves) if not _is_tensor(target, i)]
        name_types()
        input_tree = str(pytree.treespec_dumps(target.tree))
    except (PlanishError, NotImplementedError):
        raise refusal from None
    for (_, key), tensor in zip(target.inputs, target.tensors, strict=True):
        if no_strided_tensor(tensor):
            raise refusal
        refuse_dtype(tensor.dtype, f"the input '{key}' is", path)
    given = [t.clone() for t in target.tensors]
    versions = [t._version for t in given]
    state = generators.state(target.device)
    leaves, form, after = target.call(given)
    target.draws = not torch.equal(generators.state(target.device), state)
    target.written = [i for i, (a, b, v) in enumerate(zip(given, after, versions, strict=True)) if a is not b or b._version != v]
    _refuse_shared(target, refusal)
    return _document(target, leaves, form, after, (scalars, input_tree), refusal)


def _is_tensor(target: Module, leaf: int) -> bool:
    return ("user", leaf) in target.inputs


def _refuse_shared(target: Module, refusal: PlanishError) -> None:
    """Inputs are memory of their own wherever they are run: what one that is written shares with another would be lost."""
    memory = [t.untyped_storage().data_ptr() if t.numel() else 0 for t in target.tensors]
    if any(memory[i] and memory.count(memory[i]) > 1 for i in target.written):
        message = "writes into an input that shares its memory with another"
        raise task_error("not_exportable", target.path, message, "pass the whole once, and take the parts inside the module") from refusal


def _document(target: Module, leaves: list[Any], form: Any, after: list[torch.Tensor], call: tuple[Any, str], refusal: PlanishError) -> Captured:
    values: list[dict[str, Any]] = []

    def value(tensor: torch.Tensor) -> int:
        values.append({"dtype": arguments.dtype_name(tensor.dtype), "shape": list(tensor.shape), "strides": list(tensor.stride()),
                       "device": tensor.device.type})  # fmt: skip
        return len(values) - 1

    names = _names(target)
    inputs = []
    for (kind, key), tensor, name in zip(target.inputs, target.tensors, names, strict=True):  # the first values, in order
        inputs.append({"value": value(tensor), "kind": kind, "name": name} | ({"index": key} if kind == "user" else {}))
    outs: list[int] = []
    outputs: list[dict[str, Any]] = []
    for result in leaves:
        if not isinstance(result, torch.Tensor):
            target.plain.append(result)
            outputs.append({"kind": "scalar", "arg": _plain(result, target, refusal)})
            continue
        if no_strided_tensor(result):
            raise refusal
        refuse_dtype(result.dtype, "a result is", target.path, result=True)
        # Also what is an input here, or the same twice: with other data it may be another.
        outs.append(value(result))
        target.shapes.append(result.shape)
        outputs.append({"value": outs[-1], "kind": "user"})
    for place in target.written:
        kind, key = target.inputs[place]
        outs.append(value(after[place]))
        target.shapes.append(after[place].shape)
        outputs.append({"value": outs[-1], "kind": "mutate_input" if kind == "user" else "mutate_buffer", "target": key,
                        "versions": 1, "differentiable": False, "read": True})  # fmt: skip
    drawn: list[dict[str, Any]] = []
    if target.draws:
        before, behind = (value(generators.state(target.device)) for _ in range(2))
        inputs.append({"value": before, "kind": draws.INPUT, "name": "generator"})
        drawn.append({"name": draws.ARGUMENT, "value": before})
        outputs.append({"value": behind, "kind": draws.OUTPUT})
        outs.append(behind)
    graph = fx.Graph()
    placeholders = [graph.placeholder(f"input_{i}") for i in range(len(target.inputs))]
    for node, tensor in zip(placeholders, target.tensors, strict=True):
        node.meta["val"] = tensor.to("meta") if tensor.numel() else tensor
    node = graph.create_node("call_function", target, (placeholders,))  # type: ignore[arg-type]
    value_of: dict[tuple[fx.Node, int | None], int] = {(p, None): place for place, p in enumerate(placeholders)}
    value_of |= {(node, k): out for k, out in enumerate(outs)}
    why = refusal.message.removeprefix(f"{target.path}: ")
    args = [{"name": "inputs", "values": list(range(len(target.inputs)))}, {"name": "refusal", "str": why}, *drawn]
    written: dict[str, Any] = {"op": OPERATOR, "args": args, "outs": outs}
    if line := _LINE.search(refusal.message):
        written["source"] = {"file": Path(line[1]).name, "line": int(line[2])}
    document = {
        "schema": "planish.graph/1", "torch": torch.__version__, "values": values, "inputs": inputs, "nodes": [written], "outputs": outputs,
        "input_tree": call[1], "output_tree": _tree(form, refusal), "scalars": call[0],
    }  # fmt: skip
    return Captured(document, None, [node], placeholders, value_of, target.model)


def _names(target: Module) -> list[str]:
    """Of inputs: in the module for its state, else the parameter of forward, numbered where it holds several tensors."""
    args, kwargs = pytree.tree_unflatten(range(len(target.leaves)), target.tree)
    try:
        bound = inspect.signature(target.model.forward).bind(*args, **kwargs).arguments
    except TypeError:
        bound = {"input": (args, kwargs)}
    parts = {name: pytree.tree_leaves(tree) for name, tree in bound.items()}
    name_of = {leaf: (name, len(leaves) > 1) for name, leaves in parts.items() for leaf in leaves}
    found = []
    for kind, key in target.inputs:
        name, several = name_of.get(int(key), ("input", True)) if kind == "user" else (str(key), False)
        found.append(f"{name}_{key}" if several else name)
    return found


def _plain(result: Any, target: Module, refusal: PlanishError) -> dict[str, Any]:
    try:
        return arguments.encode_plain(result, target.path)
    except PlanishError:
        raise refusal from None


def _tree(form: Any, refusal: PlanishError) -> str:
    try:
        return str(pytree.treespec_dumps(form))
    except NotImplementedError:
        raise refusal from None
