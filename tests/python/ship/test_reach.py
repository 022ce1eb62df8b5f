"""A module whose state changes, wherever it lies, never gets a program's old answer; what changes nothing keeps the program."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import importlib
import pickle
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from planish.ship import guards
from planish.ship.reach import reach
from stand_in import attached, extension

X = torch.linspace(-1, 1, 8)
SCALE = 2.0
TABLE = {"gain": [1.0, 2.0]}
WAYS = ["in C", "in Python"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", guards.FallbackWarning)
        yield


@pytest.fixture(params=WAYS)
def checks(request: pytest.FixtureRequest) -> Any:
    return extension() if request.param == "in C" else None


def expect_own(module: Any, ran: bool | None = None, x: torch.Tensor = X) -> None:
    """Several times, as later calls may take another way than the first, and trust what was compared twice: the module's own answer, from the
    program or not as `ran` says."""
    for _ in range(4):
        before = module._planish.ran
        torch.testing.assert_close(module(x), type(module).__mro__[1].forward(module, x))
        if ran is not None:
            assert (module._planish.ran > before) is ran, module._planish.why


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Settings:
    k: float = 1.5
    inner: Any = None


class Slotted:
    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k = 1.5


class Config:
    """As configurations of models are: with attributes under two names."""

    attribute_map: ClassVar[dict[str, str]] = {"width": "n_embd"}

    def __init__(self) -> None:
        self.n_embd, self.unread = 1.5, "x"

    def __getattribute__(self, key: str) -> Any:
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)


class Scaled:
    factor = 1.5

    def __call__(self, y: torch.Tensor) -> torch.Tensor:
        return y * self.factor


class Other(Scaled):
    factor = 7.0


def doubled(y: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return y * by


def closing(value: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    held = [value]

    def inner(y: torch.Tensor) -> torch.Tensor:
        return y * held[0]

    return inner


class Everything(nn.Module):
    """State in each place where there can be some."""

    gain = 1.5
    table: ClassVar[dict[str, float]] = {"a": 1.5}

    def __init__(self) -> None:
        super().__init__()
        self.number, self.text, self.flag = 1.5, "tanh", True
        self.dtype, self.kind, self.act = torch.float32, Kind.ONE, torch.tanh
        self.space, self.settings, self.nested = types.SimpleNamespace(k=1.5), Settings(), Settings(inner={"deep": [1.5]})
        self.slotted, self.config, self.scaled = Slotted(), Config(), Scaled()
        self.d, self.ordered, self.items, self.names = {"s": 1.5}, collections.OrderedDict(a=1.5), [1.5, 2.5], {"a", "b"}
        self.pair, self.tensors, self.tensor = (1.5, [1.5]), (torch.ones(8), [torch.ones(8)]), torch.ones(8)
        self.norms, self.child, self.held = [nn.LayerNorm(8)], nn.LayerNorm(8), {"n": nn.Sequential(nn.LeakyReLU(0.1))}
        self.partial, self.closed, self.function = functools.partial(torch.add, alpha=1.5), closing(1.5), doubled
        self.bound = self.space.__init__  # a method that nothing calls
        self.unread = 0

    def step(self, y: torch.Tensor) -> torch.Tensor:
        return y + 1

    @property
    def product(self) -> float:
        return self.number * self.space.k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.step(x) * self.number * self.product * self.gain * self.table["a"] * SCALE * TABLE["gain"][0]
        y = torch.tanh(y) if self.text == "tanh" else y
        y = self.act(y.to(self.dtype).float()) * (2 if self.flag else 3) * self.kind.value
        y = y * self.space.k * self.settings.k * self.nested.inner["deep"][0] * self.slotted.k * self.config.width
        y = self.scaled(y) * self.d["s"] * self.ordered["a"] * sum(self.items) * len(self.names) * self.pair[0] * self.pair[1][0]
        y = y * self.tensors[0] * self.tensors[1][0] * self.tensor / 10_000
        y = y + self.child(y) + self.norms[0](y) + self.held["n"](-y)
        y = self.function(self.closed(self.partial(y, y)))
        return y * getattr(self, "later", 1.0) + (1.0 if "c" in self.d else 0.0)


def _set(path: str, value: Any) -> Callable[[Any], Any]:
    def change(m: Any) -> Callable[[], None]:
        *owners, name = path.split(".")
        thing = m
        for owner in owners:
            thing = getattr(thing, owner)
        old = getattr(thing, name)
        setattr(thing, name, value() if callable(value) and not isinstance(value, type(torch.tanh)) else value)
        return lambda: setattr(thing, name, old)

    return change


def _entry(path: str, key: Any, value: Any) -> Callable[[Any], Any]:
    def change(m: Any) -> Callable[[], None]:
        thing = m
        for owner in path.split("."):
            thing = getattr(thing, owner)
        old = copy.copy(thing)
        thing[key] = value

        def back() -> None:
            if isinstance(thing, dict):
                thing.clear()
                thing.update(old)
            else:
                thing[key] = old[key]

        return back

    return change


def _scale(find: Callable[[Any], torch.Tensor]) -> Callable[[Any], Any]:
    def change(m: Any) -> Callable[[], None]:
        find(m).mul_(2.0)
        return lambda: None

    return change


def _of(thing: Any, name: str, value: Any) -> Callable[[Any], Any]:
    """On something that all modules share: to be put back."""

    def change(m: Any) -> Callable[[], None]:
        old = vars(thing).get(name, getattr(thing, name)) if not isinstance(thing, types.FunctionType) else getattr(thing, name)
        setattr(thing, name, value)
        return lambda: setattr(thing, name, old)

    return change


def _triple(y: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return y * by * 3


HERE = sys.modules[__name__]
CHANGES: dict[str, Callable[[Any], Any]] = {
    **{f"attribute {name}": _set(name, 3.5) for name in ("number", "space.k", "settings.k", "slotted.k", "config.n_embd", "scaled.factor")},
    "text": _set("text", "none"), "flag": _set("flag", False), "dtype": _set("dtype", torch.bfloat16), "enum": _set("kind", Kind.TWO),
    "activation": _set("act", torch.sigmoid), "namespace": _set("space", lambda: types.SimpleNamespace(k=7.0)),
    "another dataclass": _set("settings", lambda: Settings(9.0)), "nested": _entry("nested.inner", "deep", [4.0]),
    "deeper": lambda m: m.nested.inner["deep"].__setitem__(0, 4.0), "dict": _entry("d", "s", 7.0), "new key": _entry("d", "c", 1.0),
    "ordered": _entry("ordered", "a", 3.0), "list": _entry("items", 1, 9.0), "longer list": lambda m: m.items.append(3.0), "set": lambda m: m.names.add("c"),
    "list in a tuple": lambda m: m.pair[1].__setitem__(0, 2.0), "tuple": _set("pair", lambda: (1.5, [9.0])),
    "tensor": _scale(lambda m: m.tensor), "tensor in a tuple": _scale(lambda m: m.tensors[0]), "tensor in a list": _scale(lambda m: m.tensors[1][0]),
    "tensor through data": _scale(lambda m: m.tensor.data), "another tensor": _set("tensor", lambda: torch.full((8,), 2.0)),
    "unregistered weight": _scale(lambda m: m.norms[0].weight), "unregistered weight through data": _scale(lambda m: m.norms[0].weight.data),
    "unregistered eps": lambda m: setattr(m.norms[0], "eps", 0.5), "unregistered module": _entry("norms", 0, nn.LayerNorm(8, eps=0.5)),
    "deep unregistered": lambda m: setattr(m.held["n"][0], "negative_slope", -9.0), "child eps": lambda m: setattr(m.child, "eps", 0.5),
    "child weight gone": lambda m: setattr(m.child, "bias", None), "unregistered hook": lambda m: m.norms[0].register_forward_hook(lambda *a: a[2] * 3),
    "partial": _set("partial", lambda: functools.partial(torch.add, alpha=3.0)), "keyword of a partial": lambda m: m.partial.keywords.__setitem__("alpha", 5.0),
    "closure": _set("closed", lambda: closing(4.0)), "inside a closure": lambda m: m.closed.__closure__[0].cell_contents.__setitem__(0, 4.0),
    "cell": lambda m: setattr(m.closed.__closure__[0], "cell_contents", [4.0]), "function": _set("function", lambda: _triple),
    "appears": lambda m: setattr(m, "later", 5.0), "shadows a class's attribute": lambda m: setattr(m, "gain", 5.0),
    "shadows a method": lambda m: setattr(m, "step", lambda y: y * 7), "object's class": lambda m: setattr(m.scaled, "__class__", Other),
    "class attribute": _of(Everything, "gain", 4.0), "class dict": lambda m: (Everything.table.update(a=4.0), lambda: Everything.table.update(a=1.5))[1],
    "method": _of(Everything, "step", lambda self, y: y * 9), "property": _of(Everything, "product", property(lambda self: 11.0)),
    "class of an object": _of(Scaled, "factor", 4.0), "call of an object": _of(Scaled, "__call__", lambda self, y: y * 9),
    "global": _of(HERE, "SCALE", 5.0), "inside a global": lambda m: (TABLE["gain"].__setitem__(0, 5.0), lambda: TABLE["gain"].__setitem__(0, 1.0))[1],
    "code of a function": _of(doubled, "__code__", _triple.__code__), "default of a function": _of(doubled, "__defaults__", (5.0,)),
    "method of torch's class": _of(nn.LayerNorm, "forward", lambda self, y: y * 5), "function of torch": _of(torch, "tanh", torch.sigmoid),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_every_place(name: str, checks: Any) -> None:
    module = attached(Everything(), X, extension=checks)
    assert not module._planish.reason
    expect_own(module, True)
    captured = module._planish.shipped.answer.result
    back = CHANGES[name](module)
    try:
        different = not torch.allclose(Everything.forward(module, X), captured)
        assert different or name == "child weight gone", "the change is none"
        for _ in range(2):
            wanted = type(module).__mro__[1].forward(module, X)
            torch.testing.assert_close(module(X), wanted)
    finally:
        if callable(back):
            back()


UNREAD: dict[str, Callable[[Any], Any]] = {
    "unread number": lambda m: setattr(m, "unread", m.unread + 1),
    "unread attribute of an object": lambda m: setattr(m.space, "unread", 1),
    "new attribute": lambda m: setattr(m, "note", "x"),
    "new attribute of a child": lambda m: setattr(m.child, "note", "x"),
    "the same number anew": lambda m: setattr(m, "number", float("1.5")),
    "an equal object": lambda m: setattr(m, "space", types.SimpleNamespace(k=1.5)),
    "an equal list": lambda m: setattr(m, "items", [1.5, 2.5]),
    "an equal tensor": lambda m: setattr(m, "tensor", torch.ones(8)),
    "back again": lambda m: (m.d.update(s=9.0), m(X), m.d.update(s=1.5)),
    "another object, and the first again": lambda m: (old := m.space, setattr(m, "space", types.SimpleNamespace(k=9.0)), m(X), setattr(m, "space", old)),
    "another dictionary, and the first again": lambda m: (
        old := m.nested.inner,
        setattr(m.nested, "inner", {"deep": [9.0]}),
        m(X),
        setattr(m.nested, "inner", old),
    ),
    "a global, and the first again": lambda m: (old := SCALE, setattr(HERE, "SCALE", 9.0), m(X), setattr(HERE, "SCALE", old)),
    "another module, and the first again": lambda m: (old := m.child, setattr(m, "child", nn.LayerNorm(8, eps=0.5)), m(X), setattr(m, "child", old)),
    "another function, and the first again": lambda m: (old := m.closed, setattr(m, "closed", closing(9.0)), m(X), setattr(m, "closed", old)),
    "a parameter": lambda m: m.child.weight.mul_(1.0),
    "another mode": lambda m: m.train(not m.training),
    "an unread global": lambda m: setattr(HERE, "UNREAD_GLOBAL", object()),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_changes_nothing_keeps_the_program(name: str, checks: Any) -> None:
    module = attached(Everything(), X, extension=checks)
    expect_own(module, True)
    UNREAD[name](module)
    module(X)
    expect_own(module, True)


# ---- what was seen ----


def test_a_tuple_of_tensors_survives_a_copy(checks: Any) -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tt = (torch.ones(8),)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.tt[0]

    module = attached(Held(), X, extension=checks)
    expect_own(module, True)
    expect_own(copy.deepcopy(module), True)


def test_a_pickled_attachment_compares_by_value() -> None:
    module = attached(Everything(), X)
    guards.shipped["a stand-in"] = module._planish.shipped
    try:
        other = pickle.loads(pickle.dumps(module._planish))
    finally:
        del guards.shipped["a stand-in"]
    assert other(module, (X,), {}) is not guards.FALLBACK
    module.space.k = 9.0
    assert other(module, (X,), {}) is guards.FALLBACK


def test_whether_two_places_share_a_tuple_of_numbers_is_nothing() -> None:
    class Limited(nn.Module):
        def __init__(self, limits: Any, more: Any) -> None:
            super().__init__()
            self.limits, self.more = limits, more

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clamp(*self.limits) + self.more[0]

    limits = (0.0, float("inf"))
    shared, apart = Limited(limits, limits), Limited(limits, (0.0, float("inf")))
    assert reach(shared).tokens == reach(apart).tokens != reach(Limited(limits, (0.5, 1.0))).tokens


def test_the_sentence_names_what_changed() -> None:
    module = attached(Everything(), X)
    module(X)
    module.nested.inner["deep"][0] = 9.0
    module(X)
    assert module._planish.why == "'nested.inner['deep'][0]' is 9.0, captured was 1.5"


def test_gradients_for_a_tensor_that_is_no_parameter() -> None:
    module = attached(Everything().requires_grad_(False), X)
    module.norms[0].weight.requires_grad_(True)
    with torch.enable_grad():
        assert module(X).requires_grad


class Opened:
    def __getattr__(self, name: str) -> Any:
        return vars(self).get("_" + name)


def _generator() -> Iterator[float]:
    yield 1.0


DECLINED: dict[str, Any] = {
    "a generator": _generator(),
    "an iterator": iter([1.0]),
    "an open file": open(__file__),  # noqa: SIM115
    "bytes that change": bytearray(b"1"),
    "a deque": collections.deque([1.0]),
    "random numbers": random.Random(1),
    "a large unregistered parameter": nn.Parameter(torch.ones(2000)),
    "a sparse tensor": torch.ones(3).to_sparse(),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_changes_unseen_declines(name: str) -> None:
    class Holding(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if self.held is not None else x + 1

    module = Holding()
    module.held = types.SimpleNamespace(inside=DECLINED[name])
    Holding.look = lambda self: self.held.inside
    Holding.forward.__code__  # noqa: B018
    plain = reach(module).problem
    assert plain == "", "nothing reads what is inside"

    class Reading(Holding):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if self.held.inside is not None else x + 1

    module.__class__ = Reading
    problem = reach(module).problem
    assert "'held.inside'" in problem and "\n" not in problem
    attachment = attached(module, X)._planish
    assert attachment.reason == problem
    expect_own(module, False)


def test_names_made_at_run_time_widen() -> None:
    class Dynamic(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for k in range(2):
                x = x * getattr(self, f"s{k}") * self.opened.v
            return x

    module = Dynamic()
    module.s0, module.s1, module.opened = 1.5, 2.5, Opened()
    module.opened._v = 1.5
    for change in (lambda: setattr(module, "s1", 9.0), lambda: setattr(module.opened, "_v", 9.0)):
        model = attached(copy.copy(module), X)
        expect_own(model, True)
        change()
        model.s1 = module.s1
        expect_own(model, False)


def test_code_in_a_namespace_without_a_name_is_the_users(checks: Any) -> None:
    """As a shipped file's is, where its text is executed."""
    space: dict[str, Any] = {"torch": torch, "nn": nn, "GAIN": 2.0}
    exec("class Nameless(nn.Module):\n    def forward(self, x):\n        return x * GAIN * self.k", space)
    made: Any = space["Nameless"]()
    made.k = 1.5
    module = attached(made, X, extension=checks)
    expect_own(module, True)
    space["GAIN"] = 3.0
    expect_own(module, False)
    space["GAIN"], module.k = 2.0, 2.5
    expect_own(module, False)


