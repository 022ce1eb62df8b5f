"""Why a program cannot be captured, in words: the operator, the user's line, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound

from planish.capture import arguments
from planish.capture.source import line_of, line_of_error
from planish.errors import PlanishError, first_line, task_error
from planish.ship import wrapped

_BEFORE = "do it before the module is called, and pass its result as an input"
_OWN_SHAPE = "give the result a fixed shape: torch.where(mask, x, 0) in place of x[mask], torch.nonzero_static(x, size=n) in place of torch.nonzero(x)"
_SLICE = "take rows from n on by an index, x[n + torch.arange(4, device=x.device)], in place of x[n:n + 4]"
#: By operator: how its result gets a size that does not depend on values.
_FIXED_SIZE = {
    "nonzero": _OWN_SHAPE,
    "masked_select": _OWN_SHAPE,
    "index": _OWN_SHAPE,
    "repeat_interleave": "say how long the result is: repeat_interleave(..., output_size=n)",
    "bincount": "count into a fixed number of places: torch.zeros(n).scatter_add(0, x, torch.ones(len(x))), or bincount(x.clamp(0, n - 1), minlength=n)",
    "_local_scalar_dense": "keep it a tensor: 0-dimensional ones take part in arithmetic and torch.where; give one_hot and the like their sizes as numbers; "
    + _SLICE,
}
_CONTAINERS = "pass and return tensors, numbers, and tuples, lists, dicts, dataclasses or plain objects of them (docs/python.md)"
_REWRITE = "rewrite the part that torch.export names"
#: By higher-order operator: what says the same in operators that a program may hold.
_IN_ITS_PLACE = {
    "while_loop": "write the loop in Python with a fixed number of steps, or leave it outside",
}


def user_name(node: fx.Node) -> str:
    """An operator as its users know it: `nonzero` for aten.nonzero.default."""
    schema = getattr(node.target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema is not None else str(getattr(node.target, "__name__", node.target))


def unsized(node: fx.Node, path: Path) -> PlanishError:
    """A result of the node, or a number that it takes, is only known when the values are."""
    name = user_name(node)
    if name == "_local_scalar_dense":
        what = f"makes a Python number of a tensor{line_of(node)}, on which the rest depends"
    else:
        what = f"uses {name}{line_of(node)}, whose result has a size that depends on values"
    return task_error("data_dependent", path, what, _FIXED_SIZE.get(name, _BEFORE))


def without_form(node: fx.Node, path: Path) -> PlanishError:
    """The node's operator is none that a graph can hold."""
    name = user_name(node)
    theirs = getattr(node.target, "namespace", "")
    kind = (
        "a custom operator"
        if isinstance(node.target, torch._ops.OpOverload)
        else "an operator that takes functions"
        if theirs == "higher_order"
        else "no operator"
    )
    name = f"{theirs}.{name}" if kind == "a custom operator" else name
    return task_error("unsupported_op", path, f"uses {name}{line_of(node)}, {kind}: a graph holds ATen operators alone",
                      _IN_ITS_PLACE.get(name, "write it with PyTorch's own operators, or move it out of the module that is optimised"))  # fmt: skip


def no_strided_tensor(tensor: Any) -> str:
    """What kind of tensor it is, where it is no plain one in memory; else nothing."""
    if tensor.layout is not torch.strided:
        return f"a {str(tensor.layout).removeprefix('torch.')} tensor"
    return "a nested tensor" if tensor.is_nested else "a quantized tensor" if tensor.is_quantized else ""


def not_strided(node: fx.Node, kind: str, path: Path) -> PlanishError:
    """The node gives a tensor of a `kind` (no_strided_tensor) that kernels have no form for."""
    what = f"the input '{node.name}' is" if node.op == "placeholder" else f"uses {user_name(node)}{line_of(node)}, which makes"
    return task_error("unsupported_op", path, f"{what} {kind}: programs work on strided tensors alone",
                      "pass dense tensors (.to_dense(), .dequantize(), to_padded_tensor()), or move that part out of the module")  # fmt: skip


def refuse_dtype(dtype: torch.dtype, what: str, path: Path, result: bool = False) -> None:
    """Raises PlanishError (unsupported_op) for types that tensors of a task may not have where it is entered or left: nothing compares them,
    and no data are drawn in them (as a `result` unsigned integers will do). `what` says whose it is, up to the verb."""
    more = (torch.complex64, torch.complex128, *((torch.uint16, torch.uint32, torch.uint64) if result else ()))
    if dtype not in arguments.DTYPES and dtype not in more:
        raise task_error("unsupported_op", path, f"{what} of type {str(dtype).removeprefix('torch.')}, which cannot be proved",
                         "cast inside the module, so that it takes and returns one of the usual types (float32, bfloat16, int8, float8, …)")  # fmt: skip


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """What torch.export raises, as PlanishError."""
    try:
        yield
    except PlanishError:
        raise
    except Exception as error:
        raise as_refusal(error, path) from error


def as_refusal(error: Exception, path: Path) -> PlanishError:
    """What torch.export raised, in words. What has words already stays."""
    if isinstance(error, PlanishError):
        return error
    text = str(error)
    where = line_of_error(error)
    if type(error).__name__ == "DynamicOutputShapeException":
        operator = str(error).removeprefix("aten.").removesuffix(".default")
        return task_error("data_dependent", path, f"uses {operator}{where}, whose result has a form that depends on values", _FIXED_SIZE.get(operator, _BEFORE))
    if (
        isinstance(error, GuardOnDataDependentSymNode | PendingUnbackedSymbolNotFound)
        or "data-dependent" in text.lower()
        or "DataDependent" in type(error).__name__
    ):
        return task_error("data_dependent", path, f"cannot be captured: its control flow depends on tensor values{where}",
                          f"replace the branch by torch.where, or by torch.cond where the branches are dear; {_SLICE}")  # fmt: skip
    if "is mutated in the forward method" in text:
        return _refused(error, where, path, "a tensor that forward changes is state: register_buffer it")
    if found := re.search(r"Unsupported input type <class '([\w.]+)'>", text):
        return task_error("not_exportable", path, f"an argument is a {found[1]}, which torch takes for no container of tensors", _CONTAINERS)
    if found := re.search(r"Found <class '([\w.]+)'> in output", text):
        return task_error("not_exportable", path, f"a result holds a {found[1]}, which torch takes for no container of tensors", _CONTAINERS)
    return _refused(error, where, path, _REWRITE)


def of_tensor_class(error: PlanishError, model: torch.nn.Module, path: Path) -> PlanishError:
    """What was refused, by the class of a parameter or buffer where that is no plain tensor's and does not say what it holds."""
    known = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if type(tensor) not in known and not wrapped.holds_others(tensor):
            what = f"'{name}' is {_article(type(tensor).__name__)}, a class of tensors that torch.export cannot follow: it has no __tensor_flatten__"
            told = error.message.partition("cannot be captured: ")[2] or error.message
            hint = "keep codes and scales in plain tensors, and dequantise in forward; or quantise with a library whose tensors have it (torchao)"
            return task_error("not_exportable", path, f"{what} ({told})", hint)
    return error


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _refused(error: Exception, where: str, path: Path, hint: str) -> PlanishError:
    return task_error("not_exportable", path, f"cannot be captured: torch.export refuses it{where}: {first_line(error)}", hint)
