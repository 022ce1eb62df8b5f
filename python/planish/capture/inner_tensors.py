"""Parameters and buffers of classes that hold other tensors: torch takes them apart for a graph, under names of its own. They get those by which the
module's own are found (ship/wrapped.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from planish.errors import task_error
from planish.ship import wrapped

_TORCHS = re.compile(r"(?:(.*)\.)?parametrizations\.([^.]+)\.original(\d+)")


def name_inner_tensors(program: ExportedProgram, model: torch.nn.Module, path: Path) -> None:
    """Names the tensors inside of the model's own in the program's signature. Raises PlanishError (not_exportable) where forward changes them."""
    signature = program.graph_signature
    outer = {name: t for name, t in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)) if wrapped.holds_others(t)}
    if not outer:
        return
    for spec in signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            spec.target = _own_name(str(spec.target), outer)
    for out in signature.output_specs:
        if out.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION) and (name := _outer_name(str(out.target))) in outer:
            what = f"forward changes '{name}', a {type(outer[name]).__name__}, which holds other tensors"
            raise task_error("not_exportable", path, f"{what}: a program changes plain buffers alone", "keep what forward changes in a plain buffer")


def on_plain_tensors(model: torch.nn.Module, args: Any, kwargs: Any) -> torch.nn.Module:
    """The same computation by torch's operators on plain tensors, where parameters or buffers hold others. Raises whatever torch.export does."""
    if not wrapped.are_in(model):
        return model
    with torch.no_grad(), no_gradients_inside(model):
        made: torch.fx.GraphModule = torch.export.export(model, args, kwargs, strict=False).run_decompositions().module(check_guards=False)
    for node in list(made.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # of the types that it was exported in
            made.graph.erase_node(node)
    made.recompile()
    return made


@contextmanager
def no_gradients_inside(model: torch.nn.Module) -> Iterator[None]:
    """While this holds, parameters that hold others require no gradients: torch would ask the same of what is inside, codes among it."""
    asking = [p for p in model.parameters() if wrapped.holds_others(p) and p.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


def _outer_name(torchs: str) -> str:
    found = _TORCHS.fullmatch(torchs)
    return torchs if found is None else ".".join(part for part in found.groups()[:2] if part)


def _own_name(torchs: str, outer: dict[str, torch.Tensor]) -> str:
    name = _outer_name(torchs)
    found = _TORCHS.fullmatch(torchs)
    if found is None or name not in outer:
        return torchs
    return [path for path, _ in wrapped.inside(outer[name], name)][int(found[3])]


def refuse_as_leaves(leaves: object, what: str, path: Path) -> None:
    """Raises PlanishError (unsupported_op) for arguments or results that hold other tensors: a program is entered and left by plain ones."""
    for tensor in pytree.tree_leaves(leaves):
        if wrapped.holds_others(tensor):
            message = f"{what} is a {type(tensor).__name__}, which holds other tensors: a program takes and returns plain ones"
            raise task_error("unsupported_op", path, message, "quantise inside the module, or pass the tensors inside it")