def test_a_file_with_a_name_of_the_standard_librarys_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "this.py").write_text("from torch import nn\nGAIN = 2.0\nclass Model(nn.Module):\n    def forward(self, x):\n        return x * GAIN\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "this", raising=False)
    known: Any = importlib.import_module("this")
    module = attached(known.Model(), X)
    expect_own(module, True)
    known.GAIN = 3.0
    expect_own(module, False)
    monkeypatch.delitem(sys.modules, "this")


def test_code_made_of_text_declines() -> None:
    class Evaluated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * eval("SCALE")

    problem = reach(Evaluated()).problem
    assert "eval at test_reach.py:" in problem


def test_constant_names_do_not_widen() -> None:
    class Asking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * getattr(self, "s0", 1.0) + (1 if hasattr(self, "s1") else 0)

    module = Asking()
    module.s0, module.unread = 2.0, object()
    found = reach(module)
    assert "s0" in found.tokens and "unread" not in found.tokens


def test_torch_modules_are_read_by_what_their_code_mentions() -> None:
    class Root(nn.Module):
        def __init__(self, child: nn.Module) -> None:
            super().__init__()
            self.child = child

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.child(x)

    def read(child: nn.Module) -> dict[str, str]:
        return {k.removeprefix("child."): v for k, v in reach(Root(child)).tokens.items() if k.startswith("child.")}

    assert read(nn.Linear(3, 4)) == {}
    assert read(nn.LayerNorm(8)).keys() == {"normalized_shape", "normalized_shape[0]", "eps"}
    assert {"stride", "padding", "dilation", "groups"} <= read(nn.Conv2d(3, 4, 3)).keys()


def test_a_class_of_a_script_is_the_users_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main program of a runner is a file of an installed package; a class that came to it by value says that it is from `__main__`, too."""
    space: dict[str, Any] = {"__name__": "__main__", "torch": torch, "nn": nn}
    exec("class Scaled(nn.Module):\n    def forward(self, x):\n        return torch.sigmoid(x) * 2\n", space)
    module = space["Scaled"]()
    here = guards.configuration(module)
    assert "global torch" in here[""]["reached"]
    for file in (Path(torch.__file__).parents[1] / "somebody" / "__main__.py", Path("/home/somebody/script.py")):
        monkeypatch.setattr(sys.modules["__main__"], "__file__", str(file), raising=False)
        assert guards.configuration(module) == here
