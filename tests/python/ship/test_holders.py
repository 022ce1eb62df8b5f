"""Objects that hold tensors: captured, attached, and called as eager would be. The classes are made up; transformers' own are in test_transformers.py."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import sys
import warnings
from collections import namedtuple
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from live_program import attached
from planish.api import status
from planish.capture import capture
from planish.capture.live import load_live, write_live
from planish.capture.task import check_forward
from planish.errors import PlanishError
from planish.ship import apart, holders
from planish.ship.guards import FallbackWarning
from planish.ship.watch import Watch
from shipping import ship
from torch import nn
from torch.utils import _pytree as pytree


class Layer:
    """A cache of fixed size, written in place."""

    def __init__(self, size: int) -> None:
        self.keys = torch.zeros(2, size, 4)
        self.length = torch.tensor(0)
        self.size = size
        raise_if_asked()


class Cache:
    def __init__(self, layers: int, size: int = 8) -> None:
        self.layers = [Layer(size) for _ in range(layers)]
        self.seen = 0


class Growing:
    """A cache that is another tensor after each call."""

    def __init__(self, start: int) -> None:
        self.keys = torch.randn(2, start, 4)
        self.counts = [0, start]
        self.kind: type = Growing


@dataclasses.dataclass
class Outcome:
    y: torch.Tensor
    cache: Any


Pair = namedtuple("Pair", "first second")
_constructors_fail = False


def raise_if_asked() -> None:
    if _constructors_fail:
        raise AssertionError("a constructor ran")


class Step(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))

    def forward(self, x: torch.Tensor, cache: Any = None) -> Outcome:
        for part, layer in zip(self.parts, cache.layers, strict=True):
            at = torch.arange(1) + layer.length
            layer.keys.index_copy_(1, at, part(x))
            layer.length.add_(1)
            x = x + layer.keys.mean(1, keepdim=True)
        return Outcome(x, cache)


class Grow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, cache: Any = None) -> tuple[torch.Tensor, Any]:
        if cache is None:
            cache = Growing(0)
            cache.keys = self.part(x)
        else:
            cache.keys = torch.cat([cache.keys, self.part(x)], 1)
            cache.counts[1] += 1
            cache.counts.append(3)
        return cache.keys.sum(1), cache


@pytest.fixture(autouse=True)
def _tables_stay() -> Any:
    """Nothing of the user's classes stays in torch's tables in a process of the user's."""
    own = (Layer, Cache, Growing, Outcome)
    yield
    left = [cls for cls in own if cls in pytree.SUPPORTED_NODES or cls in pytree.SUPPORTED_SERIALIZED_TYPES]
    assert not left


def test_a_cache_written_in_place_is_an_effect_and_comes_back_as_the_callers(tmp_path: Path) -> None:
    module, cache = Step().eval(), Cache(2)
    twin, other = copy.deepcopy(module), copy.deepcopy(cache)
    graph = attached(module, tmp_path, torch.randn(2, 1, 4), cache=cache)
    written = [o for o in graph["outputs"] if o["kind"] == "mutate_input"]
    assert len(written) == 4 and len([o for o in graph["outputs"] if o["kind"] == "user"]) == 1  # no copy of the cache among the results
    kept, versions = [layer.keys for layer in cache.layers], [layer.keys._version for layer in (*cache.layers, *other.layers)]
    for _ in range(3):
        x = torch.randn(2, 1, 4)
        with torch.no_grad():
            ours, theirs = module(x, cache=cache), twin(x, cache=other)
        assert type(ours) is Outcome and ours.cache is cache
        torch.testing.assert_close(ours.y, theirs.y)
        for mine, layer, before in zip(cache.layers, other.layers, kept, strict=True):
            assert mine.keys is before
            torch.testing.assert_close(mine.keys, layer.keys)
            assert mine.length.item() == layer.length.item()
    assert [layer.keys._version - was for layer, was in zip((*cache.layers, *other.layers), versions, strict=True)] == [3] * 4
    assert status(module).ran == 3


