"""Grouped products: PyTorch's own in all its types, and custom operators that do the same, by what they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from planish.capture.export import capture
from planish.capture.grouped import MOST_IN_TURN, grouped_product
from planish.errors import PlanishError
from planish.oracle import regimes
from planish.oracle.interpret import Double, Interpreter, Mode
from torch import nn

_LIBRARY = torch.library.Library("planish_tests", "FRAGMENT")


def _operator(name: str, run: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    _LIBRARY.define(f"{name}(Tensor offs, Tensor rows, Tensor matrices) -> Tensor")
    _LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"planish_tests::{name}", lambda offs, rows, matrices: rows.new_empty(rows.shape[0], matrices.shape[2]), lib=_LIBRARY)
    return getattr(torch.ops.planish_tests, name).default  # type: ignore[no-any-return]


def _by_loop(offs: torch.Tensor, rows: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    out, start = rows.new_zeros(rows.shape[0], matrices.shape[2]), 0
    for group, end in enumerate(offs.tolist()):
        out[start:end] = rows[start:end] @ matrices[group]
        start = end
    return out


def _first_matrix(offs: torch.Tensor, rows: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    return rows @ matrices[0]


grouped_by_loop = _operator("by_loop", _by_loop)
all_by_the_first = _operator("by_the_first", _first_matrix)


class _Product(nn.Module):
    def __init__(self, call: Callable[..., torch.Tensor], columns: int = 24, groups: int = 4, depth: int = 16, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.call = call
        self.weight = nn.Parameter(torch.randn(groups, columns, depth, dtype=dtype))

    def forward(self, x: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return self.call(offs, x, self.weight.transpose(1, 2))


def _torchs(offs: torch.Tensor, rows: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    return torch._grouped_mm(rows, matrices, offs=offs)


def _names(graph: dict[str, object]) -> list[str]:
    return [node["op"].split(".")[1] for node in graph["nodes"]]  # type: ignore[index,attr-defined]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_torchs_operator_is_captured_in_every_type_that_it_computes(dtype: torch.dtype, tmp_path: Path) -> None:
    model = _Product(_torchs, columns=27, dtype=dtype)
    x, offs = torch.randn(10, 16, dtype=dtype), torch.tensor([0, 3, 3, 10], dtype=torch.int32)
    captured = capture(model, (x, offs), {}, tmp_path)
    assert "_grouped_mm" in _names(captured.graph)
    value = next(n["outs"][0] for n in captured.graph["nodes"] if n["op"] == "aten._grouped_mm.default")
    assert captured.graph["values"][value]["strides"] == list(model(x, offs).stride())  # rows begin at multiples of 16 bytes


@pytest.mark.parametrize(("columns", "groups", "dtype"), [(24, 4, torch.float32), (26, 4, torch.float32), (24, 4, torch.float64)])
def test_a_custom_operator_that_multiplies_groups_is_one(columns: int, groups: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """Also of types that torch's operator does not take, and with offsets of 64 bits: then group after group."""
    model = _Product(grouped_by_loop, columns, groups, dtype=dtype)
    x, offs = torch.randn(10, 16, dtype=dtype), torch.tensor([0, 3, 3, 8])
    captured = capture(model, (x, offs), {}, tmp_path)
    assert ("_grouped_mm" in _names(captured.graph)) == (dtype is torch.float32)
    inputs = dict(zip([i["value"] for i in captured.graph["inputs"]], captured.flat_inputs((x, offs), {}), strict=True))
    wanted = captured.graph["outputs"][0]["value"]
    run = Interpreter(captured, range(len(captured.nodes)))
    for mode, tolerance in ((Mode(), 1e-4), (Double(), 1e-4)):
        found = run.run(inputs, [wanted], mode)[wanted]
        assert torch.allclose(found.double(), model(x, offs).double(), atol=tolerance)
        assert bool((found[8:] == 0).all())  # behind the last group


def test_a_custom_operator_that_does_something_else_stays_refused(tmp_path: Path) -> None:
    x, offs = torch.randn(10, 16), torch.tensor([0, 3, 3, 10])
    with pytest.raises(PlanishError, match=r"planish_tests.by_the_first.*a custom operator") as refusal:
        capture(_Product(all_by_the_first), (x, offs), {}, tmp_path)
    assert refusal.value.kind == "unsupported_op"
    groups = MOST_IN_TURN + 1
    many = _Product(grouped_by_loop, groups=groups, dtype=torch.float64)
    with pytest.raises(PlanishError, match="by_loop"):  # a product for each of so many groups is none that anybody wants
        capture(many, (x.double(), torch.full((groups,), 10)), {}, tmp_path)


def test_what_torchs_operator_does_not_take_is_refused_with_its_reason(tmp_path: Path) -> None:
    x, offs = torch.randn(10, 16), torch.tensor([0, 3, 3, 10])
    with pytest.raises(PlanishError, match="int32"):
        capture(_Product(_torchs), (x, offs), {}, tmp_path)
    with pytest.raises(PlanishError, match="16 bytes"):
        capture(_Product(_torchs, depth=15), (x[:, :15].contiguous(), offs.int()), {}, tmp_path)


def test_the_reference_knows_every_form_and_refuses_offsets_that_no_groups_have() -> None:
    offs = torch.tensor([2, 2, 5], dtype=torch.int32)
    a, b = torch.randn(6, 4, dtype=torch.float64), torch.randn(3, 4, 8, dtype=torch.float64)
    rows = grouped_product(a, b, offs)
    assert torch.equal(rows, torch.cat([a[:2] @ b[0], a[2:5] @ b[2], torch.zeros(1, 8, dtype=torch.float64)]))
    left, right = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    columns = grouped_product(left, right, offs)
    assert torch.equal(columns[:, 2:5], left[2] @ right[:, 2:5]) and bool((columns[:, 5:] == 0).all())
    parts = grouped_product(a.t(), a, offs)
    assert parts.shape == (3, 4, 4) and torch.equal(parts[0], a[:2].t() @ a[:2]) and bool((parts[1] == 0).all())
    assert torch.equal(grouped_product(left, left.transpose(1, 2)), left @ left.transpose(1, 2))
    for wrong in ([2, 1, 5], [2, 3, 7], [-1, 3, 5]):
        with pytest.raises(ValueError, match="must not fall"):
            grouped_product(a, b, torch.tensor(wrong, dtype=torch.int32))


def test_offsets_are_drawn_as_ends_of_groups(tmp_path: Path) -> None:
    """Of as many rows, never falling; with empty groups, and all rows in one."""
    x, offs = torch.randn(40, 16), torch.tensor([4, 11, 30, 40], dtype=torch.int32)
    captured = capture(_Product(_torchs), (x, offs), {}, tmp_path)
    place = next(i["value"] for i in captured.graph["inputs"] if i["kind"] == "user" and i["index"] == 1)
    assert regimes.label_inputs(captured) == {place: regimes.ENDS}
    empty, single = 0, 0
    for seed in range(40):
        drawn = regimes.draw_labels(offs, regimes.ENDS, torch.Generator().manual_seed(seed))
        assert drawn.dtype == offs.dtype and int(drawn[-1]) == 40
        sizes = drawn.diff(prepend=torch.zeros(1, dtype=torch.int32))
        assert bool((sizes >= 0).all())
        empty += int((sizes == 0).any())
        single += int((sizes == 40).any())
    assert empty >= 30 and 5 <= single < 40
