"""Modules with state in random places, of kinds that are drawn: one thing is changed at random, and the call equals the original's."""

from __future__ import annotations

import abc
import collections
import dataclasses
import decimal
import enum
import functools
import operator
import random
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from planish.ship import guards
from stand_in import attached, extension

X = torch.linspace(-1, 1, 8)
NUMBERS = (1.5, 2.5, 3.5)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", guards.FallbackWarning)
        yield
    sys.modules.pop("drawn_state", None)


class Kind(enum.Enum):
    A = 1.5
    B = 2.5
    C = 3.5


@dataclasses.dataclass
class Settings:
    k: Any


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: Any) -> None:
        self.k = k


class Plain:
    def __init__(self, k: Any) -> None:
        self.k = k


class Told(Plain):
    def __repr__(self) -> str:
        return f"{self.k}"


class Scaled(Plain):
    def __call__(self, y: Any) -> Any:
        return y * self.k


def doubled(y: Any, by: float = 2.0) -> Any:
    return y * by


def closing(k: float) -> Any:
    held = [k]
    return lambda y: y * held[0]


def cached(k: float) -> Any:
    @functools.lru_cache
    def table() -> torch.Tensor:
        return torch.full((8,), k)

    table()
    return table


def unseen(tensor: torch.Tensor) -> None:
    """Where this file can write behind a tensor's first bytes, all of them are compared."""
    tensor.data[2999] = 21.0


def marked(k: float) -> Any:
    made: Any = torch.ones(8)
    made.scale = k
    return made


def decorated(k: float) -> Any:
    made = Scaled(k)
    functools.update_wrapper(made, doubled)  # type: ignore[arg-type]
    return made


def ordered(k: float) -> Any:
    return collections.OrderedDict(a=k, b=9.0)


def unlike_shape(k: float) -> Any:
    shape: Any = abc.ABCMeta("Shape", (), {})
    return Plain(k), shape


#: By name: what makes one for a number, what reads a number of `v`, and statements on `h` that change it.
LEAVES: dict[str, tuple[Callable[[float], Any], str, list[str]]] = {
    "number": (lambda k: k, "v", []),
    "tensor": (lambda k: torch.full((8,), k), "v", ["h.mul_(2)", "h.data.add_(1)", "h.numpy().fill(21.0)"]),
    "large tensor": (lambda k: torch.full((3000,), k), "v[2999]", ["h[2999] = 21.0", "unseen(h)"]),
    "marked tensor": (marked, "v * v.scale", ["h.scale = 21.0", "h.mul_(2)"]),
    "tensor that is asked": (lambda k: torch.full((8,), k), "v * getattr(v, 'later', 1.0)", ["h.later = 21.0"]),
    "set": (lambda k: {k, 9.0}, "sum(v)", ["h.add(77.0)", "h.remove(9.0)"]),
    "enum": (Kind, "v.value", []),
    "partial": (lambda k: functools.partial(doubled, by=k), "v(1.0)", ["h.keywords['by'] = 21.0"]),
    "closure": (closing, "v(1.0)", ["h.__closure__[0].cell_contents[0] = 21.0", "h.__closure__[0].cell_contents = [21.0]"]),
    "module": (nn.LeakyReLU, "v.negative_slope", ["h.negative_slope = 21.0"]),
    "decimal": (decimal.Decimal, "float(v)", []),
    "context": (lambda k: decimal.Context(prec=int(k)), "float(v.divide(2, 3))", ["h.prec = 7"]),
    "getter": (lambda k: operator.itemgetter(int(k)), "v((1.0, 2.0, 3.0, 4.0))", []),
    "pattern": (lambda k: re.compile("a" * int(k)), "len(v.match('aaaa').group())", []),
    "exception": (ValueError, "v.args[0]", ["h.args = (21.0,)"]),
    "order": (lambda k: {"a": k, "b": 9.0}, "next(iter(v.values()))", ["h['a'] = h.pop('a')", "h['c'] = h.pop('a')"]),
    "own order": (ordered, "next(iter(v.values()))", ["h.move_to_end('a')"]),
    "factory": (lambda k: collections.defaultdict(closing(k)), "v.default_factory(1.0)", ["h.default_factory = lambda y: 21.0"]),
    "abstract class": (unlike_shape, "(v[0].k if isinstance(v[0], v[1]) else 5.0)", ["h[1].register(type(h[0]))"]),
    "cache": (cached, "v()", ["h().mul_(3)"]),
    "class with a name": (lambda k: type("C" * int(k), (), {})(), "len(type(v).__name__)", ["type(h).__name__ = 'another'"]),
    "text": (Told, "float(f'{v}')", ["h.k = 21.0"]),
    "decorated": (decorated, "v(1.0)", ["h.k = 21.0"]),
    "absent": (lambda k: types.SimpleNamespace(k=k), "getattr(v, 'later', v.k)", ["h.later = 21.0", "h.k = 21.0"]),
    "distribution": (lambda k: torch.distributions.Normal(k, 1.0, validate_args=False), "v.loc", ["h.loc = torch.tensor(21.0)", "h.loc.mul_(3)"]),
}
#: Nothing that is made anew equals these: a class of its own, a cache that is empty.
_UNIQUE = ("abstract class", "cache")
HOLDERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "list": (lambda inner: [inner], "[0]"), "dict": (lambda inner: {"a": inner}, "['a']"), "tuple": (lambda inner: (inner,), "[0]"),
    "namespace": (lambda inner: types.SimpleNamespace(k=inner), ".k"), "dataclass": (Settings, ".k"), "slots": (Slotted, ".k"), "object": (Plain, ".k"),
}  # fmt: skip


