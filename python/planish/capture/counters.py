"""Numbers that a call counts in the objects that it is given: for which of them the graph holds (docs/decisions/0185-numbers-that-count.md).

A cache that counts its length in a number of Python's has another one at each step, although the step computes the same. The call is run once with a
symbol in the number's place: what Python asks of it (`n >= window`) bounds the numbers for which the same operators run, and whatever torch is handed
it, or anything else than a comparison with a constant, leaves the very number alone.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from planish.ship import holders
from planish.ship.watch import Watch

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class Counter:
    """A number in an object of a call, which the call raises by `step`. The graph holds where it lies from `first` to `last` (None: without end)."""

    path: holders.Path
    name: str
    value: int
    step: int
    first: int | None
    last: int | None


def counters(program: ExportedProgram, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Counter]:
    """Those of the call whose number may be another one. Changes nothing; empty where it cannot be told."""
    places = _counting(program, args, kwargs)
    if not places:
        return []
    try:
        with torch.random.fork_rng(devices=sorted({t.device.index for t in model.parameters() if t.is_cuda})):
            found = _bounded(model, args, kwargs, places)
            if not found or not _same_operators(model, args, kwargs, found):
                return []
    except Exception:  # whatever code makes of a symbol that takes it for a number
        return []
    return found


def _counting(program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[holders.Path, str]]:
    """Attributes of objects that were a whole number and are another one after the call."""
    spec = program.call_spec.out_spec
    if spec is None or spec.type is not holders.Answer:
        return []
    found = []
    for steps, name, known in json.loads(spec.context):
        path = tuple((kind, key) for kind, key in steps)
        if name is not None and known is not None and type(known[0]) is int and type(_attribute(args, kwargs, path, name)) is int:
            found.append((path, name))
    return found


def _attribute(args: Any, kwargs: Any, path: holders.Path, name: str) -> Any:
    return (holders.attributes_of(holders.at(path, args, kwargs)) or {}).get(name)


def _bounded(model: torch.nn.Module, args: Any, kwargs: Any, places: list[tuple[holders.Path, str]]) -> list[Counter]:
    environment = ShapeEnv(duck_shape=False, specialize_zero_one=False)
    symbols: list[sympy.Symbol] = []
    seen = _Seen()
    with _copied(model, args, kwargs) as (twin, given, named), torch.no_grad():
        values = [_attribute(given, named, *place) for place in places]
        for k, ((path, name), value) in enumerate(zip(places, values, strict=True)):
            source = ConstantSource(f"counter_{k}")
            symbol = environment.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
            symbols.append(symbol)
            object.__setattr__(holders.at(path, given, named), name, environment.create_symintnode(symbol, hint=value, source=source))
        watch = Watch(given, named)
        with seen:
            result = twin(*given, **named)
        after = [_attribute(given, named, *place) for place in places]
        for (path, name), value in zip(places, values, strict=True):
            object.__setattr__(holders.at(path, given, named), name, value)
        left = [leaf for leaf in _parts(watch, result)[1] if isinstance(leaf, _SYMBOLIC)]  # numbers made of it that the call leaves elsewhere
    elsewhere = seen.symbols.union(*(leaf.node.expr.free_symbols for leaf in left))
    exact = {s for s in symbols if s in elsewhere}
    ranges: dict[Any, tuple[float, float]] = dict.fromkeys(symbols, (-math.inf, math.inf))
    for guard in environment.guards:
        free = [s for s in guard.expr.free_symbols if s in ranges]
        for symbol in free:
            bounds = _where(guard.expr, symbol, values[symbols.index(symbol)]) if len(guard.expr.free_symbols) == 1 else None
            if bounds is None:
                exact.add(symbol)
            else:
                ranges[symbol] = max(ranges[symbol][0], bounds[0]), min(ranges[symbol][1], bounds[1])
    found = []
    for (path, name), value, symbol, later in zip(places, values, symbols, after, strict=True):
        first, last = ranges[symbol]
        step = later.node.expr - symbol if isinstance(later, torch.SymInt) else None
        if symbol in exact or step is None or not step.is_Integer or first == last:
            continue
        found.append(Counter(path, name, value, int(step), _end(first), _end(last)))
    return found


def _parts(watch: Watch, result: Any) -> tuple[Any, list[Any]]:
    """The form and the leaves of all that a call gives and does."""
    answer = watch.answer(result)
    holders.register(answer)
    leaves, spec = pytree.tree_flatten(answer)
    return spec, leaves


def _end(bound: float) -> int | None:
    return None if math.isinf(bound) else int(bound)


def _where(guard: Any, symbol: sympy.Symbol, value: int) -> tuple[float, float] | None:
    """The whole numbers around `value` for which a comparison of two linear terms holds; None for anything else."""
    if guard in (sympy.true, True):
        return -math.inf, math.inf
    if not isinstance(guard, sympy.Eq | sympy.Ne | sympy.Lt | sympy.Le | sympy.Gt | sympy.Ge):
        return None
    term = sympy.expand(guard.lhs - guard.rhs)
    slope, rest = term.coeff(symbol, 1), term.coeff(symbol, 0)
    if not (slope.is_Integer and rest.is_Integer) or slope == 0 or sympy.expand(term - slope * symbol - rest) != 0:
        return None
    slope, rest = int(slope), int(rest)
    if isinstance(guard, sympy.Eq):
        return value, value
    if isinstance(guard, sympy.Ne):
        if rest % slope:
            return -math.inf, math.inf
        return (-rest // slope + 1, math.inf) if value > -rest // slope else (-math.inf, -rest // slope - 1)
    if isinstance(guard, sympy.Gt | sympy.Ge):  # as a term that is at most, or less than, nothing
        slope, rest = -slope, -rest
    if isinstance(guard, sympy.Lt | sympy.Gt):
        rest += 1
    # slope * n + rest <= 0
    return (-math.inf, -rest // slope) if slope > 0 else (-(rest // slope), math.inf)


class _Seen(TorchDispatchMode):
    """Every operator that a call reaches, with its numbers and shapes; and the symbols that were handed to one."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Any] = []
        self.symbols: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = pytree.tree_leaves((args, kwargs or {}))
        for leaf in leaves:
            if isinstance(leaf, _SYMBOLIC):
                self.symbols |= leaf.node.expr.free_symbols
        self.operators.append((str(func), [_kind(leaf) for leaf in leaves]))
        return func(*args, **(kwargs or {}))


