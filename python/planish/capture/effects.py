"""What eager does to the tensors that a call changes, beside their values: version counters, and autograd's graph."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from planish.capture.hidden_state import weights_of_hooks_kept

_EFFECTS = ("mutate_buffer", "mutate_input")


def describe_effects(document: dict[str, Any], program: ExportedProgram, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Adds to each effect among the document's outputs (docs/formats/graph.md) `versions`, `differentiable` and `read`. Where the model can
    be run neither on tensors without contents nor as a copy, they are left out, and readers assume the most cautious. Changes nothing."""
    effects = [o for o in document["outputs"] if o["kind"] in _EFFECTS]
    if not effects:
        return
    inputs = {o["target"] for o in effects if o["kind"] == "mutate_input"}
    try:
        with weights_of_hooks_kept(model):
            seen = _without_contents(model, args, kwargs, inputs)
    except Exception:  # it looks at contents
        try:
            seen = _copied(model, args, kwargs, inputs)
        except Exception:
            return
    read = _read_by_results(program)
    for effect in effects:
        versions, differentiable = seen[effect["target"]]
        effect |= {"versions": versions, "differentiable": differentiable, "read": effect["target"] in read}


_Seen = dict[str | int, tuple[int, bool]]  # by a buffer's name or an input's leaf: versions, and whether it requires gradients then


def _without_contents(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: set[int]) -> _Seen:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake: dict[int, torch.Tensor] = {}

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        return fake.setdefault(id(tensor), mode.from_tensor(tensor, static_shapes=True))

    state = {n: faked(t) for n, t in [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]}
    args, kwargs = pytree.tree_map_only(torch.Tensor, faked, (args, kwargs))
    buffers = {n: state[n] for n, _ in model.named_buffers(remove_duplicate=False)}
    with mode:
        return _observed(buffers, args, kwargs, inputs, lambda: torch.func.functional_call(model, state, args, kwargs))


def _copied(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: set[int]) -> _Seen:
    model, args, kwargs = copy.deepcopy((model, args, kwargs))
    cuda = sorted({t.device.index for t in model.parameters() if t.is_cuda})
    with torch.random.fork_rng(devices=cuda):
        return _observed(dict(model.named_buffers(remove_duplicate=False)), args, kwargs, inputs, lambda: model(*args, **kwargs))


def _observed(buffers: dict[str, torch.Tensor], args: Any, kwargs: Any, inputs: set[int], call: Any) -> _Seen:
    leaves = pytree.tree_leaves((args, kwargs))
    watched: dict[str | int, torch.Tensor] = {leaf: leaves[leaf] for leaf in inputs}
    watched.update(buffers)
    before = {key: t._version for key, t in watched.items()}
    with torch.enable_grad():
        call()
    return {key: (t._version - before[key], t.requires_grad) for key, t in watched.items()}


def _sources(node: fx.Node) -> list[fx.Node]:
    """What a value depends on. In training a batch norm reads its running statistics for the new ones alone."""
    source = node.args[0] if str(node.target) == "<built-in function getitem>" else None
    if isinstance(source, fx.Node) and str(source.target).startswith("aten._native_batch_norm_legit_functional"):
        x, weight, bias, _, _, training, *_ = source.args
        if training and isinstance(node.args[1], int) and node.args[1] < 3:
            return [n for n in (x, weight, bias) if isinstance(n, fx.Node)]
    return node.all_input_nodes


def _read_by_results(program: ExportedProgram) -> set[str | int]:
    """The names of buffers, and the leaves of inputs, on whose values the results depend."""
    signature = program.graph_signature
    output = next(node for node in program.graph.nodes if node.op == "output")
    results = [source for spec, source in zip(signature.output_specs, output.args[0], strict=True) if spec.kind == OutputKind.USER_OUTPUT]
    todo = [node for node in results if isinstance(node, fx.Node)]
    reached: set[fx.Node] = set()
    while todo:
        node = todo.pop()
        if node not in reached:
            reached.add(node)
            todo += _sources(node)
    names = {node.name for node in reached}
    users = [spec.arg.name for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
    found: set[str | int] = {leaf for leaf, name in enumerate(users) if name in names}
    return found | {str(spec.target) for spec in signature.input_specs if spec.kind == InputKind.BUFFER and spec.arg.name in names}