@dataclasses.dataclass
class Drawn:
    """Something that a forward reads: `read` is an expression in `v`; statements change `h`, which it is, and take `new`, which is made of a number."""

    make: Callable[[float], Any]
    read: str
    changes: list[tuple[str, Callable[[float], Any]]]
    equal: bool  # to what is made of the same number


def drawn(rng: random.Random, depth: int) -> Drawn:
    if depth == 0 or rng.random() < 0.4:
        kind = rng.choice(list(LEAVES))
        make, read, changes = LEAVES[kind]
        return Drawn(make, read, [(statement, make) for statement in changes], kind not in _UNIQUE)
    kind = rng.choice(list(HOLDERS))
    hold, way = HOLDERS[kind]
    inner = drawn(rng, depth - 1)
    changes = [(re.sub(r"\bh\b", f"h{way}", statement), make) for statement, make in inner.changes]
    if kind != "tuple":
        changes.append((f"h{way} = new", inner.make))
    return Drawn(lambda k: hold(inner.make(k)), f"(lambda v: {inner.read})(v{way})", changes, inner.equal)


#: How forward reads what lies there.
PLACES = {"self": "self.{}", "child": "self.child.{}", "class": "self.{}", "base": "self.{}", "global": "{}", "closure": "{}", "default": "{}",
          "module": "drawn_state.{}"}  # fmt: skip
#: What else is changed; the child's mode is read.
ASIDE = ["m.child.register_forward_hook(lambda m, a, y: y * 3)", "m.child.forward = lambda x: x * 3", "m.child.eval()", "m.child = nn.Softplus()",
         "m.s0 = 21.0", "m.s1 = 21.0", "child.forward = lambda s, x: x * 3", "base.child = 3"]  # fmt: skip
HARMLESS = ["m.note = 1", "m.child.note = 2", "m.train()", "type(m).unread = 3", "pass", "m.child.weights = {}"]


