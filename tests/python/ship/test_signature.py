"""Calls that are equal run the program, however they are written; of others it is said which argument differs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from planish.ship import guards
from stand_in import attached, extension

X, Y = torch.linspace(-1, 1, 8), torch.linspace(0, 1, 8)


class Taking(nn.Module):
    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0, *, flag: bool = True, size: tuple[int, ...] = (1, 2)
    ) -> torch.Tensor:
        y = x * scale if flag else -x
        return y + len(size) if mask is None else y * mask


class Rest(nn.Module):
    def forward(self, x: torch.Tensor, *rest: torch.Tensor, **more: Any) -> torch.Tensor:
        return x + sum(rest) + (1 if more else 0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", guards.FallbackWarning)
        yield


@pytest.fixture(params=["in C", "in Python"])
def checks(request: pytest.FixtureRequest) -> Any:
    return extension() if request.param == "in C" else None


def runs(module: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether the program answers, three times alike, and rightly."""
    found = []
    for _ in range(3):
        before = module._planish.ran
        torch.testing.assert_close(module(*args, **kwargs), type(module).__mro__[1].forward(module, *args, **kwargs))
        found.append(module._planish.ran > before)
    assert len(set(found)) == 1
    return found[0]


EQUAL: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    *[((X,), {}), ((), {"x": X}), ((X, None), {}), ((X,), {"mask": None}), ((X,), {"scale": 1.0}), ((X, None, 1.0), {})],
    *[((), {"mask": None, "x": X}), ((X,), {"flag": True}), ((X,), {"size": (1, 2)}), ((), {"size": (1, 2), "flag": True, "scale": 1.0, "mask": None, "x": X})],
]


@pytest.mark.parametrize("captured", range(len(EQUAL)))
def test_every_way_of_writing_one_call(captured: int, checks: Any) -> None:
    args, kwargs = EQUAL[captured]
    module = attached(Taking(), *args, extension=checks, **kwargs)
    for more, named in EQUAL:
        assert runs(module, *more, **named), module._planish.why


def test_the_c_form_learns_how_calls_are_written() -> None:
    checks = extension()
    assert checks is not None
    module = attached(Taking(), X, extension=checks)
    module(X)
    answer = module._planish.shipped.answer
    for args, kwargs in EQUAL[1:7]:
        module(*args, **kwargs)
        before = answer.runs
        module(*args, **kwargs)
        assert answer.runs == before, (kwargs, "the checks in Python were asked again")
    assert module._planish.ran == 13


DIFFERENT: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((X, Y), {}, "the argument 'mask' is a tensor of shape [8], and the program was made for a call without it (which means None)"),
    ((X,), {"scale": 2.0}, "the argument 'scale' is 2.0, and"),
    ((X,), {"scale": 1}, "the argument 'scale' is 1, and"),
    ((X,), {"flag": False}, "the argument 'flag' is False"),
    ((X,), {"flag": 1}, "the argument 'flag' is 1"),
    ((X,), {"size": (2, 1)}, "the argument 'size' is (2, 1)"),
]


@pytest.mark.parametrize("case", range(len(DIFFERENT)))
def test_what_differs_is_named(case: int, checks: Any) -> None:
    args, kwargs, why = DIFFERENT[case]
    module = attached(Taking(), X, extension=checks)
    assert runs(module, X)
    assert not runs(module, *args, **kwargs)
    assert why in module._planish.why


def test_a_captured_value_that_is_no_default(checks: Any) -> None:
    module = attached(Taking(), X, extension=checks, scale=2.0)
    assert runs(module, X, None, 2.0) and runs(module, scale=2.0, x=X)
    assert not runs(module, X)
    assert "'scale' is 1.0 by default, and the program was made for a call that gives another" in module._planish.why
    assert not runs(module, X, scale=3.0) and "argument 'scale' is not 2.0, as captured" in module._planish.why


def test_an_argument_of_another_form_is_named(checks: Any) -> None:
    """As pipelines of diffusers give None at first, and a dictionary of settings in another call."""
    module = attached(Taking(), X, extension=checks, mask=None, size=(1, 2))
    assert runs(module, X, mask=None, size=(1, 2))
    for size in ((1, 2, 3), [1, 2]):
        assert not runs(module, X, mask=None, size=size)
        assert module._planish.why == "argument 'size' is nested otherwise than in the captured call"


def test_a_tensor_by_any_name(checks: Any) -> None:
    module = attached(Taking(), X, Y, extension=checks)
    assert runs(module, X, mask=Y) and runs(module, mask=Y, x=X)
    assert not runs(module, X) and "'mask' is None by default" in module._planish.why


def test_calls_that_forward_itself_refuses() -> None:
    module = attached(Taking(), X)
    for args, kwargs in (((), {}), ((X,), {"x": X}), ((X,), {"other": 1})):
        with pytest.raises(TypeError):
            module(*args, **kwargs)


def test_arguments_without_names(checks: Any) -> None:
    module = attached(Rest(), X, Y, extension=checks)
    assert runs(module, X, Y)
    assert not runs(module, X) and not runs(module, X, Y, Y) and not runs(module, X, Y, other=1)


def test_a_changed_default_counts(checks: Any) -> None:
    class Defaulting(nn.Module):
        def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
            return x * scale

    module = attached(Defaulting(), X, extension=checks)
    assert runs(module, X)
    Defaulting.forward.__defaults__ = (3.0,)
    assert not runs(module, X)
