"""A live module as a task on disk: both forms, and what fresh inputs are drawn from."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import planish
import pytest
import torch
from planish.capture import by_value, capture, check_forward
from planish.capture.live import load_live, redraw, write_live
from planish.capture.task import LoadedTask
from planish.errors import PlanishError
from planish.ship import holders
from torch import nn
from torch.utils import _pytree as pytree

PACKAGE = Path(planish.__file__).parent


def written(folder: Path, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, exported: bool = False) -> LoadedTask:
    assert write_live(folder / "task", "it", module, args, kwargs or {}, exported) == ("exported" if exported else "module")
    return load_live(folder / "task")


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0])  # made anew at each call
        return self.table(places) * scale + torch.arange(4)


@pytest.mark.parametrize("exported", [False, True])
@torch.no_grad()
def test_expanded_inputs_and_constants_made_in_forward(tmp_path: Path, exported: bool) -> None:
    module, places = Positions().eval(), torch.arange(8)[None].expand(2, -1)
    task = written(tmp_path, module, (places,), exported=exported)
    (fresh,), _ = task.make_inputs(1, "cpu")
    assert fresh.stride() == places.stride() == (0, 1) and torch.equal(fresh[0], fresh[1])
    assert set(fresh.flatten().tolist()) <= set(range(8))
    torch.testing.assert_close(task.rebuild()(fresh), module(fresh))
    graph = capture(task.model, (fresh,), {}, tmp_path / "blobs").graph
    assert [i["kind"] for i in graph["inputs"]].count("user") == 1


@torch.no_grad()
def test_the_modules_own_class_comes_back(tmp_path: Path) -> None:
    task = written(tmp_path, Positions().eval(), (torch.arange(8),))
    assert type(task.model) is Positions and not task.model.training and task.live
    assert torch.equal(task.rebuild().table.weight, task.model.table.weight)


@pytest.mark.parametrize("strides", [(8, 2), (1, 16), (0, 1), (3, 1)])
def test_fresh_elements_lie_as_the_examples_do(strides: tuple[int, int]) -> None:
    x = torch.randperm(64).as_strided((3, 4), strides)
    fresh = redraw(x, torch.Generator().manual_seed(0))
    assert fresh.shape == x.shape and fresh.stride() == x.stride()
    assert set(fresh.flatten().tolist()) <= set(x.flatten().tolist())
    assert torch.equal(fresh, redraw(x, torch.Generator().manual_seed(0))) and not torch.equal(fresh, redraw(x, torch.Generator().manual_seed(1)))


def test_permutations_stay_permutations() -> None:
    order = torch.tensor([3, 0, 4, 1, 2])
    drawn = [redraw(order, torch.Generator().manual_seed(seed)) for seed in range(8)]
    assert all(torch.equal(d.sort()[0], torch.arange(5)) for d in drawn) and any(not torch.equal(d, order) for d in drawn)
    twice = torch.tensor([3, 0, 4, 1, 1])
    assert any(not torch.equal(redraw(twice, torch.Generator().manual_seed(seed)).sort()[0], twice.sort()[0]) for seed in range(8))


def test_lengths_of_parts_add_up_to_what_they_are_parts_of(tmp_path: Path) -> None:
    lengths = torch.tensor([10, 20, 1, 29])
    drawn = [redraw(lengths, torch.Generator().manual_seed(seed), {60, 8}) for seed in range(8)]
    assert all(torch.equal(d.sort()[0], lengths.sort()[0]) for d in drawn)
    assert any(not torch.equal(d, lengths) for d in drawn)
    # Numbers that are no size's parts are drawn as any others.
    assert any(int(redraw(lengths, torch.Generator().manual_seed(seed), {61}).sum()) != 60 for seed in range(8))
    # Of offsets the order stays, whatever they add up to.
    offsets = torch.tensor([0, 10, 30, 60])
    assert all(bool((redraw(offsets, torch.Generator().manual_seed(seed), {100}).diff() >= 0).all()) for seed in range(8))

    write_live(tmp_path / "task", "parts", torch.nn.Identity(), (torch.randn(60, 4),), {})
    torch.save(((torch.randn(60, 4), lengths), {}), tmp_path / "task" / "inputs.pt")
    made = load_live(tmp_path / "task").make_inputs(3, "cpu")
    assert int(made[0][1].sum()) == 60


def test_offsets_stay_offsets() -> None:
    """As EmbeddingBag and packed sequences take them: drawn like other integers they would be refused, or read beside the table."""
    offsets = torch.tensor([0, 10, 30, 31, 60])
    drawn = [redraw(offsets, torch.Generator().manual_seed(seed)) for seed in range(8)]
    for fresh in drawn:
        assert fresh.dtype == torch.int64 and fresh[0] == 0 and fresh[-1] == 60 and sorted(fresh.diff().tolist()) == [1, 10, 20, 29]
    assert len({tuple(fresh.tolist()) for fresh in drawn}) > 2
    for other in ([3, 10, 30], [0, 30, 10], [0, 200, 100]):
        labels = torch.tensor(other, dtype=torch.uint8)
        assert set(redraw(labels, torch.Generator().manual_seed(0)).tolist()) <= set(other)


def test_what_is_no_tensor_stays() -> None:
    generator = torch.Generator()
    assert redraw(3, generator) == 3 and redraw(None, generator) is None
    assert torch.equal(redraw(torch.tensor(5.0), generator), torch.tensor(5.0))


def local_module() -> nn.Module:
    factor = 3.0

    class Local(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = lambda x: x * factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scale(x).relu()

    return Local()


@pytest.mark.parametrize("exported", [False, True])
def test_a_class_of_a_function_with_a_lambda(tmp_path: Path, exported: bool) -> None:
    if not exported:
        pytest.importorskip("cloudpickle")
    x = torch.randn(4)
    assert torch.equal(written(tmp_path, local_module(), (x,), exported=exported).model(x), (x * 3).relu())


class Unsaved(nn.Linear):
    def __getstate__(self) -> Any:
        raise RuntimeError("only its state can be saved")


def test_what_cannot_be_pickled_is_exported(tmp_path: Path) -> None:
    module = Unsaved(4, 4)
    assert write_live(tmp_path / "task", "it", module, (torch.randn(2, 4),), {}) == "exported"
    assert not (tmp_path / "task" / "module.pt").exists()
    x = torch.randn(2, 4)
    torch.testing.assert_close(load_live(tmp_path / "task").model(x), module(x))


def test_an_exported_program_that_cannot_be_read_again_is_named(tmp_path: Path) -> None:
    written(tmp_path, Positions(), (torch.arange(8),), exported=True)
    (tmp_path / "task" / "program.pt2").write_bytes(b"nothing")
    with pytest.raises(PlanishError, match="cannot be read in another process") as error:
        load_live(tmp_path / "task")
    assert error.value.kind == "not_exportable" and error.value.hint


def test_a_module_that_cannot_be_read_again_is_named(tmp_path: Path) -> None:
    written(tmp_path, Positions(), (torch.arange(8),))
    (tmp_path / "task" / "module.pt").write_bytes(b"nothing")
    with pytest.raises(PlanishError) as error:
        load_live(tmp_path / "task")
    assert error.value.kind == "not_importable" and error.value.hint


def test_inputs_that_cannot_be_pickled_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as error:
        write_live(tmp_path / "task", "it", nn.Identity(), (torch.ones(1), (k for k in ())), {})
    assert error.value.kind == "inputs_failed"


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Both(nn.Module):
    def forward(self, x: torch.Tensor, *, more: dict[str, torch.Tensor]) -> Pair:
        return Pair(x + more["y"], x - more["y"])


def test_keywords_dictionaries_and_dataclasses(tmp_path: Path) -> None:
    torch.export.register_dataclass(Pair, serialized_type_name="tests.Pair")
    x, y = torch.randn(4), torch.randn(4)
    task = written(tmp_path, Both(), (x,), {"more": {"y": y}})
    args, kwargs = task.make_inputs(3, "cpu")
    assert isinstance(task.model(*args, **kwargs), Pair)
    assert len(capture(task.model, args, kwargs, tmp_path / "blobs").graph["outputs"]) == 2


def test_half_written_pickles_are_removed(tmp_path: Path) -> None:
    assert not by_value.save([torch.ones(4), (k for k in ())], tmp_path / "x.pt")
    assert list(tmp_path.iterdir()) == []


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.state + x
        return x + self.state


@pytest.mark.parametrize("exported", [False, True])
def test_state_in_a_plain_attribute_is_refused_with_the_mend(tmp_path: Path, exported: bool) -> None:
    x = torch.randn(4)
    with pytest.raises(PlanishError) as error:
        capture(written(tmp_path, Hidden(), (x,), exported=exported).model, (x,), {}, tmp_path / "blobs")
    assert error.value.kind == "not_exportable" and "'state'" in error.value.message and "register_buffer" in error.value.hint


def test_parameters_that_a_layer_assigns_again_are_no_state(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 4)
    capture(written(tmp_path, nn.GRU(4, 4), (x,), exported=True).model, (x,), {}, tmp_path / "blobs")
    capture(nn.GRU(4, 4), (x,), {}, tmp_path / "blobs")


class Largest(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.max(x, -1)


def test_named_tuples_of_torch_come_back(tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    graph = capture(Largest(), (x,), {}, tmp_path / "blobs").graph
    spec = pytree.treespec_loads(graph["output_tree"])
    assert isinstance(pytree.tree_unflatten([1, 2], spec), torch.return_types.max)


class Pair2(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> Pair2:
        return Pair2(x + 1, x * 2)


def test_named_tuples_of_the_users_come_back(tmp_path: Path) -> None:
    graph = capture(Named(), (torch.randn(2),), {}, tmp_path / "blobs").graph
    assert isinstance(pytree.tree_unflatten([1, 2], holders.loads(graph["output_tree"])), Pair2)


class Row(list):  # type: ignore[type-arg]
    """Registered without a name."""


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> Row:
        return Row([x + 1, x * 2])


def test_a_nesting_without_a_name_is_refused(tmp_path: Path) -> None:
    pytree.register_pytree_node(Row, lambda row: (list(row), None), lambda children, _: Row(children), flatten_with_keys_fn=lambda row: ([], None))
    with pytest.raises(PlanishError) as error:
        capture(Rows(), (torch.randn(2),), {}, tmp_path / "blobs")
    assert error.value.kind == "not_exportable" and "dataclass" in error.value.hint


#: As a user's script has it: nothing here can be imported by another process.
SCRIPT = """
from dataclasses import dataclass, field
from pathlib import Path
import sys
import torch
from planish.capture.live import write_live

