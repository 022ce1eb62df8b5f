"""How a task without a graph is run: as it is, and in double with whatever its arithmetic is to do there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from planish.capture import LoadedTask
from planish.capture.opaque import Module, SizesVaryError
from planish.errors import PlanishError, first_line, task_error
from planish.oracle.promoted import UNINITIALIZED, Arithmetic, Reads, in_double, named, promote, stands_for, to_tf32
from planish.time_limit import TimeIsOverError, time_limit

#: Seconds that one run of a module may take: its own loops have no other end.
LIMIT = 300.0
#: Seconds of a run from which on nobody waits for other data than the task's own: each takes several runs.
SLOW = 15.0


_LOOKS = frozenset({"tolist", "item", "numpy", "__bool__", "__int__", "__index__", "__float__"})


class TooLongError(RuntimeError):
    """A run of the module did not end."""


class _Rounded(Arithmetic):
    """Each value that is computed is rounded, given the type that it stands for."""

    def __init__(self, step: Callable[[torch.Tensor, torch.dtype], torch.Tensor]) -> None:
        self.step = step

    def made(self, value: torch.Tensor, dtype: torch.dtype, name: str) -> torch.Tensor:
        return self.step(value, dtype) if value.is_floating_point() else value


class _Tf32(Arithmetic):
    """The single-precision operands of these operators are rounded to TF32."""

    def __init__(self, operations: frozenset[str]) -> None:
        self.operations = operations

    def call(self, func: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
        if str(func._schema.name).partition("::")[2] in self.operations:
            args = [to_tf32(x) if isinstance(x, torch.Tensor) and x.ndim >= 2 and stands_for(x) is torch.float32 else x for x in args]
        return func(*args, **kwargs)


def arithmetic(tf32: frozenset[str], step: Callable[[torch.Tensor, torch.dtype], torch.Tensor] | None) -> Arithmetic:
    return _Rounded(step) if step is not None else _Tf32(tf32) if tf32 else Arithmetic()


class _Looks(TorchFunctionMode):
    """Whether Python asks a tensor for its values."""

    found = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found = self.found or getattr(func, "__name__", "") in _LOOKS
        return func(*args, **(kwargs or {}))


def looks_at_values(call: Callable[[], Any]) -> bool:
    with _Looks() as mode:
        call()
    return mode.found


def eager(module: Module, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """As torch runs it. `module.reads` are what Python learned of values."""
    with _limited(), Reads() as seen:
        results = module(tensors)
    module.reads, module.seen = seen.found, module.seen | seen.names
    return results


def wide(module: Module, tensors: Sequence[torch.Tensor], how: Arithmetic) -> list[torch.Tensor]:
    """In double: the results, promoted. Raises Undecided where it cannot run so."""
    given = []
    for tensor, dtype in zip(tensors, module.dtypes, strict=True):
        wider = promote(tensor)
        given.append(named(wider, dtype) if wider.is_floating_point() or wider.is_complex() else wider)
    with _limited(), in_double(how, drawn_in=module.default_dtype) as seen:
        results = module(given)
    module.reads, module.seen = seen.found, module.seen | seen.names
    return [promote(r) for r in results]


def check(module: Module, loaded: LoadedTask, seeds: Sequence[int], device: torch.device, refusal: PlanishError) -> bool:
    """Whether the module can be its own reference; raises PlanishError where it cannot. The answer is whether its generator draws sizes: then
    only the data of the first of the seeds fit, of which the module has the tensors."""
    start = time.monotonic()
    try:
        exact = wide(module, module.tensors, Arithmetic())
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except TooLongError as error:
        message = f"its forward has no graph, and in double precision {error}"
        raise task_error("task_hangs", loaded.path, message, "use fewer steps, or smaller inputs") from error
    except Exception as error:
        what = refusal.message.removeprefix(f"{loaded.path}: ")
        message = f"{what}; nor can it be its own reference, since it does not run in double precision: {first_line(error)}"
        raise task_error(refusal.kind, loaded.path, message, refusal.hint) from error
    module.seconds = time.monotonic() - start
    if any(bool((e.isnan() & ~o.isnan()).any()) for e, o in zip(exact, eager(module, module.tensors), strict=True)) and module.seen & UNINITIALIZED:
        message = "returns memory that it made without values (torch.empty) and did not write, with whatever lies there"
        raise task_error("random_ops", loaded.path, message, "write all of it before it is returned, or make it with torch.zeros")
    own, other = (loaded.make_inputs(seed, device) for seed in seeds)
    sizes_drawn = _form(own) != _form(other)
    leaves = iter([t for t in pytree.tree_leaves(own if sizes_drawn else other) if isinstance(t, torch.Tensor)])
    tensors = [next(leaves) if kind == "user" else t for (kind, _), t in zip(module.inputs, module.tensors, strict=True)]
    if sizes_drawn:
        tensors = [torch.randn_like(t) if kind == "user" and t.is_floating_point() else t for (kind, _), t in zip(module.inputs, tensors, strict=True)]
    try:
        eager(module, tensors)
    except SizesVaryError as error:
        what = refusal.message.removeprefix(f"{loaded.path}: ")
        message = f"{what}; nor can it be its own reference: its results have sizes that depend on the values of its inputs, so that no buffer fits them"
        hint = "pad the results to a size that the inputs' shapes give, and return how many count"
        raise task_error("data_dependent", loaded.path, message, f"{refusal.hint}; or {hint}" if refusal.hint else hint) from error
    module.tensors = []
    return sizes_drawn


def _form(call: Any) -> Any:
    leaves, tree = pytree.tree_flatten(call)
    return tree, [(t.shape, t.stride(), t.dtype) if isinstance(t, torch.Tensor) else t for t in leaves]


@contextmanager
def _limited() -> Iterator[None]:
    try:
        with time_limit(LIMIT):
            yield
    except TimeIsOverError:
        raise TooLongError(f"one run of it did not end within {LIMIT:g} s") from None
