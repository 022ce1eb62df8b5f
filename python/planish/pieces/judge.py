"""A module that runs in pieces against itself as it was, run in double: the gate, over the whole call (decision 0160)."""

from __future__ import annotations

import copy
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from planish import generators
from planish.capture.live import redraw
from planish.capture.opaque import Module, SizesVaryError, opaque
from planish.capture.task import Inputs, answer_of
from planish.errors import PlanishError, first_line, is_device_failure
from planish.oracle import memory
from planish.oracle.expected import Expected
from planish.oracle.gate import Accuracy
from planish.oracle.interpret import Interpreter
from planish.oracle.region import judge_output
from planish.ship import holders

_REDRAWS = 8  # data sets that are tried, for DATA_SETS of which a rounding does not decide which way the model goes
DATA_SETS = 3


@dataclass
class Verdict:
    """`problem`: why it is not proved; empty where it is. Errors are relative Frobenius norms, the worst of all data sets and outputs."""

    problem: str = ""
    error: float = 0.0
    eager_error: float = 0.0
    ratio: float = 0.0  # of the worst statistic to its gate
    data_sets: int = 0
    note: str = ""


class _Anew(nn.Module):
    """Calls a copy of a module, so that what one call leaves in attributes is not what the next one finds. Parameters and buffers are shared."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        result = answer_of(twin(self.module, buffers=True), args, kwargs)
        holders.register(result)
        return result


def twin(module: nn.Module, buffers: bool = False) -> nn.Module:
    """A copy that shares the parameters, and with `buffers` these. Raises what a class of the user's raises when it is copied."""
    shared = [*module.parameters(), *(module.buffers() if buffers else ())]
    return copy.deepcopy(module, {id(t): t for t in shared})


def judge(eager: nn.Module, pieces: nn.Module, call: Inputs, accuracy: str, name: str, refusal: PlanishError) -> Verdict:
    """`eager` and `pieces` are the same module, as it was and as it runs now; neither is changed. The data are the example's, and others drawn from its
    elements, as far as results keep their sizes."""
    try:
        device = next((t.device for t in pytree.tree_leaves((call, *eager.parameters())) if isinstance(t, torch.Tensor)), torch.device("cpu"))
        with holders.registered(*call):
            return _judged(eager, pieces, call, Accuracy.parse(accuracy), name, refusal, device)
    except PlanishError as error:
        return Verdict(f"the whole cannot be judged: {error.message}")
    except Exception as error:
        if is_device_failure(error):
            raise
        what = "memory does not suffice" if memory.is_exhausted(error) else first_line(error)
        return Verdict(f"the whole cannot be judged: {what}")


def _judged(eager: nn.Module, pieces: nn.Module, call: Inputs, accuracy: Accuracy, name: str, refusal: PlanishError, device: torch.device) -> Verdict:
    path = Path(name)
    args, kwargs = copy.deepcopy(call)
    captured = opaque(_Anew(eager), args, kwargs, path, refusal)
    run = Interpreter(captured, [0])
    values = [item["value"] for item in captured.graph["inputs"]]
    outputs = list(enumerate(item["value"] for item in captured.graph["outputs"] if "value" in item))
    reference = captured.nodes[0].target
    assert isinstance(reference, Module)
    found = Verdict()
    generator = torch.Generator().manual_seed(0)
    for draw in range(_REDRAWS):
        if found.data_sets == DATA_SETS:
            break
        given = copy.deepcopy(call) if draw == 0 else pytree.tree_map(lambda x: _redrawn(x, generator), call)
        own, named = copy.deepcopy(given)
        tensors = Module(_Anew(eager), own, named, path).tensors
        state = generators.seeded(secrets.randbits(62), device)
        inputs = dict(zip(values, [*tensors, state] if reference.draws else tensors, strict=True))
        try:
            with torch.no_grad():
                expected = Expected.compute(run, inputs, outputs, device, accuracy)
        except (SizesVaryError, RuntimeError, ValueError, IndexError) as error:
            if draw == 0 or memory.is_exhausted(error) or is_device_failure(error):
                raise
            found.note = f"judged on the example's own data alone where others fail ({first_line(error)})"
            continue
        if expected.undecided:
            continue
        for index, result in enumerate(_results(pieces, given, reference, state)):
            row, trouble, text = judge_output(expected, index, result, None, inputs, "full")
            found.error, found.ratio = max(found.error, row["fro"]), max(found.ratio, row["ratio"])
            found.eager_error = max(found.eager_error, row["eager_fro"])
            if trouble is not None:
                found.problem = f"output {index} is not what the module gives: {text}"
                return found
        found.data_sets += 1
    if not found.data_sets:
        found.problem = "a rounding decides which way the module goes, whatever data are drawn"
    return found


def _results(pieces: nn.Module, given: Inputs, reference: Module, state: torch.Tensor) -> list[torch.Tensor]:
    """Of a call in pieces, on parameters that are these and with torch's generator in this state: what the reference gives, in its order. Raises
    PlanishError where they have another form."""
    running = twin(pieces)
    generators.restore(state, reference.device)
    with torch.no_grad():
        result = answer_of(running, *given)
    left = [generators.state(reference.device)] if reference.draws else []
    holders.register(result)
    leaves = pytree.tree_leaves(result)
    buffers, users = dict(running.named_buffers(remove_duplicate=False)), pytree.tree_leaves(given)
    places = [reference.inputs[place] for place in reference.written]
    after = [users[int(key)] if kind == "user" else buffers[str(key).removeprefix("module.")] for kind, key in places]
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)] + after
    plain = [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]
    if [t.shape for t in found] != reference.shapes or plain != reference.plain:
        raise PlanishError("capture_mismatch", "its pieces return something of another form than the module", "")
    return found + left


def _redrawn(x: Any, generator: torch.Generator) -> Any:
    return redraw(x.cpu(), generator).to(x.device) if isinstance(x, torch.Tensor) else copy.deepcopy(x)
