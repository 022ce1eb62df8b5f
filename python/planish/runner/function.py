"""A solution that is a function: a plain file of Triton kernels with what launches them, and no class ModelNew."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from types import FunctionType, ModuleType
from typing import Any

from torch import nn

from planish.errors import PlanishError

_HINT = "define a class ModelNew, or one function that takes what Model.forward takes, and parameters and buffers by name (weight of `linear` as linear_weight)"
#: Functions that files define for other readers than this one.
_NOT_MEANT = frozenset({"get_inputs", "get_init_inputs", "main"})


def function_of(module: ModuleType, path: object) -> Callable[..., Any]:
    """`forward`, or the only public function that the file itself defines (kernels, which a decorator has made something else, are
    none). Raises PlanishError(load_failed)."""
    own = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__code__.co_filename == str(path) and not name.startswith("_") and name not in _NOT_MEANT
    }
    if "forward" in own:
        return own["forward"]
    if len(own) == 1:
        return next(iter(own.values()))
    found = "no function" if not own else "several functions (" + ", ".join(own) + ") and none of them is forward"
    raise PlanishError("load_failed", f"{path}: defines no class ModelNew and {found}", _HINT)


def as_model(function: Callable[..., Any], model: nn.Module, path: object) -> nn.Module:
    """`model`, a newly built Model of the task, whose forward is `function`. What the function asks for beyond the inputs are the
    model's parameters, buffers and attributes, looked up at each call. Raises PlanishError(load_failed) for a name that is none."""
    given = list(inspect.signature(type(model).forward).parameters.values())[1:]
    named = [p.name for p in given]
    inputs = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in given)
    asked = [p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    tensors = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    places = {name.replace(".", "_"): name for name, _ in tensors}
    # The first are the inputs, whatever they are called; of those that come later, the ones that Model.forward does not know are state.
    state = {p.name: places.get(p.name) for p in asked[inputs:] if p.name not in named}
    for parameter in asked:
        if parameter.name in state and state[parameter.name] is None:
            if hasattr(model, parameter.name):
                state[parameter.name] = parameter.name
            elif parameter.default is parameter.empty:
                known = ", ".join([*named, *places]) or "nothing"
                raise PlanishError("load_failed", f"{path}: {function.__name__} asks for {parameter.name!r}, the task has {known}", _HINT)
    wanted = {name: place.split(".") for name, place in state.items() if place is not None}

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, **{name: reduce(getattr, place, model) for name, place in wanted.items()})

    model.forward = forward  # type: ignore[method-assign]
    return model
