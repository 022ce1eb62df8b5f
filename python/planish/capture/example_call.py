"""The example call, tried before anything is started for it: what the module does not take is said at once, with the user's line."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from planish.capture.source import line_of_error
from planish.errors import PlanishError, first_line, task_error
from planish.functions import FunctionModule


def example_problem(name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PlanishError | None:
    """What `module` raises on these arguments, as an error (forward_failed), or that its results have no elements (no_inputs), or None.

    Shapes alone are looked at first, which takes milliseconds and no memory. Only where that fails the module is called, since it may be what
    stands for the tensors there that it cannot take. Both calls are of a copy; a function's buffers are put back."""
    shapes = FakeTensorMode(allow_non_fake_inputs=True)
    cuda = sorted({t.device.index for t in module.parameters() if t.is_cuda})
    with torch.no_grad(), warnings.catch_warnings(), _outer_buffers_kept(module):
        warnings.simplefilter("ignore")
        try:
            with _quiet(), shapes:
                copied = copy.deepcopy(module, {id(t): shapes.from_tensor(t) for t in (*module.parameters(), *module.buffers())})
                known, named = pytree.tree_map(lambda x: shapes.from_tensor(x) if isinstance(x, torch.Tensor) else x, (args, kwargs))
                results = copied(*known, **named)
            return _empty(name, results, args, kwargs)
        except Exception:
            pass
        try:
            copied = copy.deepcopy(module, {id(p): p for p in module.parameters()})
            known, named = copy.deepcopy((args, kwargs))
        except Exception:  # whatever a class of the user's raises when it is copied
            return None
        try:
            with torch.random.fork_rng(devices=cuda):
                results = copied(*known, **named)
        except (MemoryError, torch.OutOfMemoryError):
            return None  # of the copies, perhaps
        except Exception as error:
            what = f"does not take the example inputs: {first_line(error)}{line_of_error(error)}"
            return task_error("forward_failed", name, what, _hint(error, args, kwargs))
    return _empty(name, results, args, kwargs)


def _hint(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    call = f"the example call is {_call(args, kwargs)}"
    if isinstance(error, RuntimeError) and "does not require grad" in str(error):  # torch has no type for it
        return "programs compute no gradients: optimise the model that the training step calls, and train as before"
    if isinstance(error, TypeError) and kwargs and not args:
        return f"{call}: a dict gives keyword arguments; for an argument that is a dict itself: (example,)"
    if isinstance(error, TypeError) and len(args) > 1:
        return f"{call}: a tuple or list gives one argument each; for an argument that is a list itself: (example,)"
    return f"{call}; give arguments with which the module can be called"


def _empty(name: str, results: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PlanishError | None:
    tensors = [x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor)]
    if not tensors or any(x.numel() for x in tensors):
        return None
    hint = f"the example call is {_call(args, kwargs)}; give a batch that has elements"
    return task_error("no_inputs", name, "returns no elements for the example inputs: there is nothing to make faster", hint)


@contextmanager
def _quiet() -> Iterator[None]:
    """torch logs what shapes do not fit with a traceback of its own; it is said once, in the words of the call itself. What the module prints
    of tensors without values is nobody's business."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        log.setLevel(level)


@contextmanager
def _outer_buffers_kept(module: torch.nn.Module) -> Iterator[None]:
    """Of the modules that a function reads, which are not copied with it."""
    before = [(b, b.detach().clone()) for b in module.buffers()] if isinstance(module, FunctionModule) else []
    try:
        yield
    finally:
        for buffer, value in before:
            if not torch.equal(buffer, value):
                buffer.copy_(value)


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return f"({', '.join([*map(_word, args), *(f'{key}={_word(value)}' for key, value in kwargs.items())])})"


def _word(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    text = repr(pytree.tree_map(lambda leaf: type(leaf).__name__ if isinstance(leaf, torch.Tensor) else leaf, x))
    return text if len(text) <= 60 else f"{text[:57]}..."