def test_no_constructor_runs(tmp_path: Path) -> None:
    global _constructors_fail
    cache = Cache(2)
    _constructors_fail = True
    try:
        attached(Step().eval(), tmp_path, torch.randn(2, 1, 4), cache=cache)
    finally:
        _constructors_fail = False


def test_attributes_that_are_set_anew_are_set_in_the_callers_object(tmp_path: Path) -> None:
    module, cache = Grow().eval(), Growing(3)
    twin, other = copy.deepcopy(module), copy.deepcopy(cache)
    attached(module, tmp_path, torch.randn(2, 1, 4), cache=cache)
    assert cache.keys.shape[1] == 3 and cache.counts == [0, 3], "the caller's object was changed by capturing"
    counts, x = cache.counts, torch.randn(2, 1, 4)
    with torch.no_grad():
        ours, theirs = module(x, cache=cache), twin(x, cache=other)
    assert status(module).ran == 1
    assert ours[1] is cache and cache.counts is counts and vars(cache).keys() == vars(other).keys()
    assert cache.counts == other.counts == [0, 4, 3]
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(cache.keys, other.keys)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="counts"):  # a longer cache is another call, which eager answers
        ours, theirs = module(x, cache=cache), twin(x, cache=other)
    torch.testing.assert_close(ours[0], theirs[0])
    assert cache.counts == other.counts and status(module).ran == 1


def test_an_object_that_the_call_makes_is_made_anew_each_time(tmp_path: Path) -> None:
    module = Grow().eval()
    twin = copy.deepcopy(module)
    attached(module, tmp_path, torch.randn(2, 1, 4))
    x = torch.randn(2, 1, 4)
    with torch.no_grad():
        (y, made), (wanted, theirs), (_, again) = module(x), twin(x), module(x)
    assert status(module).ran == 2 and type(made) is Growing and made is not again and made.counts is not again.counts
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(made.keys, theirs.keys)
    assert (made.counts, made.kind) == (theirs.counts, theirs.kind)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: setattr(c.layers[1], "size", 9), "'cache.layers[1].size' is 9, the program was made for 8"),
        (lambda c: setattr(c, "seen", True), "'cache.seen' is True, the program was made for 0"),
        (lambda c: setattr(c, "more", 1), "'cache', a Cache, also has 'more', and the one that the program was made for had not"),
        (lambda c: delattr(c.layers[0], "keys"), "'cache.layers[0]', a Layer, lacks 'keys', and the one that the program was made for had"),
        (lambda c: c.layers.append(Layer(8)), "'cache.layers'"),
        (lambda c: setattr(c.layers[0], "__class__", type("Other", (Layer,), {})), "'cache.layers[0]' is a Other, the program was made for a Layer"),
        (lambda c: setattr(c.layers[0], "keys", None), "input 1"),
        (lambda c: setattr(c.layers[0], "keys", c.layers[1].keys), "shares memory"),
    ],
)
def test_another_object_is_another_call(tmp_path: Path, change: Any, said: str) -> None:
    module, cache, x = Step().eval(), Cache(2), torch.randn(2, 1, 4)
    attached(module, tmp_path, x, cache=cache)
    change(cache)
    with torch.no_grad(), pytest.warns(FallbackWarning) as told, contextlib.suppress(AttributeError, TypeError, ValueError):  # what eager makes of it
        module(x, cache=cache)
    assert said in str(told[0].message)
    assert status(module).ran == 0


def test_a_value_that_changes_with_each_call_is_one_reason(tmp_path: Path) -> None:
    module, cache, x = Step().eval(), Cache(2), torch.randn(2, 1, 4)
    attached(module, tmp_path, x, cache=cache)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for cache.seen in (1, 2, 3):
            module(x, cache=cache)
    assert len([w for w in told if issubclass(w.category, FallbackWarning)]) == 1
    assert len(status(module).fell_back) == 1