class Case:
    """A module whose class is made here, what changes it and what does not: statements with what they see."""

    def __init__(self, rng: random.Random) -> None:
        number, other = rng.sample(NUMBERS, 2)
        found = {f"s{k}": (rng.choice(list(PLACES)), drawn(rng, 2)) for k in range(2)}
        values = {name: state.make(number) for name, (_, state) in found.items()}
        at = {place: [name for name, (where, _) in found.items() if where == place] for place in PLACES}
        reads = " * ".join(f"(lambda v: {state.read})({PLACES[place].format(name)})" for name, (place, state) in found.items())
        lines = [f"def make({', '.join(at['closure'] + at['default'])}):", "    class Drawn(Base):",
                 f"        def forward(self, x{''.join(f', {name}={name}' for name in at['default'])}):",
                 *(["            import drawn_state"] if at["module"] else []),
                 f"            return self.child(x) * (2 if self.child.training else 3) * float('1.5') * {reads}", "    return Drawn"]  # fmt: skip
        base, child = type("Base", (nn.Module,), {"__module__": "drawn"}), type("Child", (nn.Identity,), {"__module__": "drawn"})
        space: dict[str, Any] = {"Base": base, "__name__": "drawn"}
        exec(compile("\n".join(lines), __file__, "exec"), space)
        self.own: Any = space["make"](*(values[name] for name in at["closure"] + at["default"]))
        self.module = self.own()
        self.module.child = child()
        beside = sys.modules["drawn_state"] = types.ModuleType("drawn_state")
        owners: dict[str, Any] = {"self": self.module, "child": self.module.child, "class": self.own, "base": base, "module": beside}
        sees: dict[str, Any] = {"m": self.module, "nn": nn, "child": child, "base": base}
        self.changes: list[tuple[str, dict[str, Any]]] = [(statement, sees) for statement in ASIDE]
        self.harmless: list[tuple[str, dict[str, Any]]] = [(statement, sees) for statement in HARMLESS]
        for name, (place, state) in found.items():
            holder, replace = owners.get(place), f"h.{name} = new"
            if place == "global":
                space[name], holder, replace = values[name], space, f"h['{name}'] = new"
            elif place == "closure":
                holder = dict(zip(self.own.forward.__code__.co_freevars, self.own.forward.__closure__, strict=True))[name]
                replace = "h.cell_contents = new"
            elif place == "default":
                holder, k = self.own.forward, at["default"].index(name)
                replace = f"h.__defaults__ = (*h.__defaults__[:{k}], new, *h.__defaults__[{k + 1}:])"
            else:
                function = place in ("class", "base") and hasattr(type(values[name]), "__get__")  # else it would be a method
                setattr(holder, name, staticmethod(values[name]) if function else values[name])
                replace = f"h.{name} = staticmethod(new)" if function else replace
            self.changes.append((replace, {"h": holder, "new": state.make(other)}))
            self.changes += [(statement, {"h": values[name], "new": make(other)}) for statement, make in state.changes]
            if state.equal:
                self.harmless.append((replace, {"h": holder, "new": state.make(number)}))


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or how it ends: what was changed may make nonsense of it."""
    try:
        return call()
    except Exception as error:
        return type(error)


def same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a is b


@pytest.mark.parametrize("seed", range(4))
def test_drawn_modules(seed: int) -> None:
    """The call equals the original's. In a good share of cases nothing that is read is changed, and then the program must go on. Half of them take
    the checks in C."""
    rng, fast = random.Random(seed), extension()
    changed = kept = harmless = 0
    for number in range(500):
        case = Case(rng)
        made = attached(case.module, X, extension=fast if number % 2 else None)
        assert not made._planish.reason, made._planish.reason
        captured = made._planish.shipped.answer.result
        quiet = rng.random() < 0.3
        statement, sees = rng.choice(case.harmless if quiet else case.changes)
        for _ in range(rng.choice((0, 1, 4))):
            made(X)  # bound before the change, or after it; compared once, or twice and trusted since
        before = made._planish.ran
        outcome(lambda: exec(statement, {"torch": torch, "unseen": unseen, **sees}))  # noqa: B023 (torch refuses some)
        wanted = outcome(lambda: case.own.forward(made, X))  # noqa: B023
        results = [outcome(lambda: made(X)) for _ in range(3)]  # noqa: B023
        assert all(same(result, wanted) for result in results), f"seed {seed}, case {number}: {statement}"
        if quiet:
            harmless += 1
            lost = before + len(results) - made._planish.ran
            kept += lost == 0 or (lost == 1 and isinstance(sees.get("new"), nn.Module))  # a part that is replaced by an equal one costs a call
            assert kept == harmless, f"seed {seed}, case {number}: {statement}: {made._planish.why}"
        changed += not same(wanted, captured)
    assert changed > 200 and harmless > 100  # the draw is no empty one