def _kind(leaf: Any) -> Any:
    return (tuple(leaf.shape), leaf.stride(), str(leaf.dtype)) if isinstance(leaf, torch.Tensor) else repr(leaf)


def _same_operators(model: torch.nn.Module, args: Any, kwargs: Any, found: list[Counter]) -> bool:
    """Whether the call runs the same operators, on the same numbers, where each counter has another value of its own."""
    runs: list[Any] = []
    for other in (False, True):
        seen = _Seen()
        with _copied(model, args, kwargs) as (twin, given, named), torch.no_grad():
            before = [(holders.at(c.path, given, named), c, _another(c) if other else c.value) for c in found]
            for holder, counter, value in before:
                object.__setattr__(holder, counter.name, value)
            watch = Watch(given, named)
            with seen:
                result = twin(*given, **named)
            for holder, counter, value in before:
                if getattr(holder, counter.name) != value + counter.step:
                    return False
                object.__setattr__(holder, counter.name, value)  # of all that the call did this alone may differ
            spec, leaves = _parts(watch, result)
        runs.append((seen.operators, spec, [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]))
    return bool(runs[0] == runs[1])


def _another(counter: Counter) -> int:
    """The last number of its range, or one that is far away."""
    far = counter.last if counter.last is not None else counter.value + 1000 * max(1, abs(counter.step))
    return far if far != counter.value or counter.first is None else counter.first


@contextmanager
def _copied(model: torch.nn.Module, args: Any, kwargs: Any) -> Iterator[tuple[Callable[..., Any], Any, Any]]:
    """The call with copies of all that it may write; parameters are the model's own."""
    yield copy.deepcopy((model, args, kwargs), {id(p): p for p in model.parameters()})