class Named(nn.Module):
    def forward(self, pair: Any, box: Any) -> Any:
        return Pair(pair.first + box.y, {"kept": pair, "box": box})


def test_named_tuples_and_dataclasses_of_the_users(tmp_path: Path) -> None:
    module = Named().eval()
    pair, box = Pair(torch.randn(3), torch.randn(3)), Outcome(torch.randn(3), "text")
    attached(module, tmp_path, pair, box=box)
    with torch.no_grad():
        result = module(pair, box=box)
    assert status(module).ran == 1 and type(result) is Pair and result.second["box"] is box
    torch.testing.assert_close(result.first, pair.first + box.y)


def test_a_registration_that_loses_something_is_set_aside_while_capturing(tmp_path: Path) -> None:
    """As transformers' own does, which makes a new cache of copies."""

    def theirs(children: Any, context: Any) -> Any:
        made = Growing(0)
        made.keys = torch.cat([made.keys, *children], 1)
        return made

    pytree.register_pytree_node(Growing, lambda g: ([g.keys], None), theirs)
    node = pytree.SUPPORTED_NODES[Growing]
    try:
        module, cache = Grow().eval(), Growing(3)
        attached(module, tmp_path, torch.randn(2, 1, 4), cache=cache)
        assert pytree.SUPPORTED_NODES[Growing] is node
        with torch.no_grad():
            assert module(torch.randn(2, 1, 4), cache=cache)[1] is cache
        assert status(module).ran == 1 and cache.counts == [0, 4, 3]
    finally:
        pytree._deregister_pytree_node(Growing)
        pytree.SUPPORTED_NODES.pop(Growing, None)
        pytree.SUPPORTED_SERIALIZED_TYPES.pop(Growing, None)


class Opaque:
    def __init__(self) -> None:
        self.keys, self.file = torch.zeros(2), iter([1])


class Deletes(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
        del cache.seen
        return x + cache.layers[0].keys.sum()


def _opaque() -> Any:
    return Opaque()


def _in_itself() -> Any:
    cache = Cache(1)
    cache.layers[0].owner = cache  # type: ignore[attr-defined]
    return cache


@pytest.mark.parametrize(("make", "said"), [(_opaque, "the attribute 'file' of a Opaque"), (_in_itself, "is there twice, or holds itself")])
def test_what_cannot_be_taken_apart_is_refused(tmp_path: Path, make: Any, said: str) -> None:
    with pytest.raises(PlanishError, match="cannot be taken apart") as error:
        capture(Step(1).eval(), (torch.randn(2, 1, 4),), {"cache": make()}, tmp_path)
    assert error.value.kind == "not_exportable" and said in error.value.message


def test_attributes_that_forward_deletes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanishError, match="forward deletes the attribute 'seen' of 'cache'") as error:
        capture(Deletes().eval(), (torch.randn(2, 1, 4),), {"cache": Cache(1)}, tmp_path)
    assert error.value.kind == "not_exportable"


def test_a_live_task_keeps_objects_and_its_check_sees_what_calls_do_to_them(tmp_path: Path) -> None:
    """In this process as the oracle does it in its own; what stays in torch's tables there goes with it."""
    with holders.registered():
        write_live(tmp_path / "task", "step", Grow().eval(), (torch.randn(2, 1, 4),), {"cache": Growing(3)})
        task = load_live(tmp_path / "task")
        args, kwargs = task.make_inputs(1, "cpu")
        assert type(kwargs["cache"]) is Growing and kwargs["cache"].counts == [0, 3]
        watch = Watch(args, kwargs)
        answer = check_forward(tmp_path, task.model, (args, kwargs))
        leaves = pytree.tree_leaves(answer)
        assert [tuple(t.shape) for t in leaves] == [(2, 4), (2, 4, 4)]  # the result, and the keys that it set anew
        watch.restore()
        assert kwargs["cache"].keys.shape[1] == 3 and kwargs["cache"].counts == [0, 3]