@dataclass
class Out:
    first: torch.Tensor
    second: torch.Tensor = field(default=None)

torch.export.register_dataclass(Out)

class Two(torch.nn.Module):
    def forward(self, x):
        return Out(x + 1, x * 2)

assert write_live(Path(sys.argv[1]), "two", Two(), (torch.randn(4),), {}) == "module"
"""


def test_classes_of_a_script_come_back(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    (tmp_path / "script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py", "task"], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
    task = load_live(tmp_path / "task")
    (x,), _ = task.make_inputs(0, "cpu")
    torch.testing.assert_close(task.model(x).second, x * 2)
    assert len(capture(task.model, (x,), {}, tmp_path / "blobs").graph["outputs"]) == 2


def test_what_the_serialiser_raises_is_an_error_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SerializeError(Exception):  # torch's is of no class that one could name
        pass

    def save(program: Any, file: str) -> None:
        Path(file).write_text("half")
        raise SerializeError("Failed serializing node flex_attention in graph: …")

    monkeypatch.setattr(torch.export, "save", save)
    with pytest.raises(PlanishError) as caught:
        write_live(tmp_path / "task", "m", nn.ReLU(), (torch.randn(3),), {}, exported=True)
    assert caught.value.kind == "not_exportable" and "flex_attention" in caught.value.message and "cloudpickle" in caught.value.hint
    assert not list((tmp_path / "task").glob("*.pt2"))


class Picky(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x)


def test_a_forward_that_refuses_drawn_data_says_that_data_are_drawn(tmp_path: Path) -> None:
    task = written(tmp_path, Picky(), (torch.eye(3),))
    call = (torch.zeros(3, 3),), {}
    with pytest.raises(PlanishError) as caught:
        check_forward(task.path, task.model, call)
    assert caught.value.kind == "forward_failed" and "draw the elements of the examples anew" in caught.value.hint
    assert "return torch.linalg.inv(x)" in caught.value.message
