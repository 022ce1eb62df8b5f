"""State that a call leaves outside buffers is refused when it is captured, whether its output depends on it or not."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture.live import write_live
from planish.capture.task import check_forward
from planish.errors import PlanishError
from torch import nn

X = torch.randn(3, 4)
COUNTED = 0


def module(body: str, known: dict[str, Any] | None = None) -> nn.Module:
    """A module with places to leave something in, whose forward is this statement and doubles its input."""
    space: dict[str, Any] = {"torch": torch, "nn": nn, "COUNTED": 0, **(known or {})}
    exec(f"class Leaving(nn.Module):\n    def forward(self, x):\n        {body}\n        return x * 2\n", space)
    made: Any = space["Leaving"]()
    made.n, made.d, made.seen, made.space, made.kept = 0, {"k": 0}, [], types.SimpleNamespace(n=0), [torch.zeros(2)]
    made.register_buffer("count", torch.zeros(()))
    return made  # type: ignore[no-any-return]


LEFT = {
    "self.n += 1": "'n' (from 0 to 1)",
    "self.d['k'] += 1": "'d['k']'",
    "self.d[len(self.d)] = 1": "'d'",
    "self.seen.append(1)": "'seen'",
    "self.space.n = x.shape[0]": "'space.n'",
    "self.kept[0].add_(1)": "'kept[0]'",
    "self.last = x.shape": "'last' (from absent to torch.Size([3, 4]))",
    "type(self).n_of_all = 1": "'Leaving.n_of_all'",
    "global COUNTED; COUNTED += 1": "'global COUNTED'",
}


@pytest.mark.parametrize("body", LEFT)
def test_what_a_call_leaves_is_refused(body: str) -> None:
    with pytest.raises(PlanishError) as error:
        check_forward(Path("task.py"), module(body), ((X,), {}))
    assert error.value.kind == "not_exportable" and "register_buffer" in error.value.hint
    assert f"forward changes {LEFT[body]}" in error.value.message


KEPT: dict[str, Callable[[], nn.Module]] = {
    "nothing": lambda: module("pass"),
    "a buffer": lambda: module("self.count.add_(1)"),
    "the same again": lambda: module("self.n = 0"),
    "local": lambda: module("seen = [1]; seen.append(2)"),
    "recurrent": lambda: nn.Sequential(nn.LSTM(4, 4)),
    "a batch norm": lambda: nn.Sequential(nn.BatchNorm1d(4)),
    "weights of hooks": lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)), nn.utils.weight_norm(nn.Linear(4, 4))),
    "parametrized": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))),
    "attention": lambda: nn.TransformerEncoderLayer(4, 2),
    "lazy": lambda: nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning", "ignore:Lazy modules")
def test_what_is_no_state_passes(name: str) -> None:
    check_forward(Path("task.py"), KEPT[name](), ((X,), {}))


def test_what_cannot_be_watched_is_refused_before_a_search() -> None:
    watching = module("next(self.source)")
    watching.source = iter([1, 2, 3])
    with pytest.raises(PlanishError) as error:
        check_forward(Path("task.py"), watching, ((X,), {}))
    assert error.value.kind == "not_exportable" and "'source' is a builtins.list_iterator" in error.value.message
    assert next(watching.source) == 1, "it was not run"


def test_an_exported_module_is_looked_at_in_a_copy(tmp_path: Path) -> None:
    """Its program no longer has the assignments."""
    counting = module("self.n += 1")
    with pytest.raises(PlanishError, match="forward changes 'n'"):
        write_live(tmp_path / "task", "counting", counting, (X,), {}, exported=True)
    assert counting.n == 0
