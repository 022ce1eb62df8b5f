"""Whether the captured graph does what the model does, where rounding alone could hide or fake the answer.

Normalisation by the batch amplifies rounding from layer to layer, and eager and the graph take different kernels: in a deep network their
results may be far apart although both are right. So it is decided in double precision, where what rounding leaves is a billion times smaller.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from planish import float8
from planish.capture.inner_tensors import on_plain_tensors
from planish.capture.task import answer_of
from planish.oracle import flags, gate
from planish.oracle.gate import Accuracy
from planish.oracle.interpret import Double, Interpreter, op_name
from planish.oracle.promoted import Undecided, named, promote
from planish.oracle.promoted import in_double as promoting

SANE = 1e-2  # two runs of one program may differ by this much before it is asked why
_SANE_IN_DOUBLE = 1e-4
_ROOM = 64.0  # times what the reference moves by when every value is rounded; the gate allows a quarter of it
_LARGE = 1 << 24  # elements of a parameter
_CHAOS = 0.1  # where it moves by more, nothing can be told


def agree(a: torch.Tensor, b: torch.Tensor, tolerance: float = SANE) -> bool:
    """Equal beyond rounding (NaN equals NaN)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = float8.computable(_real(a)), float8.computable(_real(b))
    if torch.equal(a, b):
        return True
    if not a.is_floating_point():
        return float((a != b).double().mean()) < tolerance
    room = tolerance * float(torch.nan_to_num(b, 0, 0, 0).abs().max().clamp_min(1e-30))
    return bool(torch.allclose(a, b, rtol=tolerance, atol=room, equal_nan=True))


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def in_double(model: torch.nn.Module, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that `model` gives as a graph would (`answer_of`), computed in double. See result_in_double()."""
    found = result_in_double(model, args, kwargs, answer_of)
    return [leaf.detach() for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]


def result_in_double(model: torch.nn.Module, args: Any, kwargs: Any, ask: Callable[[torch.nn.Module, Any, Any], Any]) -> Any:
    """What `ask` finds of the model and its call, computed in double throughout: casts, constants and created tensors included. `model` is changed, but for
    its large parameters, which become doubles where they are used: all at once may not fit. Tensors of the call that are doubles already may be written
    into. Raises Undecided where that cannot be done; exhausted memory as torch does."""
    try:
        large = {p.data_ptr() for p in model.parameters() if is_large(p)}
        types = {name: t.dtype for name, t in _state(model)}
        model._apply(lambda t: t if t.data_ptr() in large else promote(t))
        for name, tensor in _state(model):
            if tensor.data_ptr() not in large:
                named(tensor, types[name])
        args, kwargs = pytree.tree_map(lambda x: named(promote(x), x.dtype) if isinstance(x, torch.Tensor) else x, (args, kwargs))
        with promoting(types=False):
            return ask(model, args, kwargs)
    except (Undecided, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if "can't allocate memory" in str(error):
            raise
        raise Undecided(str(error)) from error


def is_large(parameter: torch.nn.Parameter) -> bool:
    """Whether result_in_double() leaves it as it is."""
    return parameter.numel() >= _LARGE


def twin_of(model: torch.nn.Module, rebuild: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A model for result_in_double(): a copy that shares the large parameters, else, where it cannot be copied, another one."""
    try:
        return copy.deepcopy(model, {id(p): p for p in model.parameters() if is_large(p)})
    except Exception:  # whatever a class of the user's raises when it is copied
        return rebuild()


def _state(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def same_in_double(run: Interpreter, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], model: torch.nn.Module, call: Any) -> bool:
    """Whether graph and model give the same in double. Raises Undecided."""
    try:
        model = on_plain_tensors(model, *call)
    except Exception as error:  # torch's exporter, on a class of tensors that it does not follow
        raise Undecided(str(error)) from error
    theirs = in_double(model, *call)
    ours = run.run(inputs, wanted, Double())
    return all(agree(ours[v], promote(t), _SANE_IN_DOUBLE) for v, t in zip(wanted, theirs, strict=False))


def explained_by_rounding(
    run: Interpreter, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], ours: Mapping[int, torch.Tensor], theirs: Sequence[torch.Tensor]
) -> bool:
    """Whether what two runs differ by is what the reference itself moves by when each of its values is rounded, to TF32 where torch's flags permit that."""
    device = next(iter(inputs.values())).device
    modes = [Double(delta=gate.DELTA, generator=torch.Generator(device).manual_seed(7919 + draw)) for draw in range(gate.RESPONSE_DRAWS)]
    operations = flags.tf32_operations(device, Accuracy("permitted"))
    if operations and any(op_name(run.captured.nodes[i]) in operations for i in run.nodes):
        modes.append(Double(tf32=operations))
    exact = run.run(inputs, wanted, Double())
    moved = dict.fromkeys(wanted, 0.0)
    for mode in modes:
        again = run.run(inputs, wanted, mode)
        moved = {v: max(moved[v], _apart(again[v], exact[v])) for v in wanted}
    return all(moved[v] < _CHAOS and _apart(ours[v], t) <= _ROOM * moved[v] for v, t in zip(wanted, theirs, strict=False))


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative Frobenius distance of floats, the share of different elements otherwise."""
    if a.shape != b.shape:
        return float("inf")
    a, b = _real(a), _real(b)
    if not a.is_floating_point():
        return float((a != b).double().mean()) if a.numel() else 0.0
    a, b = a.to(torch.float64), b.to(torch.float64)
    scale = float(torch.linalg.vector_norm(torch.nan_to_num(b)))
    return float(torch.linalg.vector_norm(torch.nan_to_num(a) - torch.nan_to_num(b))) / scale if scale else float((a != b).any())
