"""What a recorded replay gives, with a record that runs the call again in place of a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.oracle import recorded
from planish.oracle.gate import Accuracy
from planish.oracle.noise import Assumed, Bank, Known
from planish.oracle.recorded import Recorded, Results
from planish.oracle.region import Region
from planish.oracle.task import Task
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

CODE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(32, 64).bfloat16(), torch.nn.Linear(64, 16).bfloat16()
    def forward(self, x):
        return self.b(torch.nn.functional.gelu(self.a(x))).softmax(-1)
def get_inputs():
    return [torch.randn(48, 32).bfloat16()]
def get_init_inputs():
    return []
"""


class Log:
    def __init__(self) -> None:
        self.recordings, self.replays = 0, 0

    def record(self, call: Callable[[], Results]) -> tuple[Callable[[], None], Results]:
        self.recordings += 1
        results = {value: tensor.clone() for value, tensor in call().items()}

        def again() -> None:
            self.replays += 1
            for value, tensor in call().items():
                results[value].copy_(tensor)

        return again, results


@pytest.fixture
def region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Region:
    return made(tmp_path, monkeypatch, CODE)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Region:
    monkeypatch.setattr(recorded, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(recorded, "_WORTH_OPERATORS", 1)
    (tmp_path / "task.py").write_text(code)
    task = Task(str(tmp_path / "task.py"), torch.device("cpu"), str(tmp_path / "blobs"))
    outputs = [o["value"] for o in task.graph["outputs"]]
    return Region(task, "task", range(len(task.graph["nodes"])), task.inputs, outputs, Accuracy("eager"))


def drawn(region: Region, record: Any, seed: int = 5, data: Any = None) -> tuple[list[torch.Tensor], Any]:
    """The honest draws of a data set, eight runs of which a candidate asked for."""
    region._recorded = None if record is None else Recorded(region.run, torch.device("cpu"), record)
    return again(region, seed, data)


def again(region: Region, seed: int, data: Any) -> tuple[list[torch.Tensor], Any]:
    if data is None:
        data = region.create(seed, "task")
    else:
        region.fill(data, seed, "task")
    expected = region.expected(data)
    inputs = data.input_tensors()
    expected._replay(inputs, 1)
    expected._replay(inputs, 3)
    found = list(expected._yard(0)._honest)
    region.forget(seed)
    return found, data


MANY = """
import torch
import torch.nn.functional as F
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.groups, self.batch = nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.BatchNorm2d(16)
        self.layer, self.rms, self.table = nn.LayerNorm(16), nn.RMSNorm(16), nn.Embedding(10, 16)
        self.bfloat16().eval()
    def forward(self, x, i, mask, cache, places):
        y = F.silu(self.groups(self.conv(x)))
        y = self.layer((self.batch(y) + y).flatten(2).transpose(1, 2)) + self.table(i)
        q = self.rms(y)
        cache.index_copy_(1, places, q[:, :2])
        y = y + F.scaled_dot_product_attention(q[:, None], q[:, None], y[:, None], is_causal=True)[:, 0]
        y = F.gelu(y) * torch.sigmoid(y) + y.exp().clamp(max=9)
        return y.softmax(-1), y.cumsum(1), y.mean(1), y.float().var(1), y.masked_fill(mask, -1e4).logsumexp(-1), cache.sum()
def get_inputs():
    mask = torch.rand(2, 64, 16) < 0.2
    return [torch.randn(2, 3, 8, 8).bfloat16(), torch.randint(10, (2, 64)), mask, torch.zeros(2, 8, 16).bfloat16(), torch.tensor([1, 3])]
def get_init_inputs():
    return []
"""

#: What a CUDA graph does not take: values that are read on the host, numbers that come from there, and results whose size is in the data.
NOT_IN_A_GRAPH = ("_local_scalar_dense", "lift_fresh", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")


class AsInAGraph(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        by_mask = name.startswith("index") and any(t.dtype is torch.bool for t in pytree.tree_leaves(args[1:2]) if isinstance(t, torch.Tensor))
        if name in NOT_IN_A_GRAPH or by_mask:
            self.refused.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("code", [CODE, MANY])
def test_a_recorded_run_does_nothing_that_a_graph_cannot_hold(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mode = AsInAGraph()

    class Watched(Log):
        def record(self, call: Callable[[], Results]) -> tuple[Callable[[], None], Results]:
            with mode:
                return super().record(call)

    log = Watched()
    drawn(made(tmp_path, monkeypatch, code), log.record)
    assert log.recordings == 1 and log.replays > 0 and mode.refused == []


def test_the_first_results_are_those_of_a_run_and_the_others_of_other_noise(region: Region) -> None:
    plain, _ = drawn(region, None)
    log = Log()
    found, data = drawn(region, log.record)
    assert (log.recordings, log.replays) == (1, 6)
    # eager, correct rounding, then draws 1 and 5 to 7; 2 to 4 went to the noise, of which the first was recorded.
    assert len(plain) == len(found) == 6 and all(torch.equal(a, b) for a, b in zip(plain[:3], found[:3], strict=True))
    others = [*plain[3:], *found[3:]]
    assert all(not torch.equal(a, b) for i, a in enumerate(others) for b in others[:i])
    spread = [float((draw.double() - plain[1].double()).square().mean()) for draw in others]
    assert max(spread) < 3 * min(spread)
    # The next data in the same buffers: all draws are of the same record, and the same numbers each time.
    second, _ = again(region, 6, data)
    assert (log.recordings, log.replays) == (1, 14)
    third, _ = again(region, 6, data)
    assert log.recordings == 1 and all(torch.equal(a, b) for a, b in zip(second, third, strict=True))
    exact = region.expected(data).outputs[0].exact
    assert all(float((draw.double() - exact).norm() / exact.norm()) < 2**-6 for draw in second)
    data.free()


def test_two_draws_are_recorded_where_data_of_a_kind_come_again(region: Region) -> None:
    log = Log()
    region._recorded = Recorded(region.run, torch.device("cpu"), log.record)
    data = region.create(5, "task")
    made = []
    for seed, alike in ((5, False), (6, True), (7, False), (8, False), (9, True), (10, False)):
        region.fill(data, seed, "task")
        if alike:  # sums of equal terms err otherwise
            for value in (region.task.inputs[0], region.task.inputs[-1]):
                data.input_tensors()[value].fill_(1.0)
            region.forget(seed)
        expected = region.expected(data)
        expected._replay(data.input_tensors(), 1)
        expected._replay(data.input_tensors(), 1)
        made.append(log.recordings)
        region.forget(seed)
    assert made[:3] == [0, 0, 0] and made[3:] == [1, 1, 1], made
    assert log.replays > 4  # the last data set's too
    data.free()


def test_other_buffers_are_recorded_anew(region: Region) -> None:
    log = Log()
    _, data = drawn(region, log.record)
    _, other = again(region, 6, None)
    assert log.recordings == 2
    region.forget()
    again(region, 8, other)
    assert log.recordings == 3
    data.free()
    other.free()


def test_what_cannot_be_recorded_runs_as_ever(region: Region) -> None:
    plain, data = drawn(region, None)

    def refuses(call: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    found, _ = drawn(region, refuses, data=data)
    assert all(torch.equal(a, b) for a, b in zip(plain, found, strict=True))
    assert region._recorded is not None and region._recorded._refused
    data.free()


def test_a_record_that_gives_other_results_is_not_believed(region: Region) -> None:
    plain, data = drawn(region, None)

    def lies(call: Callable[[], Results]) -> tuple[Callable[[], None], Results]:
        results = {value: tensor + 1e-9 for value, tensor in call().items()}
        return lambda: None, results

    found, _ = drawn(region, lies, data=data)
    assert all(torch.equal(a, b) for a, b in zip(plain, found, strict=True))
    data.free()


def test_a_record_wants_memory_and_many_operators(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    with monkeypatch.context() as patch:
        patch.setattr("planish.oracle.memory.available", lambda device: Bank.bytes(device))
        _, data = drawn(region, log.record)
    with monkeypatch.context() as patch:
        patch.setattr(recorded, "_SHARE", 0.0)
        drawn(region, log.record, data=data)
    with monkeypatch.context() as patch:
        patch.setattr(recorded, "_WORTH_OPERATORS", 256)
        drawn(region, log.record, data=data)
    assert log.recordings == 0
    drawn(region, log.record, data=data)
    assert log.recordings == 1
    data.free()


def test_a_bank_is_filled_by_its_seed() -> None:
    device = torch.device("cpu")
    bank = Bank.copy(device)
    assert torch.equal(bank.uniform, Bank.of(device).uniform) and torch.equal(bank.normal, Bank.of(device).normal)
    bank.fill(1)
    first = bank.uniform.clone()
    bank.fill(2)
    assert not torch.equal(first, bank.uniform)
    bank.fill(1)
    assert torch.equal(first, bank.uniform) and float(first.abs().max()) <= 1
    assert not torch.equal(first, Bank.of(device).uniform)


def test_data_with_other_answers_are_run_and_recorded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(recorded, "_WORTH_OPERATORS", 1)
    # Whole numbers in bf16 need no rounding, others do.
    (tmp_path / "task.py").write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        y = x * 3\n        return (y + 1).softmax(-1)\n"
        "def get_inputs():\n    whole = torch.randint(2, (1,)) == 1\n    x = torch.randn(48, 32)\n"
        "    return [torch.where(whole, x.round(), x).bfloat16()]\ndef get_init_inputs():\n    return []\n"
    )
    task = Task(str(tmp_path / "task.py"), torch.device("cpu"), str(tmp_path / "blobs"))
    outputs = [o["value"] for o in task.graph["outputs"]]
    made = Region(task, "task", range(len(task.graph["nodes"])), task.inputs, outputs, Accuracy("eager"))
    log = Log()
    made._recorded = Recorded(made.run, torch.device("cpu"), log.record)
    data = made.create(1, "task")
    kinds = {}
    for seed in range(1, 12):
        made.fill(data, seed, "task")
        expected, x = made.expected(data), data.inputs[0].view.float()
        expected._replay(data.input_tensors(), 1)
        expected._replay(data.input_tensors(), 3)
        kinds.setdefault(bool((x == x.round()).all()), {"answers": dict(expected._replayed), "recordings": []})["recordings"].append(log.recordings)
        assert expected._replayed == kinds[bool((x == x.round()).all())]["answers"]
    assert len(kinds) == 2 and kinds[True]["answers"] != kinds[False]["answers"] and log.recordings >= 2
    data.free()


@pytest.mark.parametrize(("assumed", "found"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_record_tells_whether_its_answers_hold(assumed: bool, found: bool) -> None:
    answers = Assumed({"node?0": assumed, "node?1": True})
    known = Known(answers, "node")
    assert known.ask(lambda: torch.tensor(True), lambda: torch.tensor(found)) is assumed
    assert known.ask(lambda: True) is True
    assert bool(answers.hold(torch.device("cpu"))) == (assumed == found)
    with pytest.raises(RuntimeError, match="another answer"):
        Known(answers, "node").ask(lambda: not assumed)


def test_questions_are_asked_until_one_says_no() -> None:
    asked = []

    def question(answer: bool) -> Callable[[], torch.Tensor]:
        def ask() -> torch.Tensor:
            asked.append(answer)
            return torch.tensor(answer)

        return ask

    answers: dict[str, Any] = {}
    assert not Known(answers, "node").ask(question(False), question(True)) and asked == [False]
    assert Known({}, "node").ask(question(True), question(True)) and asked == [False, True, True]
    assert not Known(answers, "node").ask(question(True)) and len(asked) == 3
