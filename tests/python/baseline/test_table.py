"""The baseline table: the same inputs and parameters for all, failing modes as entries, gross cheats caught."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

for neighbour in ("ship", "runner"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from planish.baseline import table as tables  # noqa: E402
from planish.baseline.table import Table, far_apart, further_than_eager  # noqa: E402
from planish.errors import PlanishError  # noqa: E402
from planish.runner.timing import Limits, median_interval, settled, wanted_by_others  # noqa: E402
from shipping import ship  # noqa: E402
from talk import child  # noqa: E402

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        return self.norm(x).relu()

def get_inputs():
    return [torch.randn(32, 16)]
"""
QUICK = Limits(min_runs=6, max_runs=12, max_seconds=0.5, interval=0.05)
CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ship(tmp_path, TASK)


@pytest.fixture
def table(folder: Path) -> Table:
    return Table(folder.parent / "task.py", CPU)


def test_every_row_is_timed_in_turn(table: Table, folder: Path) -> None:
    table.add("eager", "eager", None)
    table.add("ours", "shipped", folder)
    order = []
    original = table._call
    table._call = lambda entry, k: (order.append(entry.name), original(entry, k))[1]  # type: ignore[method-assign]
    found = table.time(["eager", "ours"], QUICK)
    assert found["errors"] == {}
    for timing in found["times"].values():
        assert 6 <= len(timing["samples_ms"]) <= 12 and timing["lo_ms"] <= timing["median_ms"] <= timing["hi_ms"] and timing["host_us"] > 0
    changes = sum(a != b for a, b in pairwise(order))
    assert changes >= 3, "blocks are interleaved"


def test_inputs_whose_elements_overlap_are_timed(tmp_path: Path) -> None:
    text = TASK.replace("torch.randn(32, 16)", "torch.randn(109).as_strided((32, 16), (3, 1))")
    shipped = ship(tmp_path, text)
    table = Table(tmp_path / "task.py", CPU)
    table.add("eager", "eager", None)
    table.add("ours", "shipped", shipped)
    assert table.time(["eager", "ours"], QUICK)["errors"] == {}


@pytest.mark.parametrize("right", [True, False])
def test_a_result_of_a_state_that_moves_is_compared_in_that_state(tmp_path: Path, right: bool) -> None:
    """A count, and an average that is another after each call: eager on what they were at first, or are at the end, gives something else."""
    text = TASK.replace("self.norm = nn.BatchNorm1d(16)", "self.register_buffer('n', torch.ones(16)); self.register_buffer('calls', torch.zeros(()))")
    text = text.replace("return self.norm(x).relu()", "self.calls.add_(1)\n        self.n.mul_(0.5).add_(x.mean(0))\n        return x * self.n + self.calls")
    shipped = ship(tmp_path, text)
    if not right:  # divides where the task multiplies
        program = json.loads((shipped / "program.json").read_text())
        next(step for step in reversed(program["steps"]) if step["op"] == "aten.mul.Tensor")["op"] = "aten.div.Tensor"
        (shipped / "program.json").write_text(json.dumps(program))
    table = Table(tmp_path / "task.py", CPU)
    table.add("eager", "eager", None)
    table.add("ours", "shipped", shipped)
    errors = table.time(["eager", "ours"], QUICK)["errors"]
    assert {name: error["kind"] for name, error in errors.items()} == ({} if right else {"ours": "wrong_when_timed"})


