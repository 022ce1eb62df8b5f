"""Waiting for memory that others hold."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
import torch
from harness import Harness
from planish import wire
from planish.errors import PlanishError
from planish.oracle import interpret, memory, mutation_check, region
from planish.oracle.expected import Expected
from planish.oracle.interpret import Double, Mode, peak_bytes
from planish.oracle.task import MEMORY_PATIENCE

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(8, 8)]
def get_init_inputs():
    return []
"""


def test_waits_until_there_is_enough_and_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(wire, "_listener", lambda stage, _seconds: said.append(stage))
    free = iter([1 << 30, 2 << 30, 3 << 30])
    assert memory.wait_for(3 << 30, lambda: next(free), 60, lambda _: None) == 2
    assert said == ["waiting for memory: 1.0 GB are free, 3.0 GB needed", "waiting for memory: 2.0 GB are free, 3.0 GB needed"]


def test_gives_up_in_the_end_and_where_nobody_lets_go_of_anything() -> None:
    assert memory.wait_for(2, lambda: 1, 5, lambda _: None) == 5
    assert memory.wait_for(2, lambda: 1, 60, lambda _: None) == 15
    free = iter([1 << 30] * 10 + [2 << 30] * 100)  # somebody does, ten seconds later
    assert memory.wait_for(3 << 30, lambda: next(free), 60, lambda _: None) == 25


def test_a_reference_waits_once_for_what_would_fit_and_never_for_what_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    waits: list[int] = []

    def wait(need: int, free: object, seconds: float) -> float:
        waits.append(need)
        return seconds

    monkeypatch.setattr(region.memory, "wait_for", wait)
    monkeypatch.setattr(region.memory, "available", lambda device: 1000)
    assert harness.region._room(memory.without_others(torch.device("cpu"), 0) * 2) == 800
    assert waits == [], "no one can free more than there is"
    assert harness.region._room(5000) == 800 and waits == [5000]
    assert harness.region._room(5000) == 800 and waits == [5000], "its patience is spent"
    assert harness.region._room(700) == 800 and waits == [5000]


def test_nobody_waits_for_memory_that_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    data = harness.region.create(1, "task")
    held = harness.region.task.buffer_bytes()
    assert held == data.bytes >= 2 * 8 * 8 * 4
    asked: list[int] = []

    def without_others(device: torch.device, buffers: int) -> int:
        asked.append(buffers)
        return 10000 - buffers

    monkeypatch.setattr(region.memory, "wait_for", lambda need, there, seconds: pytest.fail("it waits for its own memory"))
    monkeypatch.setattr(region.memory, "available", lambda device: 1000)
    monkeypatch.setattr(region.memory, "without_others", without_others)
    assert harness.region._room(10000) == 800 and asked == [held]
    data.free()
    assert harness.region.task.buffer_bytes() == 0


def test_an_opened_task_keeps_no_inputs_and_a_closed_one_nothing() -> None:
    """Its inputs may take 13 GB; torch.export keeps them as examples, in a cycle."""
    source = SOURCE.replace("randn(8, 8)", "randn(1024, 1031)").replace("def forward", "def __init__(self):\n        super().__init__()\n"
                            "        self.weight = torch.nn.Parameter(torch.ones(1033, 1024))\n    def forward")  # fmt: skip

    def there(shape: tuple[int, int]) -> int:
        kept = [o for o in gc.get_objects() if type(o) in (torch.Tensor, torch.nn.Parameter) and o.shape == shape and o.device.type == "cpu"]
        return len({o.untyped_storage().data_ptr() for o in kept})

    gc.collect()
    harness = Harness(source)
    assert there((1024, 1031)) == 0 and there((1033, 1024)) == 1
    harness.service._close()
    del harness.region
    assert there((1033, 1024)) == 0


