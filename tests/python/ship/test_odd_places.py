"""State in places that few modules keep it in: changed after a program was attached, it is seen, or the program was declined."""

from __future__ import annotations

import collections
import contextvars
import functools
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.errors import PlanishError
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))

from live_program import attached


class Meta(type):
    factor = 2.0


class Led(metaclass=Meta):
    pass


class Slots:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 2.0


class Asked:
    """Finds its attributes in a dict of its own."""

    def __init__(self) -> None:
        self.__dict__["held"] = {"factor": 2.0}

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__["held"]:
            raise AttributeError(name)
        return self.__dict__["held"][name]


class Scaling:
    def __init__(self) -> None:
        self.factor = 2.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Descriptor:
    factor = 2.0

    def __get__(self, owner: Any, kind: Any) -> float:
        return self.factor


DESCRIPTOR = Descriptor()
LAYERS = collections.ChainMap({"factor": 2.0}, {"factor": 9.0})
CONTEXT = contextvars.ContextVar("CONTEXT", default=2.0)


def scaled(x: torch.Tensor, *, factor: float = 2.0) -> torch.Tensor:
    return x * factor


class Model(nn.Module):
    described = DESCRIPTOR

    def __init__(self, place: str) -> None:
        super().__init__()
        self.does = PLACES[place][0]
        self.slots, self.asked, self.called = Slots(), Asked(), Scaling()
        self.partial = functools.partial(Scaling.__call__, self.called)
        self.weak = weakref.ref(self.called)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.does(self, x) + 1


class Other(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 + 1


def replace_relu(_: Any) -> None:
    relu = torch.relu
    torch.relu = lambda x: relu(x) + 1


#: What forward does there, and a change of it.
PLACES: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], Callable[[Any], Any]]] = {
    "slots": (lambda m, x: x * m.slots.factor, lambda m: setattr(m.slots, "factor", 3.0)),
    "metaclass": (lambda m, x: x * Led.factor, lambda m: setattr(Meta, "factor", 3.0)),
    "__getattr__": (lambda m, x: x * m.asked.factor, lambda m: m.asked.__dict__["held"].update(factor=3.0)),
    "descriptor": (lambda m, x: x * m.described, lambda m: setattr(DESCRIPTOR, "factor", 3.0)),
    "keyword defaults": (lambda m, x: scaled(x), lambda m: (scaled.__kwdefaults__ or {}).update(factor=3.0)),
    "callable": (lambda m, x: m.called(x), lambda m: setattr(m.called, "factor", 3.0)),
    "partial": (lambda m, x: m.partial(x), lambda m: setattr(m.called, "factor", 3.0)),
    "weak reference": (lambda m, x: x * m.weak().factor, lambda m: setattr(m.called, "factor", 3.0)),
    "chain of maps": (lambda m, x: x * LAYERS["factor"], lambda m: LAYERS.maps.insert(0, {"factor": 3.0})),
    "context variable": (lambda m, x: x * CONTEXT.get(), lambda m: CONTEXT.set(3.0)),
    "class": (lambda m, x: x * 2, lambda m: setattr(m, "__class__", Other)),
    "function of torch": (lambda m, x: torch.relu(x), replace_relu),
}  # fmt: skip
DECLINED = {"context variable"}


@pytest.mark.parametrize("place", PLACES)
def test_a_change_is_seen(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "relu", torch.relu)  # given back at the end
    model, x = Model(place), torch.linspace(-1, 2, 4)
    with torch.no_grad():
        if place in DECLINED:
            with pytest.raises(PlanishError, match="can change unseen"):
                attached(model, tmp_path, x)
            return
        attached(model, tmp_path, x)
        before = model(x)
        PLACES[place][1](model)
        wanted = type(model).forward(model, x)
        assert not torch.equal(before, wanted), "the change changes the answer"
        assert torch.equal(model(x), wanted)
