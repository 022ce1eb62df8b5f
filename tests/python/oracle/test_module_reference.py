"""Tasks without a graph: the module is its own reference."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.errors import PlanishError
from planish.oracle import module_runs
from planish.oracle.mutation_check import mutation_check
from planish.oracle.promoted import Undecided, in_double, named, promote
from planish.oracle.task import Task

OPAQUE = Path(__file__).resolve().parents[2] / "opaque"
sys.path.insert(0, str(OPAQUE))

import judge  # noqa: E402


@pytest.mark.parametrize("name", judge.TASKS)
def test_right_solutions_pass_and_wrong_ones_do_not(name: str, tmp_path: Path) -> None:
    task, region = judge.open_task(OPAQUE / f"{name}.py", str(tmp_path))
    for solution, row in judge.judge(task, region, seeds=1).items():
        assert row["passed"] == row["right"], f"{solution}: {row}"


def test_the_gate_bites_and_the_verdict_says_what_it_rests_on(tmp_path: Path) -> None:
    _, region = judge.open_task(OPAQUE / "varlen_attention.py", str(tmp_path))
    found = mutation_check(region)
    assert "bf16" in found["tried"] and not found["degenerate"]
    assert "varlen_attention.py:" in found["notes"][0]["text"] and found["notes"][0]["kind"] == "module_reference"


def test_sizes_that_the_generator_draws_are_those_of_one_call(tmp_path: Path) -> None:
    task, region = judge.open_task(OPAQUE / "ragged_pool.py", str(tmp_path))
    first, other = region.create(7, "task"), region.create(8, "task")
    assert task.sizes_drawn
    (x, lengths), (y, same) = ([slot.view for slot in data.inputs[-2:]] for data in (first, other))
    assert torch.equal(lengths, same) and not torch.equal(x, y)
    assert any(note["kind"] == "one_structure" for note in mutation_check(region)["notes"])


def written(tmp_path: Path, forward: str, inputs: str = "[torch.randn(8, 4)]", more: str = "") -> Path:
    body = forward.replace("\n", "\n        ")
    text = f"import torch\nfrom torch import nn\n{more}\n\nclass Model(nn.Module):\n    def forward(self, x):\n        {body}\n"
    text += f"\ndef get_inputs():\n    return {inputs}\n"
    path = tmp_path / "task.py"
    path.write_text(text)
    return path


BRANCH = "if x.sum() > 1e9:\n    x = -x\n"


@pytest.mark.parametrize(
    ("forward", "kind", "words"),
    [
        ("return x[x > 0]", "data_dependent", "sizes that depend on the values"),
        ("return x[x > 0]", "data_dependent", "uses index (task.py:7: return x[x > 0])"),
        (f"{BRANCH}return (x - 1e9).log()", "reference_nan", "NaN"),
        (f"{BRANCH}y = torch.empty(9, 4)\ny[:8] = x\nreturn y", "random_ops", "whatever lies there"),
        (f"{BRANCH}return x.view(torch.int32) >> 1", "data_dependent", "bits of floats"),
        (f"{BRANCH}self.last = x\nreturn x", "not_exportable", "changes 'last'"),
    ],
)  # fmt: skip
def test_what_is_refused_all_the_same(tmp_path: Path, forward: str, kind: str, words: str) -> None:
    with pytest.raises(PlanishError) as caught:
        Task(str(written(tmp_path, forward)), torch.device("cpu"), str(tmp_path / "blobs"))
    assert caught.value.kind == kind
    assert words in caught.value.message


def test_a_reference_that_does_not_end_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_runs, "LIMIT", 0.5)
    path = written(tmp_path, "while float(x.abs().max()) < 1e30 and SLOW[0]:\n    x = x * 1.0\nreturn x if x.sum() > -1e9 else -x", more="SLOW = [False]\n")
    task = Task(str(path), torch.device("cpu"), str(tmp_path / "blobs"))
    sys.modules[type(task.model).__module__].SLOW[0] = True
    assert task.module is not None
    with pytest.raises(module_runs.TooLongError, match="did not end within"):
        module_runs.eager(task.module, [torch.randn(8, 4)])


def test_a_capture_that_does_not_end_leaves_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planish.oracle.task.CAPTURE_PATIENCE", 0.2)
    forward = "time.sleep(0.4)\nparts = [x[i, : int(n)].sum() for i, n in enumerate((x[:, 0] > 0).long())]\nreturn torch.stack(parts)"
    path = written(tmp_path, forward, "[torch.randn(64, 4)]", more="import time\n")
    task = Task(str(path), torch.device("cpu"), str(tmp_path / "blobs"))
    assert task.module is not None and "was not captured within 0.2 s" in task.graph["nodes"][0]["args"][1]["str"]


def test_a_decision_on_the_edge_of_a_rounding_is_drawn_again(tmp_path: Path) -> None:
    """Eager and double take different branches on the data of one seed in two: such data decide nothing."""
    forward = "lost = x[0, 0] * 0 + 1e-9 + 1 - 1\nif bool((lost > 0) & (x[0, 0] < -1)):\n    return x * 2\nreturn x"
    path = written(tmp_path, forward)
    _, region = judge.open_task(path, str(tmp_path / "blobs"))
    found = [region.create(seed, "task") for seed in range(6)]
    assert any(data.redrawn for data in found)
    assert not any(region.expected(data).undecided for data in found)


def run(forward: Any, *tensors: torch.Tensor) -> Any:
    given = [named(promote(t), t.dtype) for t in tensors]
    with in_double():
        return forward(*given)


def test_in_double_a_program_sees_the_types_that_it_has() -> None:
    x = torch.full((4,), 1.1, dtype=torch.float16)

    def forward(x: torch.Tensor) -> Any:
        y = x.float() / 3
        same = x.to(torch.float16)
        same.mul_(2)  # torch makes no copy: x is written as well
        other = y.double()
        other.zero_()  # here it makes one
        return x.dtype, y.dtype, y.to(x.dtype).dtype, torch.finfo(x.dtype).max, x, y, (x.sum() > 5).item(), torch.zeros(2).dtype

    types = run(forward, x)
    assert types[:4] == (torch.float16, torch.float32, torch.float16, 65504.0)
    assert types[7] is torch.float32
    assert types[4].dtype is torch.float64
    assert torch.equal(types[4], x.double() * 2)
    assert torch.equal(types[5], x.double() / 3)


def test_in_double_eight_bits_are_rounded_as_the_program_says() -> None:
    x = torch.tensor([1.07, -3.3])
    found = run(lambda x: x.to(torch.float8_e4m3fn).to(torch.float32) * 2, x)
    assert torch.equal(found, x.to(torch.float8_e4m3fn).double() * 2)


def test_in_double_scaled_products_of_groups_are_exact() -> None:
    """torch's own operator has no form for doubles, nor for processors."""
    ends = torch.tensor([20, 33, 64], dtype=torch.int32)
    x, w = torch.randn(64, 32).to(torch.float8_e4m3fn), torch.randn(3, 48, 32).to(torch.float8_e4m3fn)
    rows, columns = torch.rand(64), torch.rand(3, 48)
    with in_double():
        found = torch._scaled_grouped_mm(x, w.transpose(1, 2), rows, columns, offs=ends, out_dtype=torch.bfloat16)
    parts = [(x[a:b].double() * rows[a:b, None]) @ (w[g].double().t() * columns[g]) for g, (a, b) in enumerate(((0, 20), (20, 33), (33, 64)))]
    assert found.dtype is torch.float64
    torch.testing.assert_close(found, torch.cat(parts), rtol=1e-12, atol=1e-12)


def test_in_double_a_write_that_would_be_lost_is_refused() -> None:
    kept = torch.zeros(4)
    with pytest.raises(Undecided, match="not promoted"):
        run(lambda x: kept.add_(x), torch.ones(4))


def test_in_double_memory_of_floats_is_nobodys() -> None:
    with pytest.raises(Undecided, match="data_ptr"):
        run(lambda x: x.data_ptr(), torch.ones(4))