class Both(nn.Module):
    def forward(self, one: Any, other: Any) -> torch.Tensor:
        one.keys = one.keys + 1
        other.keys = other.keys * 2
        return one.keys + other.keys


def test_one_object_in_two_places_is_another_call(tmp_path: Path) -> None:
    module, one, other = Both().eval(), Growing(2), Growing(2)
    attached(module, tmp_path, one, other)
    before = one.keys
    with torch.no_grad(), pytest.warns(FallbackWarning, match="one object in two places"):
        result = module(one, one)
    torch.testing.assert_close(one.keys, (before + 1) * 2)
    torch.testing.assert_close(result, one.keys * 2)
    with torch.no_grad():
        module(one, other)
    assert status(module).ran == 1


TASK = """
import torch
from torch import nn

class Cache:
    def __init__(self):
        self.keys, self.gain = torch.zeros(4, 3), -0.0

class Model(nn.Module):
    def forward(self, x, cache):
        cache.keys[1].copy_(x)
        return x + cache.gain, cache

def get_inputs():
    return [torch.randn(3), Cache()]
"""


def test_a_task_file_may_bring_its_own_class(tmp_path: Path) -> None:
    with holders.registered():
        folder = ship(tmp_path, TASK)
    for name in [name for name in sys.modules if name.startswith("planish_task_")]:  # as in a process that never saw the task
        del sys.modules[name]
    model = planish.load(folder)
    cache = sys.modules[type(model).__mro__[1].__module__].Cache()
    x = torch.randn(3)
    with torch.no_grad():
        result, back = model(x, cache)
        assert back is cache and torch.equal(result, x) and torch.equal(cache.keys[1], x)
        assert status(model).ran == 1
        cache.gain = 0.0
        with pytest.warns(UserWarning, match="gain"):  # the folder brings its own class of warnings
            model(x, cache)


def test_forms_travel_as_text() -> None:
    cache = Cache(1)
    with holders.registered(cache):
        leaves, spec = pytree.tree_flatten(((), {"cache": cache}))
        text = holders.dumps(spec)
    again = holders.loads(text)
    assert again == spec and apart.reader(again)((), {"cache": cache}) == leaves
    with pytest.raises(holders.Unheld, match="is not to be found"):
        holders.loads(text.replace(":Cache", ":Cash"))


def test_slots_are_attributes() -> None:
    @dataclasses.dataclass(slots=True)
    class Slotted:
        x: torch.Tensor
        n: int

    value = Slotted(torch.zeros(2), 3)
    with holders.registered(value):
        again = pytree.tree_map(lambda t: t + 1, value)
    assert type(again) is Slotted and again.n == 3 and again.x.tolist() == [1.0, 1.0]


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:planish. ")
def test_a_call_that_begins_with_an_object_without_tensors(tmp_path: Path) -> None:
    """An empty cache, which the first call of a generation fills: calls that are written otherwise are compared with that one by name."""

    class Filled(nn.Module):
        def forward(self, x: torch.Tensor, cache: Any = None, scale: Any = None) -> torch.Tensor:
            if cache is not None:
                cache.keys = x * 2
            return x + (0 if scale is None else scale)

    def empty() -> Growing:
        cache = Growing(0)
        cache.keys = None  # type: ignore[assignment]
        return cache

    module, x = Filled(), torch.randn(2, 3, 4)
    attached(module, tmp_path, x, cache=empty())
    for scale, programs in ((None, 1), (3.0, 1), (None, 2)):
        cache = empty()
        torch.testing.assert_close(module(x, cache=cache, scale=scale), x + (scale or 0))
        torch.testing.assert_close(cache.keys, x * 2)
        assert status(module).ran == programs
    torch.testing.assert_close(module(x), x)  # None by default, which is not an empty cache
    assert status(module).ran == 2
