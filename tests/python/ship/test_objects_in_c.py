"""Calls that the C form answers although they are given objects, tensors that the program does not read, tied parameters, or run operators of torch; and
what makes it leave a call to the checks in Python, which know why."""

from __future__ import annotations

import copy
import enum
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from live_program import attached
from torch import nn
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.filterwarnings("ignore:planish. ")


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


class Layer:
    def __init__(self) -> None:
        self.keys, self.values = torch.zeros(1, 4, 8), torch.zeros(1, 4, 8)
        self.seen, self.scale, self.dtype, self.kind = 0, 0.5, torch.float32, Kind.ONE
        self.device, self.shape, self.name, self.window = torch.device("cpu"), [4, 8], "layer", None


class Slotted:
    __slots__ = ("shift", "times")

    def __init__(self) -> None:
        self.shift, self.times = torch.ones(8), 2


class Cache:
    def __init__(self) -> None:
        self.layers, self.slotted = [Layer(), Layer()], Slotted()


Pair = namedtuple("Pair", "left right")


@dataclass
class Registered:
    bias: torch.Tensor
    factor: int


pytree.register_pytree_node(
    Registered,
    lambda one: ([one.bias], one.factor),
    lambda children, factor: Registered(*children, factor),
    serialized_type_name="test_objects_in_c.Registered",
    flatten_with_keys_fn=lambda one: ([(pytree.GetAttrKey("bias"), one.bias)], one.factor),
)


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.table = [torch.full((8,), 0.25)]

    def forward(self, x: torch.Tensor, cache: Cache, pair: Any, registered: Registered, mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        for layer in cache.layers:
            if layer.kind is Kind.ONE and layer.window is None:
                layer.keys.copy_(self.first(x) * layer.scale + layer.seen)
            layer.values.add_(pair.left - pair.right)
        x = self.second(x) * cache.slotted.times + cache.slotted.shift + registered.bias * registered.factor + self.table[0]
        return {"out": x + cache.layers[0].keys, "more": cache.layers[1].values.sum()}


def call() -> dict[str, Any]:
    return {
        "x": torch.randn(1, 4, 8),
        "cache": Cache(),
        "pair": Pair(torch.ones(8), torch.full((8,), 0.5)),
        "registered": Registered(torch.ones(8), 3),
        "mask": torch.zeros(4),
    }


def answered(module: nn.Module, given: dict[str, Any]) -> int:
    """How many calls the C form answers of one like this, whose results are compared with those of the module without a program."""
    fast = module._planish.fast
    before = fast.__self__.hits() if fast is not None else 0
    twin, other = copy.deepcopy((module, given))
    planish.detach(twin)
    with torch.no_grad():
        found, wanted = module(**given), twin(**other)
    torch.testing.assert_close(found, wanted)
    for ours, theirs in zip(given["cache"].layers, other["cache"].layers, strict=True):
        torch.testing.assert_close((ours.keys, ours.values), (theirs.keys, theirs.values))
    now = module._planish.fast
    return now.__self__.hits() - before if now is fast and now is not None else 0


@pytest.fixture
def module(tmp_path: Path) -> Step:
    torch.manual_seed(0)
    made = Step().eval()
    with torch.no_grad():
        attached(made, tmp_path, **call())
        made(**call())  # binds
    assert planish.status(made).ran == 1 and made._planish.fast is not None
    return made


def test_objects_are_taken_apart(module: Step) -> None:
    assert answered(module, call()) == 1
    assert answered(module, call()) == 1
    assert planish.status(module).ran == planish.status(module).calls


def changed(what: str, value: Any, of: str = "layer") -> Any:
    def change(given: dict[str, Any]) -> None:
        cache = given["cache"]
        setattr({"layer": cache.layers[1], "slotted": cache.slotted, "registered": given["registered"]}[of], what, value)

    return change


CHANGES = {
    "a whole number": changed("seen", 1),
    "a number of another type": changed("seen", False),
    "a float": changed("scale", 0.25),
    "a dtype": changed("dtype", torch.float64),
    "an enum": changed("kind", Kind.TWO),
    "a device": changed("device", torch.device("meta")),
    "a list": changed("shape", [4, 9]),
    "text": changed("name", "other"),
    "None": changed("window", 3),
    "one attribute more": changed("extra", 1),
    "in a slot": changed("times", 3, "slotted"),
    "in a class that torch knows": changed("factor", 4, "registered"),
    "more layers": lambda given: given["cache"].layers.append(Layer()),
    "another shape": changed("keys", torch.zeros(2, 4, 8)),
    "one object twice": lambda given: given["cache"].layers.__setitem__(1, given["cache"].layers[0]),
    "a tuple in place of a named one": lambda given: given.update(pair=namedtuple("Other", "left right")(*given["pair"])),
    "no mask": lambda given: given.pop("mask"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_otherwise_is_left_to_the_modules_code(module: Step, what: str) -> None:
    given = call()
    CHANGES[what](given)
    assert answered(module, given) == 0
    assert answered(module, call()) == 1


def test_a_tie_that_is_gone(module: Step) -> None:
    module.second.weight = nn.Parameter(module.first.weight.detach() * 2)
    assert answered(module, call()) == 0


def test_what_is_written_may_not_be_a_constant_of_the_module(module: Step) -> None:
    given = call()
    given["cache"].layers[0].values = module.table[0].expand(1, 4, 8)
    with torch.no_grad():
        before = planish.status(module).ran
        with pytest.raises(RuntimeError, match="more than one element"):  # what the module's own code says
            module(**given)
    assert planish.status(module).ran == before


def test_a_tensor_that_is_not_read_may_not_ask_for_gradients(module: Step) -> None:
    given = call()
    given["mask"].requires_grad_()
    ran = planish.status(module).ran
    with torch.enable_grad():
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        module(**call())
        assert planish.status(module).ran == ran + 1
        module(**given)
    assert planish.status(module).ran == ran + 1
