"""Buffers, poison, guards, checksums, regimes and parameters."""

import ctypes
import os

import pytest
import torch
from harness import Harness
from planish import rt
from planish.errors import PlanishError
from planish.oracle.checksum import checksum
from planish.oracle.data import canaries_intact

HEAD = "import torch\nimport torch.nn as nn\n"
TAIL = "\ndef get_init_inputs():\n    return []\n"
ADD = (
    HEAD
    + "class Model(nn.Module):\n    def forward(self, x, m):\n        return torch.where(m, x, -x), (x > 0).int() * 3, m & (x > 0)\n"
    + "def get_inputs():\n    return [torch.randn(50, 30), torch.rand(50, 30) < 0.5]"
    + TAIL
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    return Harness(ADD, tmp_path_factory.mktemp("add"))


def test_descriptions_lead_another_mapping_to_the_same_bytes(harness):
    harness.make(1)
    data = harness.data
    for description, fd in zip(data.descriptions(), data.fds(), strict=True):
        other = rt.Buffer.open("cpu", os.dup(fd), description)
        shape, strides = description["shape"], description["strides"]
        dtype = {"f32": torch.float32, "bool": torch.bool, "i32": torch.int32}[description["dtype"]]
        mine = next(s.view for s in (*data.inputs, *data.outputs) if s.name == description["name"])
        theirs = other.tensor(dtype, shape, strides)
        assert torch.equal(theirs.view(torch.uint8), mine.view(torch.uint8))
        assert other.guards_intact()


def test_an_input_cannot_be_mapped_for_writing(harness):
    harness.make(1)
    description, fd = harness.data.descriptions()[0], harness.data.fds()[0]
    with pytest.raises(PlanishError):
        rt.Buffer.open("cpu", os.dup(fd), description, writable=True)


def test_changed_input_is_seen(harness):
    harness.make(2)
    outputs = harness.eager()
    harness.data.inputs[0].view[3, 4] += 1
    assert harness.judge(outputs)["problem"] == "input_changed"
    harness.make(2)
    assert harness.judge(harness.eager())["ok"]


class Guarded:
    """Stands for a CUDA buffer: what lies beside it."""

    def __init__(self, *sizes: int) -> None:
        self.parts = [torch.full((size,), rt.CANARY, dtype=torch.uint8) for size in sizes]

    def guards(self) -> list[torch.Tensor]:
        return self.parts


def test_one_byte_beside_any_of_many_buffers_is_seen_at_once():
    buffers = [Guarded(256, 7), Guarded(4096), Guarded(), Guarded(255)]
    assert canaries_intact(buffers) and canaries_intact([]) and canaries_intact([Guarded()])
    for buffer in buffers:
        for part in buffer.parts:
            for at in (0, len(part) // 2, len(part) - 1):
                for value in (0, rt.CANARY - 1, rt.CANARY + 1, 0xFF):
                    part[at] = value
                    assert not canaries_intact(buffers)
                part[at] = rt.CANARY
    assert canaries_intact(buffers)


@pytest.mark.parametrize("where", [-1, 0])
def test_overwritten_guard_is_seen(harness, where):
    harness.service.drop({"data": "d"})
    harness.make(3)
    outputs = harness.eager()
    slot = harness.data.outputs[0]
    address = slot.buffer.address - 1
    if where == 0:
        if slot.buffer.offset + slot.buffer.bytes == slot.buffer.map_bytes:
            pytest.skip("the tensor ends at an unmapped page: nothing to overwrite")
        address = slot.buffer.address + slot.buffer.bytes
    ctypes.c_uint8.from_address(address).value = 0
    result = harness.judge(outputs)
    assert (result["ok"], result["problem"]) == (False, "guard")
    harness.service.drop({"data": "d"})


@pytest.mark.parametrize("output", [0, 1, 2])
def test_unwritten_block_is_seen_in_every_dtype(harness, output):
    harness.make(4)
    eager = harness.eager()
    for i, (slot, value) in enumerate(zip(harness.data.outputs, eager, strict=True)):
        (slot.view if i != output else slot.view[:-2]).copy_(value if i != output else value[:-2])
    result = harness.service.check({"data": "d", "stage": "screen"})
    assert result["problem"] == "unwritten"
    assert result["message"].startswith(f"out{output}") and "[48, 0]" in result["message"]


def test_poison_changes(harness):
    harness.make(5)
    seen = set()
    for _ in range(8):
        harness.service.poison({"data": "d"})
        seen.add(harness.data.outputs[1].poison)
        assert bool(torch.isnan(harness.data.outputs[0].view).all())
    assert len(seen) > 4


def test_a_nan_that_should_not_be_is_named(harness):
    harness.make(6)
    outputs = harness.eager()
    outputs[0][7, 7] = torch.nan
    result = harness.judge(outputs)
    assert result["problem"] == "nan" and result["outputs"][0]["worst"]["actual"] == "nan"


def test_equal_seeds_give_equal_data_and_masks_stay_masks(harness):
    harness.make(7, "normal")
    first = harness.inputs()
    harness.make(8, "normal")
    other = harness.inputs()
    harness.make(7, "normal")
    again = harness.inputs()
    assert torch.equal(first["x"], again["x"]) and torch.equal(first["m"], again["m"])
    assert not torch.equal(first["x"], other["x"])
    assert first["m"].view(torch.uint8).max() <= 1


def test_checksum_sees_changes_and_exchanges():
    raw = torch.randint(0, 255, (1001,), dtype=torch.uint8)
    before = checksum(raw)
    assert checksum(raw.clone()) == before
    for position in (0, 500, 999, 1000):
        changed = raw.clone()
        changed[position] ^= 1
        assert checksum(changed) != before
    words = raw[:1000].view(torch.int64).clone()
    exchanged = words.clone()
    exchanged[[3, 9]] = words[[9, 3]]
    assert checksum(exchanged.view(torch.uint8)) != checksum(words.view(torch.uint8))


NORM = HEAD + (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.bn = nn.BatchNorm1d(6).eval()\n"
    "        self.gate = nn.Parameter(torch.zeros(6))\n        self.register_buffer('mask', torch.ones(6, 6).tril())\n"
    "    def forward(self, x):\n        return self.bn(x) + self.gate * (x @ self.mask)\ndef get_inputs():\n    return [torch.rand(32, 6)]" + TAIL
)


def test_parameters_are_redrawn_but_stay_in_their_kind(tmp_path):
    harness = Harness(NORM.replace("return self.bn", "self.bn.eval()\n        return self.bn"), tmp_path)
    harness.make(1, "task")
    own = harness.inputs()
    assert bool((own["gate"] == 0).all()) and bool((own["bn.running_var"] == 1).all())
    harness.make(2, "task")
    other = harness.inputs()
    assert bool((other["gate"] != 0).all())
    assert bool((other["bn.running_var"] > 0).all()) and other["bn.running_var"].unique().numel() == 6
    assert torch.equal(other["mask"], own["mask"])
    # A candidate that forgets the zero-initialised branch passes on the module's own parameters only.
    assert (
        harness.judge([torch.nn.functional.batch_norm(other["x"], other["bn.running_mean"], other["bn.running_var"], other["bn.weight"], other["bn.bias"])])[
            "problem"
        ]
        == "mismatch"
    )


def test_regimes_outside_the_domain_are_skipped_with_a_reason(tmp_path):
    source = (
        HEAD
        + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.log(x)\ndef get_inputs():\n    return [torch.rand(64, 64) + 0.1]"
        + TAIL
    )
    harness = Harness(source, tmp_path)
    result = harness.service.regimes({"region": "task"})
    assert "task" in result["regimes"] and "offset" in result["regimes"]
    assert "leaves the numbers" in result["skipped"]["normal"]
    assert harness.make(3, "uniform") == {"skipped": result["skipped"]["uniform"]}


def test_indices_computed_from_floats_keep_the_task_regime_only(tmp_path):
    source = HEAD + (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.e = nn.Embedding(10, 4)\n"
        "    def forward(self, x):\n        return self.e((x * 10).long())\ndef get_inputs():\n    return [torch.rand(20)]" + TAIL
    )
    harness = Harness(source, tmp_path)
    assert harness.service.regimes({"region": "task"})["regimes"] == ["task"]


def test_special_values_must_be_where_they_belong(harness):
    assert "skipped" not in harness.make(9, "special")
    eager = harness.eager()
    assert not bool(torch.isfinite(eager[0]).all())
    assert harness.judge(eager)["ok"]
    wrong = [eager[0].nan_to_num(), *eager[1:]]
    assert harness.judge(wrong)["problem"] == "nan"


STRIDED = HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return x.t() * 2\ndef get_inputs():\n    return [torch.randn(30, 50).t()]" + TAIL


def test_strides_are_kept(tmp_path):
    harness = Harness(STRIDED, tmp_path)
    harness.make(1)
    assert harness.data.inputs[0].view.stride() == (1, 50)
    assert harness.judge(harness.eager())["ok"]
    outputs = harness.eager()
    outputs[0][11, 22] += 1
    assert harness.judge(outputs)["outputs"][0]["worst"]["index"] == [11, 22]


def test_the_tasks_own_parameters_are_kept_for_every_seed_and_regime_where_asked() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(4, 8)]
def get_init_inputs():
    return []
"""
    harness = Harness(source)
    service = harness.service
    service.make({"region": "task", "data": "first", "seed": 1, "regime": "task"})
    own = harness.region.task.model.state_dict()
    for name, kept in (("d", True), ("other", False)):
        service.make({"region": "task", "data": name, "seed": 7, "regime": "task", **({"own_parameters": True} if kept else {})})
        for regime in ("task", "wide"):
            service.refresh({"data": name, "seed": 8, "regime": regime})
            data = service.data[name]
            found = {i["name"]: s.view for i, s in zip(harness.graph["inputs"], data.inputs, strict=True) if i["kind"] == "param"}
            assert set(found) == set(own)
            assert all(torch.equal(found[key], own[key]) for key in own) is kept
            # The two share seed and regime, not what is expected.
            inputs = {i["name"]: s.view for i, s in zip(harness.graph["inputs"], data.inputs, strict=True)}
            x = next(v for key, v in inputs.items() if key not in own)
            data.outputs[0].view.copy_(torch.nn.functional.linear(x, found["linear.weight"], found["linear.bias"]))
            assert service.check({"data": name, "stage": "full"})["ok"], (name, regime)