def test_an_input_is_widened_where_it_is_read_and_counts_from_there() -> None:
    source = (
        SOURCE.replace("return x * 2", "return (x * 2).relu().sum(1) + y.sum(1)")
        .replace("self, x", "self, x, y")
        .replace("[torch.randn(8, 8)]", "[torch.randn(8, 8), torch.randn(8, 8)]")
    )
    harness = Harness(source)
    run, wanted = harness.region.run, [v for _, v in harness.region.outputs]
    data = harness.region.create(1, "task")
    live: list[int] = []

    class Watched(Double):
        def value(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            live.append(len(live))
            return super().value(tensor, dtype)

        def call(self, node: Any, args: Any, kwargs: Any, dtypes: Any) -> Any:
            live.append(-1)
            return super().call(node, args, kwargs, dtypes)

    run.run(data.input_tensors(), wanted, Watched())
    assert live.count(-1) == 5 and live.index(-1) == 1, "the second input is not widened before the first operation"
    whole, row = 8 * 8 * 8, 8 * 8
    # (x * 2) with its operand; or y with the sum of x and, for a sum is not pointwise, a temporary
    assert peak_bytes(harness.region.task.captured, run.nodes, harness.region.inputs, wanted) == 2 * whole + 2 * row
    data.free()


def test_what_other_regions_keep_goes_before_anybody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    graph = harness.region.task.graph
    nodes, inputs, outputs = list(range(len(graph["nodes"]))), harness.region.inputs, [v for _, v in harness.region.outputs]
    harness.service.region({"region": "r0", "nodes": nodes, "inputs": inputs, "outputs": outputs})
    other = harness.service.regions["r0"]
    data = other.create(3, "task")
    other.expected(data)
    assert other._cache

    def wait(need: int, there: Any, seconds: float) -> float:
        raise AssertionError("it waits for its own memory")

    monkeypatch.setattr(region.memory, "wait_for", wait)
    monkeypatch.setattr(region.memory, "available", lambda device: 100 if other._cache else 1 << 30)
    assert harness.region._room(5000) >= 5000 and not other._cache
    data.free()


def test_buffers_are_waited_for_as_references_are(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    free = iter([100, 200, 1 << 30, 1 << 30, 1 << 30])
    waits: list[int] = []

    def wait(need: int, there: Any, seconds: float) -> float:
        waits.append(need)
        while there() < need:
            pass
        return 2.0

    monkeypatch.setattr(region.memory, "wait_for", wait)
    monkeypatch.setattr(region.memory, "available", lambda device: next(free, 1 << 30))
    harness.make(1)
    assert waits == [3 * 8 * 8 * 4], "the input, where it is drawn and in its buffer, and the output"


PRODUCT = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(32, 16)
    def forward(self, x):
        return torch.relu(self.fc(x)) BEHIND
def get_inputs():
    return [torch.randn(64, 32)]
def get_init_inputs():
    return []
"""


def _room_for_one(monkeypatch: pytest.MonkeyPatch, exhausted: bool) -> None:
    """A task on a device where its reference fits, and nothing of its size beside it: seen before it is tried, or when it fails."""
    parts: list[Expected] = []
    real, variant = Expected.compute.__func__, mutation_check._variant  # type: ignore[attr-defined]

    def compute(cls: type[Expected], *args: Any) -> Expected:
        parts.append(real(cls, *args))
        return parts[-1]

    def fail(expected: Expected, *args: Any) -> Any:
        if expected.part is None:
            raise torch.OutOfMemoryError("tried to allocate 20.00 GiB")
        return variant(expected, *args)

    monkeypatch.setattr(Expected, "compute", classmethod(compute))
    monkeypatch.setattr(region.memory, "wait_for", lambda need, there, seconds: seconds)
    if exhausted:
        monkeypatch.setattr(mutation_check, "_variant", fail)
    else:
        monkeypatch.setattr(region.memory, "available", lambda device: 9000 if parts else 1 << 30)


@pytest.mark.parametrize("exhausted", [False, True], ids=["seen", "failed"])
@pytest.mark.parametrize("behind", ["", "* 1e-3 + 1.0"], ids=["plain", "offset"])
def test_lower_precision_is_tried_on_a_slice_where_memory_has_no_place_for_it(exhausted: bool, behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(PRODUCT.replace("BEHIND", behind))
    whole = harness.service.mutation_check({"region": "task"})
    _room_for_one(monkeypatch, exhausted)
    harness.region.forget()
    found = harness.service.mutation_check({"region": "task"})
    assert found == whole and {"bf16", "tf32 products"} <= set(found["tried"])
    assert harness.region._slicer is not None and harness.region._slicer.rows <= 32


@pytest.mark.parametrize("exhausted", [False, True], ids=["seen", "failed"])
def test_what_cannot_be_sliced_either_says_what_was_not_tried(exhausted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(PRODUCT.replace("BEHIND", ".sum(0)"))
    _room_for_one(monkeypatch, exhausted)
    found = harness.service.mutation_check({"region": "task"})
    assert {"zeros", "constant"} <= set(found["tried"]) and "bf16" not in found["tried"] and found["degenerate"] == []
    (note,) = found["notes"]
    assert note["kind"] == "not_tried" and note["about"] == "bf16" and "no output has a batch" in note["text"]


ATTENTION = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x.transpose(-1, -2), -1) @ x
def get_inputs():
    return [torch.randn(6, 16, 8)]
def get_init_inputs():
    return []
"""


def test_special_values_are_finite_where_the_runs_that_leave_places_open_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(ATTENTION)
    whole, elsewhere = harness.region.regimes()
    assert "special" in whole and not harness.region._finite_only_specials

    def exhausted(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB")

    harness = Harness(ATTENTION)
    monkeypatch.setattr(Expected, "leave_open", exhausted)
    found, skipped = harness.region.regimes()
    assert found == whole and skipped.keys() == elsewhere.keys() and harness.region._finite_only_specials
    assert "no place" in skipped["infinite"]
    data = harness.region.create(5, "special")
    assert all(bool(t.isfinite().all()) for t in data.input_tensors().values())
    data.free()


def test_after_an_error_nothing_of_a_request_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of an error hold its request's tensors, and the answer the error: a failed task kept 33 GB of a GPU."""
    harness = Harness(SOURCE.replace("randn(8, 8)", "randn(1024, 1021)"))
    given_back: list[int] = []

    def count(device: torch.device) -> None:
        kept = [o for o in gc.get_objects() if type(o) is torch.Tensor and o.numel() == 1024 * 1021 and o.dtype == torch.float64]
        given_back.append(len(kept))

    monkeypatch.setattr(memory, "give_back", count)
    monkeypatch.setattr(Expected, "compute", classmethod(lambda cls, run, inputs, *_: _fails([t.double() for t in inputs.values()])))
    with pytest.raises(ValueError, match="of ours"):
        harness.service.handlers()["mutation_check"]({"region": "task"}, [])
    assert given_back == [0]
    assert harness.region.task.buffer_bytes() == 0


def _fails(held: list[torch.Tensor]) -> None:
    raise ValueError(f"a fault of ours, with {len(held)} tensors")


def test_where_neither_the_whole_nor_a_slice_fits_the_whole_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(PRODUCT.replace("BEHIND", ".sum(0)"))

    real = Expected.compute.__func__  # type: ignore[attr-defined]

    def compute(cls: type[Expected], run: Any, *args: Any) -> Expected:
        if run is harness.region.run:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB")
        found: Expected = real(cls, run, *args)
        return found

    monkeypatch.setattr(Expected, "compute", classmethod(compute))
    with pytest.raises(PlanishError, match=r"no output has a batch to take a slice of \(the whole: .*4\.00 GiB\)") as error:
        harness.region.regimes()
    assert error.value.kind == "out_of_memory"
    assert harness.region.task.buffer_bytes() == 0, "what it made is freed"


GIB = 1 << 30


class Card:
    """What torch would say of an 80 GB GPU, in GiB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, region: region.Region, free: float, reserved: float = 0.0, allocated: float = 0.0) -> None:
        self.free, self.reserved, self.allocated = free, reserved, allocated
        self.waits: list[float] = []
        region.task.device = torch.device("cuda")
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (int(self.free * GIB), int(79.18 * GIB)))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device=None: int(self.reserved * GIB))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device=None: int(self.allocated * GIB))
        monkeypatch.setattr(torch.cuda, "empty_cache", self.empty)
        monkeypatch.setattr(memory, "wait_for", self.wait)

    def empty(self) -> None:
        self.free, self.reserved = self.free + self.reserved - self.allocated, self.allocated

    def wait(self, need: int, there: Any, seconds: float) -> float:
        assert self.reserved == self.allocated, "what it caches is of use to whoever it waits for"
        self.waits.append(need / GIB)
        return min(15.0, seconds)


@pytest.mark.parametrize(
    ("need", "free", "reserved", "allocated"), [(29.8, 9.1, 36.0, 12.0), (47.8, 30.7, 26.4, 0.0), (47.8, 57.8, 0.0, 0.0), (33.8, 16.4, 20.0, 0.0)]
)
def test_nobody_waits_where_a_gpu_has_the_bytes(need: float, free: float, reserved: float, allocated: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: a reference that would have fitted waited for a fifth more than it needs."""
    harness = Harness(SOURCE)
    card = Card(monkeypatch, harness.region, free, reserved, allocated)
    assert harness.region._room(int(need * GIB)) >= int(need * GIB) and not card.waits


def test_who_waited_in_vain_for_strangers_does_not_wait_again(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    card = Card(monkeypatch, harness.region, free=20, reserved=10)
    assert harness.region._room(75 * GIB) < 75 * GIB and not card.waits, "processes of its own take some of it, whatever strangers do"
    assert harness.region._room(60 * GIB) < 60 * GIB and card.waits == [60.0]
    assert harness.region._room(50 * GIB) < 50 * GIB and card.waits == [60.0]


def test_nobody_waits_where_a_slice_does_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(PRODUCT.replace("BEHIND", ""))
    data = harness.region.create(3, "task")
    monkeypatch.setattr(memory, "wait_for", lambda need, there, seconds: pytest.fail("it waits"))
    monkeypatch.setattr(memory, "available", lambda device: 9000)
    assert not harness.region.fits_again()
    found = harness.region.of_slice(data)
    assert found.part is not None and harness.region.expected(data) is found
    data.free()


@pytest.mark.parametrize("loss", ["smooth_l1_loss", "mse_loss", "soft_margin_loss"])
def test_a_loss_keeps_no_more_than_its_number(loss: str) -> None:
    """torch's own keep the memory of all elements' losses: expectations of six regimes held 48 GB of a GPU."""
    source = (
        SOURCE.replace("return x * 2", f"return torch.nn.functional.{loss}(x, y)")
        .replace("self, x", "self, x, y")
        .replace("[torch.randn(8, 8)]", "[torch.randn(1024, 512), torch.randn(1024, 512)]")
    )
    harness = Harness(source)
    data = harness.region.create(1, "task")
    (out,) = harness.region.expected(data).outputs
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in (out.eager, out.exact)}
    assert sum(held.values()) <= 64
    run, wanted, whole = harness.region.run, [v for _, v in harness.region.outputs], 1024 * 512 * 8
    if len(run.nodes) == 1:  # both operands, the losses of all elements, and as much for the number
        assert peak_bytes(harness.region.task.captured, run.nodes, harness.region.inputs, wanted) == 4 * whole + 8
    data.free()


def test_views_stay_views_and_what_is_shrunk_keeps_its_strides() -> None:
    harness = Harness(SOURCE.replace("x * 2", "x[:, :2].t() * 1.0").replace("randn(8, 8)", "randn(1024, 1024)"))
    data = harness.region.create(1, "task")
    (view,) = [o for o in harness.region.run._outs[-2] if o is not None]
    found = harness.region.run.run(data.input_tensors(), [view], Mode())[view]
    assert found.data_ptr() == next(iter(data.input_tensors().values())).data_ptr()
    cut = torch.arange(1 << 20).reshape(1024, 1024)[:, 3:5].t()
    own = interpret._without_waste(cut, ())
    assert torch.equal(own, cut) and own.stride() == cut.stride()
    small = torch.arange(1 << 20)[5:9]
    own = interpret._without_waste(small, ())
    assert torch.equal(own, small) and own.untyped_storage().nbytes() == 32
    assert interpret._without_waste(small, (small,)) is small
    data.free()


@pytest.mark.parametrize("behind", ["", ".sum(0)"], ids=["sliced", "whole"])
def test_a_slice_judges_where_the_gate_asks_for_more_than_there_is(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(PRODUCT.replace("BEHIND", behind))
    real = Expected._replay

    def draw(self: Expected, inputs: Any, count: int) -> None:
        if self.run is harness.region.run:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB")
        real(self, inputs, count)

    harness.make(1)
    monkeypatch.setattr(Expected, "_replay", draw)
    wrong = [out + 1 for out in harness.eager()]
    if behind:
        with pytest.raises(PlanishError, match="no output has a batch"):
            harness.judge(wrong)
        return
    found = harness.judge(wrong)
    assert found["problem"] == "mismatch" and found["reference"] == "slice"
    assert harness.judge(harness.eager())["ok"]
    found = harness.service.mutation_check({"region": "task"})
    assert {"zeros", "constant", "bf16"} <= set(found["tried"]) and found["degenerate"] == []


def test_expectations_that_nobody_asks_for_again_go() -> None:
    harness = Harness(SOURCE)
    harness.make(1)
    kept = harness.region.expected(harness.data)
    harness.service.regimes({})
    harness.service.mutation_check({})
    assert list(harness.region._cache.values()) == [kept]


def test_an_oracle_without_data_keeps_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    given: list[str] = []
    monkeypatch.setattr(memory, "give_back", lambda device: given.append("much"))
    monkeypatch.setattr(memory, "give_all_back", lambda device: given.append("all"))
    for name in ("a", "b"):
        harness.service.make({"region": "task", "data": name, "seed": 1})
    given.clear()
    harness.service.drop({"data": "a"})
    harness.service.drop({"data": "b"})
    assert given == ["all"]


@pytest.mark.parametrize(
    ("body", "tensors"),
    [
        ("torch.nn.functional.cosine_similarity(x, y)", 5),  # both operands, and three of the steps that it is composed of
        ("torch.nn.functional.scaled_dot_product_attention(x, y, y)", 4),
        ("torch.cumsum(x * y, 1)", 3),
    ],
)
def test_what_operations_are_composed_of_is_counted(body: str, tensors: int) -> None:
    source = SOURCE.replace("x * 2", body).replace("self, x", "self, x, y").replace("[torch.randn(8, 8)]", "[torch.randn(64, 64), torch.randn(64, 64)]")
    harness = Harness(source)
    run, wanted = harness.region.run, [v for _, v in harness.region.outputs]
    whole = 64 * 64 * 8
    found = peak_bytes(harness.region.task.captured, run.nodes, harness.region.inputs, wanted)
    assert tensors * whole <= found < (tensors + 0.1) * whole
    for node in harness.region.task.captured.nodes:  # as if it were on a GPU
        if "scaled_dot_product_attention" in str(node.target):
            node.meta.pop("planish_temporaries", None)
            node.meta.pop("val")
            assert peak_bytes(harness.region.task.captured, run.nodes, harness.region.inputs, wanted) > found


def test_long_operations_are_not_followed() -> None:
    source = SOURCE.replace("x * 2", "self.rnn(x)[0]").replace("def forward", "def __init__(self):\n        super().__init__()\n"
                            "        self.rnn = torch.nn.LSTM(4, 4)\n    def forward").replace("randn(8, 8)", "randn(500, 2, 4)")  # fmt: skip
    harness = Harness(source)
    started = time.perf_counter()
    assert harness.region._run_bytes() > 0
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(("others", "outcome"), [("let go", "passes"), ("stay", "fails"), ("there are none", "fails")])
def test_a_check_that_runs_out_of_memory_is_made_again_when_others_let_go(monkeypatch: pytest.MonkeyPatch, others: str, outcome: str) -> None:
    """On a device that others share. What they hold is pretended, and torch's error is real."""
    harness = Harness(SOURCE)
    harness.make(1)
    service, task = harness.service, harness.region.task
    check, tries = harness.region.check, [0]

    def exhausted_once(data: Any, stage: str) -> dict[str, Any]:
        tries[0] += 1
        if tries[0] == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 139.80 GiB")
        return check(data, stage)

    waited: list[int] = []

    def wait(need: int, free: Any, seconds: float) -> float:
        waited.append(need)
        return 3.0

    free = {"let go": 16 << 30, "stay": 1 << 30, "there are none": 1 << 30}[others]
    monkeypatch.setattr(harness.region, "check", exhausted_once)
    monkeypatch.setattr(service, "device", torch.device("cuda"))  # the task's own tensors stay where they are
    monkeypatch.setattr(memory, "wait_for", wait)
    monkeypatch.setattr(memory, "usable", lambda device: free)
    monkeypatch.setattr(memory, "without_others", lambda device, buffers: (1 if others == "there are none" else 100) << 30)
    monkeypatch.setattr(memory, "give_back", lambda device: None)
    handle = service.handlers()["check"]
    if outcome == "passes":
        harness.data.outputs[0].view.copy_(harness.eager()[0])
        assert handle({"data": "d"}, [])["ok"] and tries[0] == 2 and waited == [8 << 30]
        assert task.patience == MEMORY_PATIENCE - 3
        return
    with pytest.raises(PlanishError) as raised:
        handle({"data": "d"}, [])
    assert raised.value.kind == "out_of_memory" and "the reference (in check) does not fit in memory (8.00 GiB more)" in raised.value.message
    assert tries[0] == 1 and waited == ([8 << 30] if others == "stay" else [])


@pytest.mark.parametrize(
    ("text", "size"),
    [("Tried to allocate 8.00 GiB. GPU", 8 << 30), ("tried to allocate 512 bytes", 512), ("Tried to allocate 20.50 MiB", 21495808), ("no", 0)],
)
def test_what_was_asked_for_is_read(text: str, size: int) -> None:
    assert memory.asked(RuntimeError(text)) == size
