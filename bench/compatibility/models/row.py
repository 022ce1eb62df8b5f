"""What becomes of one model: built, captured, run as a program of PyTorch's own operators, and searched."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import planish
import torch
from entry import Call, Entry, Subject
from planish.capture import capture
from planish.capture.live import redraw
from planish.capture.opaque import KINDS
from planish.ship import holders
from planish.ship.guards import configuration
from shipping import aten_program, write
from torch.utils import _pytree as pytree

_CLOSE = {"rtol": 2e-3, "atol": 2e-3}
_SENTENCE = 400  # characters of a message that are kept


def row_of(entry: Entry, budget: float, most: float) -> dict[str, Any]:
    """A row of the table. `budget` and `most`: seconds of the search, and of all around it; without a budget nothing is searched or timed.

    `form`: whole, pieces, refused (a sentence that says what to do), wrong, internal (our own fault), or unmade (the library could not make or call it).
    """
    start = time.monotonic()
    row: dict[str, Any] = {"name": entry.name, "library": entry.library, "called": entry.called, "form": "unmade", "said": "", "ran": None, "calls": None}
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            subject = entry.make()
            twin = copy.deepcopy(subject.module)
            _called(twin, subject.call)
    except Exception as error:
        return row | {"said": _short(f"{type(error).__name__}: {error}"), "traceback": traceback.format_exc()[-1500:], "seconds": _since(start)}
    try:
        with torch.no_grad():
            row |= _as_program(subject)
        if budget and row["form"] in ("whole", "pieces"):
            row |= _searched(subject, budget, most)
    except planish.PlanishError as error:
        if error.kind == "out_of_time":
            return row | {"outcome": "out of time", "reason": _short(error.message), "seconds": _since(start)}
        form = "internal" if error.kind == "internal" or not error.hint else "refused"
        row |= {"form": form, "kind": error.kind, "said": _short(f"{error.message} ({error.hint})")}
    except Exception as error:
        row |= {"form": "internal", "said": _short(f"{type(error).__name__}: {error}"), "traceback": traceback.format_exc()[-1500:]}
    return row | {"seconds": _since(start)}


def _since(start: float) -> float:
    return round(time.monotonic() - start, 1)


def _short(text: str) -> str:
    return text if len(text) <= _SENTENCE else text[: _SENTENCE - 1] + "…"


def _called(module: torch.nn.Module, call: Call) -> tuple[Any, Call]:
    """What the call gives, and the arguments as it leaves them."""
    args, kwargs = copy.deepcopy(call)
    return module(*args, **kwargs), (args, kwargs)


def _as_program(subject: Subject) -> dict[str, Any]:
    """The graph in PyTorch's own operators in place of the module: capture, guards and what a call does to its arguments are tried, not kernels."""
    eager, ours = copy.deepcopy(subject.module), copy.deepcopy(subject.module)
    wanted = subject.use() if subject.use else None
    with tempfile.TemporaryDirectory() as folder:
        try:
            _attach(subject.module if subject.use else ours, eager, Path(folder) / "first", subject.call)
        except planish.PlanishError as error:
            if error.kind not in KINDS:
                raise
            return {"form": "pieces", "kind": error.kind, "said": _short(error.message)}
        if subject.use:
            problem = _unlike(subject.use(), wanted, exact=not wanted.is_floating_point())
            status = planish.status(subject.module)
            if not problem and status.calls - status.ran > 1 and subject.last is not None:  # the first call of all is a prompt, or has no cache yet
                _attach(subject.module, eager, Path(folder) / "last", subject.last)
                before = status.ran, status.calls
                problem = _unlike(subject.use(), wanted, exact=not wanted.is_floating_point())
                status = planish.status(subject.module)
                status = dataclasses.replace(status, ran=status.ran - before[0])
                found = {"programs": 2, "calls": before[1]}
            else:
                found = {"calls": status.calls}
            planish.detach(subject.module)
        else:
            problem = next(filter(None, (_other_call(eager, ours, subject.call, seed) for seed in range(2))), "")
            status = planish.status(ours)
            found = {"calls": status.calls}
    found |= {"form": "whole", "ran": status.ran}
    if status.ran < found["calls"]:
        found["said"] = _short("; ".join(f"{count} times: {why}" for why, count in status.fell_back.items()))
    return found | ({"form": "wrong", "said": problem} if problem else {})


def _attach(module: torch.nn.Module, eager: torch.nn.Module, folder: Path, call: Call) -> None:
    """Gives `module` a program that does what `eager`, the same without a program, does in such a call."""
    args, kwargs = copy.deepcopy(call)
    shipped = folder / "shipped"
    (shipped / "blobs").mkdir(parents=True)
    modules = configuration(eager)  # before its first call, which may set up what later ones need
    graph = capture(eager, args, kwargs, shipped / "blobs").graph
    (shipped / "module.py").touch()
    planish.load(write(shipped, folder, aten_program(graph), graph, modules=modules), module)


def _other_call(eager: torch.nn.Module, ours: torch.nn.Module, call: Call, seed: int) -> str:
    """How the two differ on data like the example's."""
    generator = torch.Generator().manual_seed(seed)
    with holders.registered(call):
        call = pytree.tree_map(lambda x: redraw(x, generator), call)
    theirs, mine = (_called(module, call) for module in (eager, ours))
    with holders.registered(call, theirs[0]):
        return _unlike(mine, theirs, exact=False)


def _unlike(mine: Any, theirs: Any, exact: bool) -> str:
    (a, form), (b, other) = pytree.tree_flatten(mine), pytree.tree_flatten(theirs)
    if form != other:
        return "its results are nested otherwise than eager's"
    for x, y in zip(a, b, strict=True):
        if not isinstance(x, torch.Tensor):
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"a result is {x.dtype}{list(x.shape)}, eager's is {y.dtype}{list(y.shape)}"
        if not (torch.equal(x, y) if exact or not x.is_floating_point() else torch.allclose(x, y, equal_nan=True, **_CLOSE)):
            return f"a result of shape {list(x.shape)} differs by up to {float((x.double() - y.double()).abs().max()):.3g} from eager's"
    return ""


def _searched(subject: Subject, budget: float, most: float) -> dict[str, Any]:
    """`planish.optimize` beside eager, and the library's own code on what it leaves."""
    use: Callable[[], Any] | None = subject.use
    with torch.no_grad():
        wanted = use() if use else None
        found = planish.optimize(subject.module, copy.deepcopy(subject.call), budget=budget, max_time=most, baselines="eager", progress=False)
        times = {name: row["median"] for name, row in (found.result.get("times_ms") or {}).items() if "median" in row}
        row: dict[str, Any] = {"form": "pieces" if found.timed == "pieces" else "whole", "outcome": found.result["outcome"], "times_ms": times}
        if found.improved:
            row["gain"] = round(found.speedup, 3)
            if use:
                same = _unlike(use(), wanted, exact=not wanted.is_floating_point())
                row |= {"form": "wrong", "said": f"with the program that was found {same}"} if same else {}
        else:
            row["reason"] = _short(found.reason)
        if found.timed == "pieces":
            row["said"] = _short(str(found.result.get("refusal", "")))
        accuracy = found.result.get("accuracy") or {}
        row["verified"] = bool(accuracy.get("verified", found.improved)) if accuracy else None
    return row
