"""Functions as programs: a preprocessing step, a loss, a method of a module.

torch exports modules, so a function is put into one. Modules that it reaches through its closure, its globals or as the object it
is bound to become parts of that module, so that their parameters stay live. Whatever else it reads from there (numbers, tensors) was
captured as it was: a call compares it, and runs the function's own code where it is another now.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import torch
from torch import nn

if TYPE_CHECKING:
    from planish.optimized import Optimized

P = ParamSpec("P")
R = TypeVar("R")


class FunctionModule(nn.Module):
    """A function as a module. `found` is what the function reads from outside its arguments."""

    def __init__(self, function: Callable[..., Any], found: list[Any]) -> None:
        super().__init__()
        self.function = function
        found = list({id(value): value for value in found}.values())
        for k, module in enumerate(value for value in found if isinstance(value, nn.Module)):
            self.add_module(f"outer_{k}", module)
        own = {id(t) for t in (*self.parameters(), *self.buffers())}
        for k, tensor in enumerate(value for value in found if isinstance(value, torch.Tensor) and id(value) not in own):
            self.__dict__[f"outer_tensor_{k}"] = tensor  # an attached program compares it with what was captured

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Function(Generic[P, R]):
    """A function with a program in front. Called like it; `original` is the function itself, `module` what carries the program, and
    `optimized` the outcome of the search, or None before there was one."""

    def __init__(self, function: Callable[P, R], settings: Callable[[Function[P, R], Any], Any] | None = None) -> None:
        """With `settings` the first call's arguments are the example: settings(self, (args, kwargs)) is to set `optimized`."""
        functools.update_wrapper(self, function)
        self.original = function
        self._first = settings
        self._lock = threading.Lock()
        self._watched = list(_outer(function))
        self.module = FunctionModule(function, [value for _, value in self._watched])
        self.optimized: Optimized[Function[P, R]] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        raise TypeError(f"{owner.__name__}.{name}: decorate a function, or call planish.optimize(object.{name}, inputs) on a method of an object")

    @property
    def self_contained(self) -> bool:
        """Whether it reads no module or tensor but its arguments: then its code can be run elsewhere."""
        return not any(isinstance(value, nn.Module | torch.Tensor) for _, value in self._watched)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._first is not None and not torch.compiler.is_compiling():
            with self._lock:
                first, self._first = self._first, None
            if first is not None:
                first(self, (args, kwargs))
        for read, value in self._watched:
            if read() is not value:
                return self.original(*args, **kwargs)
        result: R = self.module(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<planish function {getattr(self.original, '__qualname__', self.original)}>"


def _outer(function: Callable[..., Any]) -> Iterator[tuple[Callable[[], Any], Any]]:
    """How to read, and the present value of, each module, tensor and other value that a function gets from outside its arguments. Functions
    that it calls by name count, unless they are torch's."""
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, functools.partial):
            todo += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, MethodType):
            todo += [one.__func__, one.__self__]
        elif isinstance(one, nn.Module | torch.Tensor):
            yield functools.partial(_itself, one), one
        elif isinstance(one, FunctionType) and (one.__module__ or "").partition(".")[0] != "torch":
            for read in _readers(one):
                try:
                    value = read()
                except (NameError, ValueError):  # not defined yet, or a builtin
                    continue
                if isinstance(value, nn.Module) or not (callable(value) or isinstance(value, ModuleType)):
                    yield read, value
                else:
                    todo.append(value)
        elif isinstance(one, Function):
            todo.append(one.original)


def _itself(value: Any) -> Any:
    return value


def _readers(function: FunctionType) -> Iterator[Callable[[], Any]]:
    for cell in function.__closure__ or ():
        yield functools.partial(getattr, cell, "cell_contents")
    known = function.__globals__
    for name in _names(function.__code__):
        if name in known:
            yield functools.partial(known.get, name)


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def is_function(thing: Any) -> bool:
    """Whether `thing` is code to be called, and no module or class."""
    return callable(thing) and not isinstance(thing, nn.Module | type) and not inspect.isclass(thing)