def test_times_say_how_many_threads_of_others_wanted_the_processors(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add("eager", "eager", None)
    monkeypatch.setattr("planish.baseline.table.wanted_by_others", lambda: 2.5)
    assert table.time(["eager"], QUICK)["times"]["eager"]["busy"] == 2.5
    monkeypatch.setattr("planish.baseline.table.wanted_by_others", lambda: 0.0)
    assert "busy" not in table.time(["eager"], QUICK)["times"]["eager"]


def test_threads_that_want_a_processor_are_counted() -> None:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        time.sleep(0.5)
        assert max(wanted_by_others() for _ in range(20)) >= 1
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_a_state_that_was_made_easy_is_seen(tmp_path: Path) -> None:
    """Results are right for what the calls find, and what they leave is not."""
    text = TASK.replace("self.norm = nn.BatchNorm1d(16)", "self.register_buffer('n', torch.ones(16))")
    text = text.replace("return self.norm(x).relu()", "y = x * self.n\n        self.n.mul_(0.5).add_(x.mean(0))\n        return y")
    shipped = ship(tmp_path, text)
    program = json.loads((shipped / "program.json").read_text())
    half = next(arg for step in program["steps"] for arg in step["args"] if arg.get("float") == (0.5).hex())
    half["float"] = (0.0).hex()
    (shipped / "program.json").write_text(json.dumps(program))
    table = Table(tmp_path / "task.py", CPU)
    table.add("eager", "eager", None)
    table.add("ours", "shipped", shipped)
    errors = table.time(["eager", "ours"], QUICK)["errors"]
    assert {name: error["kind"] for name, error in errors.items()} == {"ours": "wrong_when_timed"}
    assert "left other values in 'n'" in errors["ours"]["message"]


def test_rows_share_parameters_but_not_buffers(table: Table, folder: Path) -> None:
    table.add("a", "eager", None)
    table.add("b", "shipped", folder)
    a, b = table.entries["a"].module, table.entries["b"].module
    assert a.norm.weight.data_ptr() == b.norm.weight.data_ptr() == table.model.norm.weight.data_ptr()
    assert a.norm.running_mean.data_ptr() != b.norm.running_mean.data_ptr()
    assert int(table.model.norm.num_batches_tracked) == 0


def test_a_mode_that_fails_is_an_error_and_the_others_stand(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("inductor says no\nmany lines")

    table.add("eager", "eager", None)
    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(PlanishError, match=r"compile: RuntimeError: inductor says no$"):
        table.add("compile", "compile", None)
    found = table.time(["eager", "compile"], QUICK)
    assert set(found["times"]) == {"eager"} and found["errors"]["compile"]["kind"] == "bad_request"
    monkeypatch.setattr(table.entries["eager"].module, "forward", broken)
    assert table.time(["eager"], QUICK)["errors"]["eager"]["kind"] == "failed"
    for kind, path in (("magic", None), ("shipped", None)):
        with pytest.raises(PlanishError) as error:
            table.add("x", kind, path)
        assert error.value.kind == "bad_request"


def test_running_out_of_memory_is_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add("eager", "eager", None)

    def huge(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(table.entries["eager"].module, "forward", huge)
    assert table.time(["eager"], QUICK)["errors"]["eager"]["kind"] == "out_of_memory"


def test_a_shipped_module_that_returns_something_else_when_timed(table: Table, folder: Path) -> None:
    table.add("ours", "shipped", folder)
    module = table.entries["ours"].module
    module.forward = lambda x: torch.zeros_like(x)  # type: ignore[method-assign]
    found = table.time(["ours"], QUICK)
    assert found["errors"]["ours"]["kind"] == "wrong_when_timed" and found["times"] == {}


def test_a_shipped_program_that_fell_back_has_no_time(table: Table, folder: Path) -> None:
    table.add("shipped", "shipped", folder)
    limits = Limits(min_runs=6, max_runs=6, max_seconds=5)
    assert "shipped" in table.time(["shipped"], limits)["times"]
    table.entries["shipped"].module._planish.reason = "for a test"
    found = table.time(["shipped"], limits)
    assert found["times"] == {} and found["errors"]["shipped"]["kind"] == "fell_back"
    assert "for a test" in found["errors"]["shipped"]["message"]


def test_sets_of_inputs_stay_within_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(Table(folder.parent / "task.py", CPU).sets) == 4
    monkeypatch.setattr(tables, "memory_bytes", lambda device: 4 * 32 * 16 * 4 * 2)
    assert len(Table(folder.parent / "task.py", CPU).sets) == 2
    monkeypatch.setattr(tables, "memory_bytes", lambda device: 1)
    assert len(Table(folder.parent / "task.py", CPU).sets) == 1


def test_far_apart() -> None:
    x = torch.randn(1000)
    assert not far_apart(x * 1.001, x, 0)
    assert not far_apart(torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0]), 0)
    assert far_apart(x * 1.1, x, 0) and far_apart(torch.zeros(1000), x, 0) and far_apart(x[:5], x, 0) and far_apart(x.double(), x, 0)
    assert far_apart(torch.zeros(9, dtype=torch.int64), torch.ones(9, dtype=torch.int64), 0)
    assert not far_apart(torch.zeros(0), torch.zeros(0), 0)


@pytest.mark.parametrize(("own", "kind"), [(0.0, "wrong_when_timed"), (1e-4, "wrong_when_timed"), (0.04, None)])
def test_timed_results_may_be_as_far_from_eager_as_eager_is_from_the_truth(table: Table, folder: Path, own: float, kind: str | None) -> None:
    """Eager's error is what its float32 has more than its float64: a model that rounds as TF32 or half precision would."""

    def noisy(inner: Any, share: float) -> Any:
        def forward(x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = inner(x)
            return out if out.dtype == torch.float64 else out + share * out.square().mean().sqrt() * torch.randn_like(out)

        return forward

    table.add("ours", "shipped", folder)
    table.entries["ours"].module.forward = noisy(table.entries["ours"].module.forward, 0.05)  # type: ignore[method-assign]
    kind_of = type(table.model)
    table.model.__class__ = type("Noisy", (kind_of,), {"forward": lambda self, x: noisy(lambda y: kind_of.forward(self, y), own)(x)})
    error = table.time(["ours"], QUICK)["errors"].get("ours")
    assert (error and error["kind"]) == kind


def test_where_eager_is_far_from_the_truth_others_may_be_as_far_but_not_further() -> None:
    exact = torch.randn(1000, dtype=torch.float64).sign() * 0.5
    ones = exact.float()
    for own in (0.0, 0.01, 0.04, 0.1, 0.6, 2.0):
        eager = ones + 0.5 * own * torch.randn(1000)
        for wrong in (torch.zeros(1000), 0.6 * ones, -ones, ones[:9], ones.double(), ones.masked_fill(ones > 0, torch.nan), ones.roll(1)):
            assert further_than_eager(wrong, eager, exact, 0), own
        if own <= 0.1:
            assert not further_than_eager(ones + 0.5 * own * torch.randn(1000), eager, exact, 0)
    assert not further_than_eager(ones + 0.02 * torch.randn(1000), ones + 0.01 * torch.randn(1000), exact, 0)


def test_what_is_no_number_has_to_be_what_eagers_is() -> None:
    exact = torch.randn(1000, dtype=torch.float64)
    exact[:500] = -torch.inf
    eager = exact.float() * (1 + 0.05 * torch.randn(1000))
    right = exact.float() * (1 + 0.02 * torch.randn(1000))
    assert far_apart(right, eager, 0) and not further_than_eager(right, eager, exact, 0)
    for wrong in (right.masked_fill(right.isinf(), 0.0), right.masked_fill(right.isinf(), torch.inf), right.masked_fill(right.isinf(), torch.nan)):
        assert further_than_eager(wrong, eager, exact, 0)


def test_where_zero_is_right_and_eager_noise_other_noise_passes_and_numbers_do_not() -> None:
    exact, eager = 1e-18 * torch.randn(1000, dtype=torch.float64), 1e-9 * torch.randn(1000)
    assert far_apart(1e-9 * torch.randn(1000), eager, 0)
    assert not further_than_eager(1e-9 * torch.randn(1000), eager, exact, 0)
    assert not further_than_eager(torch.zeros(1000), eager, exact, 0)
    assert further_than_eager(1e-7 * torch.randn(1000), eager, exact, 0)
    assert further_than_eager(torch.ones(1000), eager, exact, 0)


def test_where_eager_itself_is_anything_the_refusal_says_so() -> None:
    torch.manual_seed(5)
    exact = torch.randn(1000, dtype=torch.float64)
    eager = exact.float() + 1.02 * torch.randn(1000)
    assert "nothing can be told right" in further_than_eager(exact.float() + 1.1 * torch.randn(1000), eager, exact, 0)
    close = exact.float() + 0.02 * torch.randn(1000)
    assert "nothing can be told right" not in further_than_eager(exact.float() + 1.1 * torch.randn(1000), close, exact, 0)
    assert not further_than_eager(close, eager, exact, 0)


def test_a_few_elements_that_are_anything_are_no_more_than_twice_eagers() -> None:
    """What a softmax in a deep network does: most elements are close, some have gone to another side."""
    torch.manual_seed(4)
    exact = torch.randn(200_000, dtype=torch.float64)

    def with_strays(share: float) -> torch.Tensor:
        strays = torch.rand(exact.shape) < share
        return (exact + 0.01 * torch.randn(exact.shape) + strays * 4.0).float()

    eager = with_strays(2e-3)
    assert far_apart(with_strays(2e-3), eager, 0)
    assert not further_than_eager(with_strays(2e-3), eager, exact, 0)
    assert not further_than_eager(with_strays(0), eager, exact, 0)
    assert further_than_eager(with_strays(6e-3), eager, exact, 0)
    # Not where they lie together, as what was never written does, and not however many eager has.
    unwritten = exact.float()
    unwritten[-1600:] = 0
    assert further_than_eager(unwritten, eager, exact, 0)
    assert further_than_eager(with_strays(2e-2), with_strays(2e-2), exact, 0)


def test_a_model_that_has_no_double_form_is_held_to_eager(table: Table, folder: Path) -> None:
    table.add("ours", "shipped", folder)
    table.entries["ours"].module.forward = lambda x: torch.zeros_like(x)  # type: ignore[method-assign]
    table.model.__class__ = type("Single", (type(table.model),), {"double": lambda self: 1 / 0})
    assert table.time(["ours"], QUICK)["errors"]["ours"]["kind"] == "wrong_when_timed"


def compiled_as(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Has torch.compile make modules whose results are changed so."""

    class Compiled(torch.nn.Module):
        def __init__(self, module: torch.nn.Module, **_: object) -> None:
            super().__init__()
            self._orig_mod = module

        def forward(self, *args: Any) -> Any:
            return change(self._orig_mod(*args))

    monkeypatch.setattr(torch, "compile", Compiled)


def compiled_error(table: Table) -> dict[str, str] | None:
    table.add("eager", "eager", None)
    table.add("compile", "compile", None)
    found = table.time(["eager", "compile"], QUICK)
    assert "eager" in found["times"] and ("compile" in found["times"]) != ("compile" in found["errors"])
    return found["errors"].get("compile")


def test_a_baseline_that_returns_no_numbers_has_no_time(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_as(monkeypatch, lambda out: out.masked_fill(torch.arange(16) < 4, torch.nan))
    error = compiled_error(table)
    assert error and error["kind"] == "wrong_when_timed" and "NaN or infinity where eager has numbers, in 0.25 of output 0" in error["message"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (torch.zeros_like, "far from eager's"),
        (lambda out: out[:9], "another type, shape"),
        (lambda out: (out, out), "2 values"),
        (lambda out: out * 1.001, None),
    ],
)
def test_what_a_baseline_returns_is_what_eager_does(table: Table, monkeypatch: pytest.MonkeyPatch, change: Any, fault: str | None) -> None:
    compiled_as(monkeypatch, change)
    error = compiled_error(table)
    assert fault in error["message"] if fault and error else error is None and fault is None


def test_a_baseline_is_a_measure_where_nothing_can_be_told(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the model in double precision rounding may be why it is far from eager; NaN is no rounding."""
    compiled_as(monkeypatch, lambda out: out * 1.1)
    table.model.__class__ = type("Single", (type(table.model),), {"double": lambda self: 1 / 0})
    assert compiled_error(table) is None
    compiled_as(monkeypatch, lambda out: out * torch.nan)
    assert compiled_error(table) is not None

    def no_room(*_: object) -> None:
        raise torch.OutOfMemoryError("no room for eager's results")

    monkeypatch.setattr(table, "_fault_of", no_room)
    assert compiled_error(table) is None


CHANGING = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x.mul_(-1) + self.calls

def get_inputs():
    return [torch.randn(32, 16)]
"""


def test_a_baseline_is_compared_with_eager_in_the_same_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls change a buffer and their input: those that were timed have left another state than eager begins in."""
    task = tmp_path / "task.py"
    task.write_text(CHANGING)
    compiled_as(monkeypatch, lambda out: out)
    assert compiled_error(Table(task, CPU)) is None
    compiled_as(monkeypatch, lambda out: out / 0)
    assert compiled_error(Table(task, CPU)) is not None


def test_the_interval_holds_the_median_19_times_of_20() -> None:
    generator = torch.Generator().manual_seed(0)
    for n in (10, 25, 60):
        draws = torch.rand(2000, n, generator=generator, dtype=torch.float64).tolist()
        hits = sum(low <= 0.5 <= high for _, low, high in map(median_interval, draws))
        assert hits >= 0.94 * 2000
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert settled([1.0] * 6, 0.01) and not settled([1.0] * 5, 0.01) and not settled([1.0, 2.0] * 10, 0.01)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_the_process(folder: Path) -> None:
    with child("planish.baseline") as client:
        with pytest.raises(PlanishError, match="open a task first"):
            client.ask("time", names=["eager"])
        with pytest.raises(PlanishError) as error:
            client.ask("open", task=str(folder / "none.py"), device="cpu")
        assert error.value.kind == "no_such_file"
        client.ask("open", task=str(folder.parent / "task.py"), device="cpu")
        assert client.ask("add", name="eager", kind="eager")["compile_seconds"] >= 0
        client.ask("add", name="shipped", kind="shipped", path=str(folder))
        found = client.ask("time", names=["eager", "shipped"], min_runs=6, max_runs=10, max_seconds=1, interval=0.05)
        assert set(found["times"]) == {"eager", "shipped"} and found["errors"] == {}


def test_a_mode_that_takes_too_long_to_compile_is_given_up_and_the_others_stand(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object, **__: object) -> None:
        while True:  # as what compiles would: it catches what it can
            with contextlib.suppress(Exception):
                time.sleep(0.01)

    table.add("eager", "eager", None)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "compile", endless)
        with pytest.raises(PlanishError) as error:
            table.add("compile", "compile", None, 0.2)
    assert error.value.kind == "out_of_time" and "compile" in error.value.message
    assert set(table.entries) == {"eager"} and set(table.time(["eager"], QUICK)["times"]) == {"eager"}
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    table.add("again", "eager", None, 60)  # one in time is as without a limit
    assert "again" in table.entries


LARGE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(512, 1024)]
"""


def test_large_results_are_also_timed_where_the_caller_keeps_them(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(LARGE)
    table = Table(task, CPU)
    table.add("eager", "eager", None)
    timing = table.time(["eager"], QUICK)["times"]["eager"]
    assert timing["kept_lo_ms"] <= timing["kept_ms"] <= timing["kept_hi_ms"] and timing["kept_ms"] > 0
    assert len(table.entries["eager"].kept) in {tables._KEPT * rounds for rounds in range(1, tables._KEPT_ROUNDS + 1)}


def test_kept_results_are_alive_at_the_same_time(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(LARGE)
    table = Table(task, CPU)
    table.add("eager", "eager", None)
    addresses: list[int] = []
    original = table._call
    table._call = lambda entry, k: (result := original(entry, k), addresses.append(result.data_ptr()))[0]  # type: ignore[method-assign]
    table._keeping(table.entries["eager"], tables.Stopwatch(CPU), 10)
    assert len(set(addresses[1:])) == 10, "the first warms up; of the ten none is given back before the last"


def test_small_results_are_not_timed_twice(table: Table) -> None:
    table.add("eager", "eager", None)
    assert "kept_ms" not in table.time(["eager"], QUICK)["times"]["eager"]


def test_results_that_are_inputs_take_no_memory_of_their_own(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(LARGE.replace("x * 2", "x.view(1024, 512)"))
    table = Table(task, CPU)
    table.add("eager", "eager", None)
    assert "kept_ms" not in table.time(["eager"], QUICK)["times"]["eager"]
