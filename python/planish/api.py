"""The public Python interface: optimise a module or a function, put a shipped program on a module (docs/python.md)."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils import _pytree as pytree

from planish import preload, session
from planish.capture.example_call import example_problem
from planish.capture.live import write_live
from planish.capture.numbers import leaves_of
from planish.counts import Status, status
from planish.errors import PlanishError
from planish.functions import Function, is_function
from planish.optimized import Optimized, gained, is_proved, named
from planish.pieces.search import Search, seconds
from planish.ship.hooks import package_hooks, weight_hooks
from planish.ship.live import FALLBACKS, detach, load
from planish.ship.reach import REMEDY, reach

__all__ = ["Optimized", "Settings", "Status", "detach", "load", "optimize", "status"]

M = TypeVar("M", bound=nn.Module)
P = ParamSpec("P")
R = TypeVar("R")

#: Errors with which another process refuses a pickled module that may do as an exported one: it is not read there, or needs what only this
#: process has (a tensor that it keeps on a device by itself, a registry that was filled here).
_NOT_READ = ("not_importable", "forward_failed")


class Settings(TypedDict, total=False):
    """Keywords of `optimize`; what is left out has its default."""

    target: str  #: cpu, cuda, or auto: where the module and its inputs are
    budget: str | float  #: of the search: seconds, or text such as "5m"
    max_time: str | float | None  #: of everything
    accuracy: str | float  #: eager, permitted, tf32, or a tolerance
    baselines: str | Sequence[str] | None  #: what it must beat; eager is always among them
    strategy: str | None  #: how it searches
    seed: int | None
    evals: int | None  #: bounds the search by candidates
    cold: bool  #: does not look at earlier runs
    fallback: str  #: what calls run that the program was not made for: original, or compile
    out: str | Path | None  #: a folder that keeps the task and what ships
    name: str | None  #: in reports
    progress: bool  #: on sys.stderr
    options: Sequence[str]  #: further options of the command
    pieces: bool  #: what cannot be captured whole is optimised in pieces
    specialize: bool | Sequence[str]  #: arguments whose integers the program may be made for


@overload
def optimize(module: M, example_inputs: Any, **settings: Unpack[Settings]) -> Optimized[M]: ...
@overload
def optimize(module: Callable[P, R], example_inputs: Any, **settings: Unpack[Settings]) -> Optimized[Function[P, R]]: ...
@overload
def optimize(module: Callable[P, R], **settings: Unpack[Settings]) -> Function[P, R]: ...
@overload
def optimize(*, example_inputs: Any = None, **settings: Unpack[Settings]) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def optimize(
    module: nn.Module | Callable[..., Any] | None = None,
    example_inputs: Any = None,
    *,
    target: str = "auto",
    budget: str | float = "60s",
    max_time: str | float | None = None,
    accuracy: str | float = "eager",
    baselines: str | Sequence[str] | None = None,
    strategy: str | None = None,
    seed: int | None = None,
    evals: int | None = None,
    cold: bool = False,
    fallback: str = "original",
    out: str | Path | None = None,
    name: str | None = None,
    progress: bool = True,
    options: Sequence[str] = (),
    pieces: bool = True,
    specialize: bool | Sequence[str] = False,
) -> Any:
    """Searches for a faster form of a module or function at these example inputs, in processes of its own, and returns it with its proof.

    `optimize(module, inputs)` and `optimize(function, inputs)` return an Optimized. `example_inputs` is one tensor, a sequence of positional
    arguments, or a dict (any mapping) of keyword arguments; for both kinds give a pair `((args...), {kwargs})`. The module is changed in place: the program
    is attached to it where one was verified and faster, and each call that it was not made for runs the module's own code.

    `@optimize(example_inputs=…)` is a decorator for functions; without example inputs (`@optimize`, `@optimize(budget="30s")`) the first call's
    arguments are the example, and that call waits for the search.

    `target` is cpu, cuda, or auto: where the module and its inputs are. `budget` (seconds, or text such as "5m") is for the search, `max_time`
    for everything. `accuracy` is eager, permitted, tf32 or a tolerance. `baselines` names what it must beat (see `planish optimize --help`); eager is
    always among them. `fallback="compile"` runs calls that the program was not made for under torch.compile. `out` is a folder that keeps the
    task and what is shipped; without it the program goes to the user's data folder, and nothing else is left. `options` are further options
    of the command.

    What cannot be captured whole (a branch on values, an operator of your own) is optimised in `pieces`: the graphs between the lines that only Python
    can run, judged by themselves and the whole call once more; `budget` and `max_time` are for all of them. `pieces=False` raises instead.

    `specialize` names arguments (True: all) of integers or truths on the CPU whose values the program may be made for, where the module's Python reads
    them (`int(lengths[b])`, `offsets.tolist()`). They are compared at each call; one with others runs the module's own code.

    Progress is shown on sys.stderr. Raises PlanishError with the command's own error: `kind`, `message`, `hint`.
    """
    if fallback not in FALLBACKS:
        raise PlanishError("bad_request", f"there is no fallback '{fallback}'", f"choose from {', '.join(FALLBACKS)}")
    chosen = {"--budget": budget, "--max-time": max_time, "--accuracy": accuracy, "--strategy": strategy, "--seed": seed, "--evals": evals}
    if baselines is not None:
        chosen["--baselines"] = baselines if isinstance(baselines, str) else ",".join(baselines) or "none"
    arguments = [text for option, value in chosen.items() if value is not None for text in (option, str(value))]
    arguments += [*(["--cold"] if cold else []), *options]

    def search(thing: Any, inputs: Any) -> Optimized[Any]:
        start = time.monotonic()
        try:
            return _search(thing, _call(inputs), target, arguments, fallback, out, name, progress, specialize)
        except PlanishError as error:
            from planish.capture.opaque import KINDS  # with what captures, which a search leaves to other processes

            if not pieces or error.kind not in KINDS:
                raise error.with_traceback(None) from None  # our own frames say nothing that its message does not
            refusal = error
        settings = {"target": target, "accuracy": accuracy, "baselines": baselines, "strategy": strategy, "seed": seed, "evals": evals, "cold": cold}
        left = seconds(max_time) - (time.monotonic() - start) if max_time is not None else None
        return _in_pieces(thing, _call(inputs), refusal, Search(_name_of(thing, name), seconds(budget), left, settings | {"options": options}, progress))

    def first_call(function: Function[..., Any], call: Any) -> None:
        function.optimized = search(function, call)

    def decorate(function: Callable[..., Any]) -> Function[..., Any]:
        if not is_function(function):
            raise PlanishError("bad_request", f"{function!r} is no function", "decorate a function; for a module: planish.optimize(instance, inputs)")
        if example_inputs is None:
            return Function(function, first_call)
        made = Function(function)
        made.optimized = search(made, example_inputs)
        return made

    if module is None:
        return decorate
    if isinstance(module, type):
        raise PlanishError("bad_request", f"{module.__name__} is a class", f"make one: planish.optimize({module.__name__}(...), inputs)")
    if isinstance(module, nn.Module):
        _refuse_forms(module)
    if example_inputs is None:
        if isinstance(module, nn.Module):
            raise PlanishError("no_inputs", "no example inputs were given", "planish.optimize(module, (x,)): shapes and values that it is to be fast for")
        return decorate(module)
    if not callable(module):
        raise PlanishError("bad_request", f"{type(module).__name__} is neither a module nor a function", "planish.optimize(module, inputs)")
    return search(module if isinstance(module, nn.Module | Function) else Function(module), example_inputs)


def _search(
    thing: nn.Module | Function[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]], target: str, arguments: list[str],
    fallback: str, out: str | Path | None, name: str | None, progress: bool, specialize: bool | Sequence[str],
) -> Optimized[Any]:  # fmt: skip
    module: nn.Module = thing.module if isinstance(thing, Function) else thing
    called = _name_of(thing, name)
    if os.environ.get(session.INSIDE):
        return Optimized(thing, {"outcome": "no_improvement", "reason": "this process belongs to another run of planish", "task": called}, None, "module")
    if unknown := reach(module).problem:  # before a search whose program could never run
        raise PlanishError("not_exportable", f"{called}: {unknown}", REMEDY)
    if hooked := _hooked(module):
        hint = "remove its hooks (handle.remove()), or make the module anew and optimise it before it has any"
        raise PlanishError("not_exportable", f"{called}: {hooked} and hooks of parts of a module stop its programs", hint)
    if problem := example_problem(called, module, *call):
        raise problem
    if progress:
        sys.stderr.write(_training(module, called))
    libraries = {preload.NAMES: preload.libraries_of(module, call)}
    numbers = leaves_of(module.forward, *call, specialize, called) if specialize else []
    exported = isinstance(thing, Function) and not thing.self_contained
    with tempfile.TemporaryDirectory(prefix="planish-") as scratch:
        folder = Path(out).absolute() if out is not None else session.data_folder() / "live" / _fresh_name(called)
        task = folder / "task" if out is not None else Path(scratch) / _plain(called)  # progress calls it by its last part
        made_here = not folder.exists()
        if out is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise PlanishError("bad_request", f"{folder}: cannot be written to: {error.strerror}", "give out= a folder that you may write to") from None
        try:
            timed = write_live(task, called, module, *call, exported=exported, numbers=numbers)
            command = ["optimize", str(task), "--target", _device_of(module, call) if target == "auto" else target, "--out", str(folder), *arguments]
            try:
                result = session.run(command, progress, libraries)
            except PlanishError as error:
                if error.kind not in _NOT_READ or timed == "exported":
                    raise
                shutil.rmtree(task)
                timed = write_live(task, called, module, *call, exported=True, numbers=numbers)
                result = session.run(command, progress, libraries)
            improved = gained(result)
            if improved:
                load(result["shipped"], module, fallback=fallback)
        except BaseException as error:
            if out is None and made_here:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, PlanishError):
                raise _renamed(error, task, called) from None  # it says all that the others of its chain say
            raise
        kept = improved or is_proved(result)
        if out is None and made_here and not kept:
            shutil.rmtree(folder, ignore_errors=True)
            result["shipped"] = None
        return Optimized(thing, result, Path(result["shipped"]) if kept else None, timed)


def _hooked(module: nn.Module) -> str:
    """The first part of a module with a hook that is no weight's and no package's own, in the beginning of a sentence; empty where there is none."""
    for name, part in module.named_modules():
        own = (*weight_hooks(part).values(), *package_hooks(part))
        for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values()):
            if name and not any(hook is known for known in own):
                return f"'{name}' has a hook ({getattr(hook, '__qualname__', type(hook).__name__)}),"
    return ""


def _in_pieces(thing: nn.Module | Function[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]], refusal: PlanishError, search: Search) -> Optimized[Any]:
    from planish.pieces import whole  # with torch's compiler, which nobody else waits for

    module: nn.Module = thing.module if isinstance(thing, Function) else thing
    return Optimized(thing, whole.optimize(module, search.name, call, refusal, search), None, "pieces")


def _name_of(thing: nn.Module | Function[..., Any], name: str | None) -> str:
    return name or str(getattr(thing.original, "__name__", "function") if isinstance(thing, Function) else type(thing).__name__)


def _device_of(module: nn.Module, call: Any) -> str:
    """Where calls run: the module stays where it is, and a program for another device would never be asked."""
    tensors = (t for t in (*pytree.tree_leaves(call), *module.parameters(), *module.buffers()) if isinstance(t, torch.Tensor))
    return "cuda" if any(t.is_cuda for t in tensors) else "cpu"


def _refuse_forms(module: nn.Module) -> None:
    """Modules that are no longer, or not yet, what was written."""
    if isinstance(module, torch.jit.ScriptModule):
        raise PlanishError("bad_request", "a scripted or traced module has no Python code to capture", "give the module that it was made of")
    if hasattr(module, "_orig_mod"):
        raise PlanishError("bad_request", "torch.compile has been applied to the module already", "give the module itself (module._orig_mod)")
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise PlanishError("bad_request", f"the parameter '{name}' has no shape yet", "call the module once with its inputs first")
        if parameter.is_meta:
            hint = "give it values first: module.to_empty(device='cpu'), then load_state_dict()"
            raise PlanishError("bad_request", f"the parameter '{name}' has no values: it is on the meta device", hint)


def _renamed(error: PlanishError, task: Path, name: str) -> PlanishError:
    """The same error, about the user's module and its call rather than about a folder and options of ours."""
    hint = error.hint.replace("the file's Model on get_inputs()", f"{name} on the example inputs").replace("--target cpu", 'target="cpu"')
    return PlanishError(error.kind, *(named(text.replace(str(task), name), name) for text in (error.message, hint)))


def _training(module: nn.Module, name: str) -> str:
    """A line for who may have forgotten `eval()`; empty where no part acts otherwise in training."""
    parts = {type(part).__name__ for part in module.modules() if part.training and isinstance(part, _DropoutNd | _BatchNorm)}
    return f"note: {name} is in training mode ({', '.join(sorted(parts))}); call .eval() first where it is to be fast at inference\n" if parts else ""


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


def _fresh_name(name: str) -> str:
    return f"{_plain(name)}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _call(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Mapping):  # what a tokenizer returns is no dict
        return (), dict(example_inputs)
    if isinstance(example_inputs, list | tuple):
        if len(example_inputs) == 2 and isinstance(example_inputs[0], tuple) and isinstance(example_inputs[1], dict):
            return example_inputs[0], dict(example_inputs[1])
        return tuple(example_inputs), {}
    return (example_inputs,), {}
