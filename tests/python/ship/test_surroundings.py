"""State that lies beside a module's own attributes: the process around it, objects of libraries, orders, what a tensor is beside its contents. A call
after a change equals the module's own, and what changes nothing keeps the program (both in C and in Python)."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import linecache
import operator
import os
import pathlib
import re
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from os import environ as VARIABLES
from os import getenv as asks_variable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path.insert(0, os.path.dirname(__file__))

from planish.ship import guards, outside
from planish.ship.reach import _Walk, reach
from stand_in import attached, extension

X = torch.linspace(-1, 1, 8)
GAIN = {"now": 1.5}
ANSWERS = """
held = {"SCALE": 2.0}
def __getattr__(name):
    if name not in held:
        raise AttributeError(name)
    return held[name]
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PLANISH_TEST_GAIN", "2")
    monkeypatch.setitem(GAIN, "now", 1.5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", guards.FallbackWarning)
        yield
    sys.modules.pop("written_by_hand", None)


@pytest.fixture(params=["in C", "in Python"])
def checks(request: pytest.FixtureRequest) -> Any:
    return extension() if request.param == "in C" else None


def module(forward: Callable[..., Any], **attributes: Any) -> Any:
    made = type("Made", (nn.Module,), {"forward": forward})()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def buffered(forward: Callable[..., Any], **buffers: torch.Tensor) -> Any:
    made = module(forward)
    for name, value in buffers.items():
        made.register_buffer(name, value)
    return made


def marked(tensor: torch.Tensor) -> Any:
    tensor.scale = 2.0  # type: ignore[attr-defined]
    return tensor


class Mode:
    def __init__(self, held: nn.Module) -> None:
        self.held = [held]

    def factor(self) -> int:
        return 2 if self.held[0].training else 3


@dataclasses.dataclass
class Pair:
    k: float = 1.5
    j: float = 2.0


class Told:
    """Says what it is."""

    def __init__(self) -> None:
        self.k = 1.5

    def __repr__(self) -> str:
        return f"{self.k}"

    def __hash__(self) -> int:
        return int(self.k * 2)


class Meta(type):
    gain = 1.5

    @property
    def asked(cls) -> float:
        return GAIN["now"]

    def __instancecheck__(cls, thing: Any) -> bool:
        return GAIN["now"] == 1.5


class MetaAnswers(type):
    def __getattr__(cls, name: str) -> float:
        return GAIN["now"]


class Made(metaclass=Meta):
    pass


class Answers(metaclass=MetaAnswers):
    pass


class Low:
    k = 1.5


class High:
    k = 7.0


class Derived(Low):
    pass


class Real(float):
    pass


class Kind(enum.Enum):
    A = 1


class Decorated:
    """A decorator that is an object, as functools.update_wrapper makes it look like what it decorates."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.gain = function, 2.0
        functools.update_wrapper(self, function)

    def __call__(self, *given: Any) -> Any:
        return self.function(*given) * self.gain


class Shape(abc.ABC):  # noqa: B024
    pass


class Round(Shape):
    pass


def registers(with_class: type) -> Callable[[], None]:
    """Registers this file's Told; the result puts it back, as far as Python can."""
    impl = vars(Shape)["_abc_impl"], vars(Round)["_abc_impl"]
    assert len(impl) == 2
    with_class.register(Told)  # type: ignore[attr-defined]

    def back() -> None:
        for cls in (Shape, Round):
            abc._reset_registry(cls)  # type: ignore[attr-defined]
            abc._reset_caches(cls)  # type: ignore[attr-defined]

    return back


def tried(s: Any, x: Any) -> Any:
    try:
        return x * s.o.later
    except AttributeError:
        return x * s.o.k


def matched(s: Any, x: Any) -> Any:
    match s.o:
        case Pair(k=k, j=j):
            return x * k * j
    return x


def matched_by_place(s: Any, x: Any) -> Any:
    match s.o:
        case Pair(k, j):
            return x * k * j
    return x


@functools.lru_cache
def remembered() -> float:
    return GAIN["now"]


def forgetful() -> Any:
    """A module whose cached function remembers what its global was once."""
    remembered.cache_clear()
    remembered()
    GAIN["now"] = 4.0
    return module(lambda s, x: x * remembered())


def cached(bound: int | None) -> Any:
    @functools.lru_cache(bound)
    def table(n: int) -> torch.Tensor:
        return torch.arange(n).float()

    return table


def written(text: str) -> types.ModuleType:
    made = types.ModuleType("written_by_hand")
    exec(text, vars(made))
    sys.modules["written_by_hand"] = made
    return made


def imports(x: Any) -> Any:
    from written_by_hand import SCALE  # type: ignore[import-not-found]

    return x * SCALE


def moved(holder: Any, key: Any) -> None:
    holder[key] = holder.pop(key)


def chain(x: Any, layers: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


def replaced(holder: Any, name: str, value: Any) -> Callable[[], None]:
    """Sets something that all modules share; the result puts it back."""
    old, adds = getattr(holder, name), holder is torch.Tensor and name not in vars(holder)
    setattr(holder, name, value)
    return lambda: delattr(holder, name) if adds else setattr(holder, name, old)


def unset_backend() -> Callable[[], None]:
    """Flags of backends may be frozen: torch.testing's internals do so wherever they are imported, and a flags() block still changes them."""
    entered = contextlib.ExitStack()
    entered.enter_context(torch.backends.mkldnn.flags(enabled=False))
    return entered.close


def dispatched() -> Any:
    return torch.distributions.Normal(torch.zeros(8), torch.ones(8))


def _shadowed(m: Any) -> None:
    del m.note
    vars(m)["w"] = torch.full((8,), 3.0)


# By name: the module, and what is changed (which may return how to put it back).
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "environment variable": (lambda: module(lambda s, x: x * float(os.environ.get("PLANISH_TEST_GAIN", "1"))),
                             lambda m: os.environ.update(PLANISH_TEST_GAIN="5")),
    "variable that is gone": (lambda: module(lambda s, x: x * float(os.environ.get("PLANISH_TEST_GAIN", "1"))),
                              lambda m: os.environ.pop("PLANISH_TEST_GAIN") and None),
    "getenv": (lambda: module(lambda s, x: x * float(os.getenv("PLANISH_TEST_GAIN", "1"))), lambda m: os.environ.update(PLANISH_TEST_GAIN="5")),
    "environ by name": (lambda: module(lambda s, x: x * float(VARIABLES["PLANISH_TEST_GAIN"])), lambda m: os.environ.update(PLANISH_TEST_GAIN="5")),
    "getenv by name": (lambda: module(lambda s, x: x * float(asks_variable("PLANISH_TEST_GAIN") or 0)), lambda m: os.environ.update(PLANISH_TEST_GAIN="5")),
    "threads": (lambda: module(lambda s, x: x * torch.get_num_threads()),
                lambda m: (n := torch.get_num_threads(), torch.set_num_threads(n + 1), lambda: torch.set_num_threads(n))[2]),
    "precision": (lambda: module(lambda s, x: x * len(torch.get_float32_matmul_precision())),
                  lambda m: (torch.set_float32_matmul_precision("high"), lambda: torch.set_float32_matmul_precision("highest"))[1]),
    "flag of a backend": (lambda: module(lambda s, x: x * (2 if torch.backends.mkldnn.enabled else 3)),
                          lambda m: unset_backend()),
    "command line": (lambda: module(lambda s, x: x * len(sys.argv)), lambda m: (sys.argv.append("more"), sys.argv.pop)[1]),
    "builtin": (lambda: module(lambda s, x: x * len([1, 2])), lambda m: replaced(sys.modules["builtins"], "len", lambda v: 7)),
    "method of tensors": (lambda: module(lambda s, x: x.tanh()), lambda m: replaced(torch.Tensor, "tanh", lambda t: t * 7)),
    "operator of tensors": (lambda: module(lambda s, x: x * 2), lambda m: replaced(torch.Tensor, "__mul__", lambda t, o: t + 7)),
    "function that torch's layer calls": (lambda: module(lambda s, x: s.c(x), c=nn.GELU()), lambda m: replaced(F, "gelu", lambda t, **k: t * 7)),
    "getattr of modules": (lambda: module(lambda s, x: s.c(x), c=nn.Tanh()), lambda m: replaced(nn.Module, "__getattr__", lambda s, n: lambda x: x * 9)),
    "base of a class": (lambda: module(lambda s, x: x * s.o.k, o=Derived()), lambda m: replaced(Derived, "__bases__", (High,))),
    "attribute of a metaclass": (lambda: module(lambda s, x: x * s.o.gain, o=Made), lambda m: replaced(Meta, "gain", 9.0)),
    "property of a metaclass": (lambda: module(lambda s, x: x * s.o.asked, o=Made), lambda m: GAIN.update(now=4.0)),
    "metaclass that answers": (lambda: module(lambda s, x: x * s.o.gain, o=Answers), lambda m: GAIN.update(now=4.0)),
    "check of instances": (lambda: module(lambda s, x: x * (2 if isinstance(s, Made) else 3)), lambda m: GAIN.update(now=4.0)),
    "attrgetter": (lambda: module(lambda s, x: x * s.pick(s), a=2.0, b=3.0, pick=operator.attrgetter("a")),
                   lambda m: setattr(m, "pick", operator.attrgetter("b"))),
    "itemgetter": (lambda: module(lambda s, x: x * s.pick([2.0, 3.0]), pick=operator.itemgetter(0)), lambda m: setattr(m, "pick", operator.itemgetter(1))),
    "decimal": (lambda: module(lambda s, x: x * float(s.k), k=decimal.Decimal("1.5")), lambda m: setattr(m, "k", decimal.Decimal("2.5"))),
    "fraction": (lambda: module(lambda s, x: x * float(s.k), k=fractions.Fraction(3, 2)), lambda m: setattr(m, "k", fractions.Fraction(5, 2))),
    "time span": (lambda: module(lambda s, x: x * s.k.total_seconds(), k=datetime.timedelta(2)), lambda m: setattr(m, "k", datetime.timedelta(3))),
    "pattern": (lambda: module(lambda s, x: x * (2 if s.k.match("aa") else 3), k=re.compile("a")), lambda m: setattr(m, "k", re.compile("b"))),
    "path": (lambda: module(lambda s, x: x * len(str(s.k)), k=pathlib.Path("a")), lambda m: setattr(m, "k", pathlib.Path("abc"))),
    "number with a class": (lambda: module(lambda s, x: x * s.k, k=Real(2.0)), lambda m: setattr(m, "k", Real(5.0))),
    "factory of a defaultdict": (lambda: module(lambda s, x: x * s.d.default_factory(), d=collections.defaultdict(lambda: 1.5)),
                                 lambda m: setattr(m.d, "default_factory", lambda: 5.0)),
    "attribute of an Enum's member": (lambda: (setattr(Kind.A, "gain", 2.0), module(lambda s, x: x * s.k.gain, k=Kind.A))[1],
                                      lambda m: setattr(Kind.A, "gain", 5.0)),
    "distribution": (lambda: module(lambda s, x: s.d.log_prob(x), d=dispatched()), lambda m: setattr(m, "d", torch.distributions.Normal(0.0, 3.0))),
    "inside a distribution": (lambda: module(lambda s, x: s.d.log_prob(x), d=dispatched()), lambda m: setattr(m.d, "scale", torch.full((8,), 3.0))),
    "tensor of a distribution": (lambda: module(lambda s, x: s.d.log_prob(x), d=dispatched()), lambda m: m.d.scale.mul_(3) is None),
    "result in a cache": (lambda: module(lambda s, x: x * s.f(8), f=cached(None)), lambda m: m.f(8).mul_(3) is None),
    "result in a bounded cache": (lambda: module(lambda s, x: x * s.f(8), f=cached(4)), lambda m: m.f(8).mul_(3) is None),
    "decorator with state": (lambda: module(lambda s, x: s.f(x), f=Decorated(lambda x: x)), lambda m: setattr(m.f, "gain", 5.0)),
    "text of an object": (lambda: module(lambda s, x: x * float(f"{s.o}"), o=Told()), lambda m: setattr(m.o, "k", 4.0)),
    "text of a dataclass": (lambda: module(lambda s, x: x * len(repr(s.o)), o=Pair()), lambda m: setattr(m.o, "k", 4.123)),
    "hash of an object": (lambda: module(lambda s, x: x * hash(s.o), o=Told()), lambda m: setattr(m.o, "k", 4.0)),
    "fields of a text": (lambda: module(lambda s, x: x * float("{0.o.k}".format(s)), o=Pair()), lambda m: setattr(m.o, "k", 4.0)),  # noqa: UP030, UP032
    "module made by hand": (lambda: (written("SCALE = 2.0"), module(lambda s, x: imports(x)))[1],
                            lambda m: setattr(sys.modules["written_by_hand"], "SCALE", 5.0)),
    "module by its text": (lambda: (written("SCALE = 2.0"), module(lambda s, x: x * __import__("written_by_hand").SCALE))[1],
                           lambda m: setattr(sys.modules["written_by_hand"], "SCALE", 5.0)),
    "module that answers": (lambda: module(lambda s, x: x * s.m.SCALE, m=written(ANSWERS)),
                            lambda m: m.m.held.update(SCALE=5.0)),
    "order of a dict": (lambda: module(lambda s, x: chain(x, s.d.values()), d={"a": torch.tanh, "b": torch.exp}), lambda m: moved(m.d, "a")),
    "order of an OrderedDict": (lambda: module(lambda s, x: chain(x, s.d.values()), d=collections.OrderedDict(a=torch.tanh, b=torch.exp)),
                                lambda m: m.d.move_to_end("a")),
    "order of submodules": (lambda: module(lambda s, x: chain(x, s.d.values()), d=nn.ModuleDict({"a": nn.Tanh(), "b": nn.Softplus(), "c": nn.Sigmoid()})),
                            lambda m: moved(m.d, "a")),
    "mode of a part": (lambda: module(lambda s, x: x * (2 if s.c.training else 3), c=nn.Linear(8, 8)), lambda m: m.c.eval() is None),
    "mode that an object asks for": (lambda: module(lambda s, x: x * s.o.factor(), c=(c := nn.Identity()), o=Mode(c)), lambda m: m.c.eval() is None),
    "attribute of a parameter": (lambda: module(lambda s, x: x * s.w * s.w.scale, w=marked(nn.Parameter(torch.ones(8)))), lambda m: setattr(m.w, "scale", 5.0)),
    "attribute of a buffer": (lambda: buffered(lambda s, x: x * s.w * s.w.scale, w=marked(torch.ones(8))), lambda m: setattr(m.w, "scale", 5.0)),
    "attribute of a tensor": (lambda: module(lambda s, x: x * s.w * s.w.scale, w=marked(torch.ones(8))), lambda m: setattr(m.w, "scale", 5.0)),
    "gradients of a parameter": (lambda: module(lambda s, x: x * (2 if s.w.requires_grad else 3), w=nn.Parameter(torch.ones(8))),
                                 lambda m: m.requires_grad_(False) is None),
    "gradient of a parameter": (lambda: module(lambda s, x: x * (2 if s.w.grad is None else 3), w=nn.Parameter(torch.ones(8))),
                                lambda m: setattr(m.w, "grad", torch.ones(8))),
    "before a parameter": (lambda: module(lambda s, x: x * s.w, w=nn.Parameter(torch.ones(8)), note=1), _shadowed),
    "strided tensor through data": (lambda: module(lambda s, x: x * s.t.sum(0), t=torch.ones(8, 4).t()), lambda m: m.t.data.mul_(3) is None),
    "large tensor through data": (lambda: module(lambda s, x: x * s.t.sum(0), t=torch.ones(2000, 8)), lambda m: m.t.data.mul_(3) is None),
    "large tensor through NumPy": (lambda: module(lambda s, x: x * s.t.sum(0), t=torch.ones(2000, 8)), lambda m: m.t.numpy().fill(3.0)),
    "end of a large tensor through data": (lambda: module(lambda s, x: x * s.t.sum(0), t=torch.ones(2000, 8)), lambda m: m.t.data[1999].mul_(3) is None),
    "end of a large tensor through NumPy": (lambda: module(lambda s, x: x * s.t.sum(0), t=torch.ones(2000, 8)), lambda m: m.t.numpy()[1999].fill(3.0)),
    "rounding of decimals": (lambda: module(lambda s, x: x * float(s.k / 3), k=decimal.Decimal(2)),
                             lambda m: replaced(decimal.getcontext(), "prec", 1)),
    "rounding of decimals that are made": (lambda: module(lambda s, x: x * float(decimal.Decimal(2) / 3)), lambda m: replaced(decimal.getcontext(), "prec", 1)),
    "object of compiled code": (lambda: module(lambda s, x: x * float(s.k.divide(2, 3)), k=decimal.Context(prec=9)), lambda m: setattr(m.k, "prec", 1)),
    "registered class": (lambda: module(lambda s, x: x * (2 if isinstance(s.o, Shape) else 3), o=Told()), lambda m: registers(Shape)),
    "class registered with a derived one": (lambda: module(lambda s, x: x * (2 if isinstance(s.o, Shape) else 3), o=Told()), lambda m: registers(Round)),
    "name of a class": (lambda: module(lambda s, x: x * len(type(s.o).__name__), o=Pair()), lambda m: replaced(Pair, "__name__", "P")),
    "text about a class": (lambda: module(lambda s, x: x * len(s.o.__doc__), o=Told()), lambda m: replaced(Told, "__doc__", "P")),
    "name of a function": (lambda: module(lambda s, x: x * len(chain.__name__)), lambda m: replaced(chain, "__name__", "P")),
    "arguments of an exception": (lambda: module(lambda s, x: x * s.e.args[0], e=ValueError(2.0)), lambda m: setattr(m.e, "args", (5.0,))),
    "number of an error": (lambda: module(lambda s, x: x * s.e.errno, e=OSError(2, "none")), lambda m: setattr(m.e, "errno", 5)),
    "attribute that a parameter gets": (lambda: module(lambda s, x: x * s.w * getattr(s.w, "scale", 1.0), w=nn.Parameter(torch.ones(8))),
                                        lambda m: setattr(m.w, "scale", 5.0)),
    "attribute that a tensor gets": (lambda: module(lambda s, x: x * s.w * getattr(s.w, "scale", 1.0), w=torch.ones(8)), lambda m: setattr(m.w, "scale", 5.0)),
    "attribute of a name that is made": (lambda: module(lambda s, x: x * s.w * getattr(s.w, s.n, 1.0), n="scale", w=torch.ones(8)),
                                         lambda m: setattr(m.w, "scale", 5.0)),
    "buffer by a name that was asked for": (lambda: module(lambda s, x: x * getattr(s, "later", 1.0)), lambda m: m.register_buffer("later", X + 2)),
    "parameter by a name that was asked for": (lambda: module(lambda s, x: x * getattr(s, "later", 1.0)),
                                               lambda m: m.register_parameter("later", nn.Parameter(X + 2))),
    "attribute whose absence was caught": (lambda: module(tried, o=types.SimpleNamespace(k=2.0, note=1)),
                                           lambda m: (delattr(m.o, "note"), setattr(m.o, "later", 7.0))[1]),
    "part of a pattern": (lambda: module(matched, o=Pair()), lambda m: setattr(m.o, "j", 7.0)),
    "place of a pattern": (lambda: module(matched_by_place, o=Pair()), lambda m: setattr(m.o, "j", 7.0)),
    "emptied cache": (forgetful, lambda m: remembered.cache_clear()),
    "large tensor with other data": (lambda: module(lambda s, x: x * s.t.sum(0), t=torch.ones(2000, 8)),
                                     lambda m: setattr(m.t, "data", torch.full((2000, 8), 3.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_every_place_around_a_module(name: str, checks: Any) -> None:
    make, change = CHANGES[name]
    made = attached(make(), X, extension=checks)
    assert not made._planish.reason
    made(X)
    made(X)
    assert made._planish.ran == 2, made._planish.why
    captured, own = made._planish.shipped.answer.result, type(made).__mro__[1].forward
    back = change(made)
    try:
        wanted = own(made, X)
        results = [made(X) for _ in range(2)]
    finally:
        if callable(back):
            back()
    assert not torch.equal(wanted, captured), "the change is none"
    assert all(torch.equal(result, wanted) for result in results)


SAME: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "another variable": ("environment variable", lambda m: os.environ.update(PLANISH_TEST_OTHER="1")),
    "the variable anew": ("environment variable", lambda m: os.environ.update(PLANISH_TEST_GAIN="2")),
    "as many threads": ("threads", lambda m: torch.set_num_threads(torch.get_num_threads())),
    "an equal getter": ("attrgetter", lambda m: setattr(m, "pick", operator.attrgetter("a"))),
    "an equal decimal": ("decimal", lambda m: setattr(m, "k", decimal.Decimal("1.5"))),
    "an equal pattern": ("pattern", lambda m: setattr(m, "k", re.compile("a"))),
    "an equal number": ("number with a class", lambda m: setattr(m, "k", Real(2.0))),
    "an equal distribution": ("distribution", lambda m: setattr(m, "d", dispatched())),
    "a distribution that was asked for more": ("distribution", lambda m: m.d.entropy()),
    "a cache that met others": ("result in a cache", lambda m: (m.f(9), m.f(10))),
    "a bounded cache that met others": ("result in a bounded cache", lambda m: (m.f(9), m.f(10))),
    "another class registered": ("registered class", lambda m: collections.abc.Sized.register(type("Other", (), {}))),
    "an equal exception": ("arguments of an exception", lambda m: setattr(m, "e", ValueError(2.0))),
    "an equal context": ("object of compiled code", lambda m: setattr(m, "k", decimal.Context(prec=9))),
    "an attribute that nothing reads": ("attribute of a parameter", lambda m: setattr(m.w, "note", 1)),
    "the same mode": ("mode of a part", lambda m: m.c.train()),
    "a method of tensors that nothing mentions": ("operator of tensors", lambda m: setattr(torch.Tensor, "planish_test_method", torch.Tensor.__pow__)),
    "the last place again": ("order of a dict", lambda m: moved(m.d, "b")),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_around_a_module(name: str, checks: Any) -> None:
    place, change = SAME[name]
    made = attached(CHANGES[place][0](), X, extension=checks)
    made(X)
    try:
        change(made)
        made(X)
        made(X)
    finally:
        if hasattr(torch.Tensor, "planish_test_method"):
            del torch.Tensor.planish_test_method
    assert made._planish.ran == 3, made._planish.why


def test_a_cache_that_was_emptied_is_filled_by_the_modules_own_code(checks: Any) -> None:
    made = attached(CHANGES["result in a cache"][0](), X, extension=checks)
    made(X)
    made.f.cache_clear()
    own = type(made).__mro__[1].forward
    made(X)
    assert made._planish.ran == 1 and "no longer kept" in made._planish.why
    own(made, X)
    made(X)
    made(X)
    assert made._planish.ran == 3, made._planish.why


class Reads:
    """What forward does, and a word of the sentence that declines it."""

    def __init__(self, forward: Callable[..., Any], word: str, **held: Any) -> None:
        self.forward, self.word, self.held = forward, word, held


DECLINED = {
    "a file": Reads(lambda s, x: x * float(open(__file__).read(1) == '"'), "a file"),  # noqa: SIM115
    "a path": Reads(lambda s, x: x * len(s.p.read_text()), "is a path", p=pathlib.Path(__file__)),
    "random numbers": Reads(lambda s, x: x * (torch.initial_seed() % 7), "random numbers"),
    "modules by their names": Reads(lambda s, x: x * sys.modules["torch"].pi, "sys.modules"),
    "a weak proxy": Reads(lambda s, x: x * s.p.k, "weak proxy", p=weakref.proxy(KEPT := Pair())),
    "a version": Reads(lambda s, x: x * (1 + x._version), "_version"),
    "a place in memory": Reads(lambda s, x: x * (1 + x.storage_offset()), "storage_offset"),
    "a thread": Reads(lambda s, x: x * len(threading.current_thread().name), "which thread calls"),
    "a process": Reads(lambda s, x: x * (os.getpid() % 7 + 1), "who else runs"),
    "a tensor too large to be compared": Reads(lambda s, x: x * s.t[:8], "register it as a buffer", t=torch.ones(1 << 19)),
    "gradients of a result": Reads(lambda s, x: (x * 2).requires_grad_(True), "requires_grad_"),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLINED)
def test_what_cannot_be_followed_declines(name: str) -> None:
    case = DECLINED[name]
    problem = reach(module(case.forward, **case.held)).problem
    assert case.word in problem and "\n" not in problem


# A statement, and whether it may write the memory of a tensor on the CPU, or on another device, with no trace.
WRITES: dict[str, tuple[bool, bool]] = {
    "loss.detach().cpu().numpy()": (True, False),  # no copy of what lies on the CPU
    "x.cpu().numpy()": (True, False),
    "x.data.cpu().mul_(2)": (True, False),
    "numpy.asarray(x)": (True, False),
    "from torch import from_numpy": (True, False),
    "x.detach().clone().numpy()": (False, False),
    "torch.cat(found).cpu().numpy()": (False, False),
    "x.numpy().mean()": (False, False),
    "x.sum(**how).numpy()": (True, False),
    "x.data_ptr()": (True, True),
    "x.untyped_storage()": (True, True),
    "torch.utils.dlpack.to_dlpack(x)": (True, True),
    "from torch.utils.dlpack import to_dlpack": (True, True),
    "x.data.mul_(2)": (True, True),
    "x.data.contiguous().mul_(2)": (True, True),
    "x.data[3] = 2": (True, True),
    "x.data = y": (True, True),
    "x.data += y": (True, True),
    "scale(x.data)": (True, True),
    "w = x.data": (True, True),
    "x.scale = 2; x.data.mul_(2)": (True, True),
    "x.data.norm()": (False, False),
    "y = x.data + 1": (False, False),
    "x.data == 'y'": (False, False),
    "f'{x.data}'": (False, False),
    "args = parser.parse_args(); load(args.data)": (False, False),
    "load(args.data, args.epochs)": (False, False),
    "torch.utils.data.DataLoader(x)": (False, False),
}


@pytest.mark.parametrize("line", WRITES)
def test_lines_that_may_write_memory_unseen(line: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(line)
    found = tuple(bool(outside.writes_unseen(str(file), on_cpu)) for on_cpu in (True, False))
    assert found == WRITES[line]


def test_numpy_in_a_file_declines_no_tensor_of_another_device(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "train.py"
    for line, declines in (("loss.detach().cpu().numpy()", False), ("x.data.mul_(2)", True)):
        file.write_text(line)
        outside.writes_unseen.cache_clear()
        linecache.clearcache()
        walk = _Walk(nn.Identity(), frozenset(), frozenset(), False, set())
        walk.files.add(str(file))
        with FakeTensorMode():
            walk.partly.append(("table", torch.empty(8, device="cuda")))
        walk._memory()
        assert ("register it as a buffer" in walk.found.problem) == declines, walk.found.problem


def test_a_path_that_is_only_a_name_does_not_decline() -> None:
    assert not reach(module(lambda s, x: x * len(str(s.p)), p=pathlib.Path(__file__))).problem


# ---- calls ----


def both(made: Any, *given: Any, **named: Any) -> tuple[Any, Any]:
    return made(*given, **named), type(made).__mro__[1].forward(made, *given, **named)


def weighed(*values: torch.Tensor) -> torch.Tensor:
    return functools.reduce(torch.add, [value * (k + 1) for k, value in enumerate(values)])


def test_the_order_of_a_dictionary_is_seen(checks: Any) -> None:
    made = attached(module(lambda s, d: weighed(*d.values())), {"a": X, "b": X + 1}, extension=checks)
    for given in ({"b": X + 1, "a": X}, {"b": X + 1, "a": X}):
        have, want = both(made, given)
        assert torch.equal(have, want)
    made({"a": X, "b": X + 1})
    assert made._planish.ran == 1


def test_the_order_of_further_keywords_is_seen(checks: Any) -> None:
    made = attached(module(lambda s, first, **more: first + weighed(*more.values())), first=X, a=X, b=X + 1, extension=checks)
    for _ in range(2):
        have, want = both(made, first=X, b=X + 1, a=X)
        assert torch.equal(have, want)
        have, want = both(made, X, b=X + 1, a=X)
        assert torch.equal(have, want)
    assert made._planish.ran == 0
    for call in (lambda: made(a=X, b=X + 1, first=X), lambda: made(X, a=X, b=X + 1)):
        before = made._planish.ran
        call()
        assert made._planish.ran == before + 1, made._planish.why


def test_keywords_with_names_have_no_order(checks: Any) -> None:
    made = attached(module(lambda s, a, b: a - b), a=X, b=X + 1, extension=checks)
    made(b=X + 1, a=X)
    made(b=X + 1, a=X)
    assert made._planish.ran == 2


CONTEXTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "gradients are recorded": (lambda s, x: x * (2 if torch.is_grad_enabled() else 3), torch.enable_grad),
    "inference mode": (lambda s, x: x * (2 if torch.is_inference_mode_enabled() else 3), torch.inference_mode),
    "another default device": (lambda s, x: x * 2 if torch.arange(8).device.type == "cpu" else x * 3, lambda: torch.device("meta")),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_code_that_asks_where_it_is_called(name: str, checks: Any) -> None:
    forward, context = CONTEXTS[name]
    made = attached(module(forward), X, extension=checks)
    for _ in range(2):
        with context():
            have, want = both(made, X)
        torch.testing.assert_close(have, want, rtol=0, atol=0)
    assert made._planish.ran == 0
    made(X)
    assert made._planish.ran == 1


def asks_scale(s: Any, x: Any) -> Any:
    try:
        return x * x.scale
    except AttributeError:
        return x * 3


INPUTS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "one that requires gradients": (lambda s, x: x * (2 if x.requires_grad else 3), lambda: (X.clone().requires_grad_(),)),
    "one with a gradient": (lambda s, x: x * (2 if x.grad is None else 3), lambda: (with_gradient(),)),
    "a parameter": (lambda s, x: x * (2 if isinstance(x, nn.Parameter) else 3), lambda: (nn.Parameter(X.clone(), requires_grad=False),)),
    "one with an attribute": (lambda s, x: x * getattr(x, "scale", 3), lambda: (marked(X.clone()),)),
    "one with an attribute whose absence is caught": (asks_scale, lambda: (marked(X.clone()),)),
    "one with an attribute of a name that is made": (lambda s, x: x * getattr(x, "".join(("sc", "ale")), 3), lambda: (marked(X.clone()),)),
    "one twice": (lambda s, x, y: x * 5 if x is y else x + y, lambda: (SAME_ONE, SAME_ONE)),
    "a sparse one": (lambda s, x: torch.sparse.sum(x) if x.is_sparse else x.sum(), lambda: (X.to_sparse(),)),
    "one without memory": (lambda s, x: x * 2, lambda: (torch._efficientzerotensor((8,)),)),
    "one on no device": (lambda s, x: x * 2, lambda: (torch.ones(8, device="meta"),)),
}
SAME_ONE = X.clone()


def with_gradient() -> torch.Tensor:
    made = X.clone()
    made.grad = torch.ones(8)
    return made


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_only_look_like_the_captured_ones(name: str, checks: Any) -> None:
    forward, given = INPUTS[name]
    inputs = given()
    made = attached(module(forward), *(X.clone() for _ in inputs), extension=checks)
    for _ in range(2):
        have, want = both(made, *inputs)
        assert have.device == want.device and (have.is_meta or torch.equal(have, want)), made._planish.why
    assert made._planish.ran == 0
    made(*(X.clone() for _ in inputs))
    assert made._planish.ran == 1


def test_an_attribute_that_nobody_asks_for_is_nothing(checks: Any) -> None:
    made, given = attached(module(lambda s, x: x * getattr(x, "scale", 3)), X, extension=checks), X.clone()
    given.note = 1  # type: ignore[attr-defined]
    made(given)
    made(given)
    assert made._planish.ran == 2, made._planish.why


def test_complex_numbers_with_a_pending_conjugate(checks: Any) -> None:
    given = torch.complex(X, X)
    made = attached(module(lambda s, x: x * 2), given, extension=checks)
    have, want = both(made, given.conj())
    assert torch.equal(have, want) and made._planish.ran == 0
    made(given.conj().resolve_conj().conj().resolve_conj())
    assert made._planish.ran == 1


def test_objects_that_answer_to_anything_are_looked_at_without_asking() -> None:
    """Configurations of many libraries raise a KeyError where an attribute is missing, which is not what getattr expects."""

    class Config(dict):  # type: ignore[type-arg]
        def __getattr__(self, name: str) -> Any:
            return self[name]

    space: dict[str, Any] = {"nn": nn, "CONFIG": Config(gain=2.0)}
    exec("class Asking(nn.Module):\n    def forward(self, x):\n        return x * CONFIG.gain if self.training else x", space)
    made = attached(space["Asking"](), X)
    made(X)
    assert made._planish.ran == 1, made._planish.why
    space["CONFIG"]["gain"] = 3.0
    have, want = both(made, X)
    assert torch.equal(have, want)
