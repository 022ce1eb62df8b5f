"""A program attached to a live module."""

from __future__ import annotations

import copy
import importlib
import json
import logging
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from planish import counts
from planish.capture import capture
from planish.capture.live import load_live, write_live
from planish.errors import PlanishError
from planish.ship import attach, detach, guards, load
from shipping import aten_program, program_ran, ship, write


class Block(nn.Module):
    """At module level, so that it can be pickled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.gain = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu() * self.gain


@pytest.fixture
def module() -> nn.Module:
    return Block(8)


@pytest.fixture
def folder(module: nn.Module, tmp_path: Path) -> Path:
    blobs = tmp_path / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(module, (torch.randn(4, 8),), {}, blobs).graph
    return write(tmp_path / "shipped", tmp_path, aten_program(graph), graph, modules=guards.configuration(module))


@torch.no_grad()
def test_the_module_stays_itself(module: nn.Module, folder: Path) -> None:
    x = torch.randn(4, 8)
    expected = module(x)
    assert load(folder, module) is module and isinstance(module, Block) and type(module).__name__ == "Block"
    ran, result = program_ran(module, x)
    assert ran
    torch.testing.assert_close(result, expected)
    module.inner.weight.mul_(3)
    torch.testing.assert_close(module(x), Block.forward(module, x))
    assert not program_ran(module, torch.randn(5, 8))[0]
    module.gain = 3.0
    ran, result = program_ran(module, x)
    assert not ran
    torch.testing.assert_close(result, Block.forward(module, x))


@torch.no_grad()
def test_copies_and_pickles_keep_the_program(module: nn.Module, folder: Path) -> None:
    x = torch.randn(4, 8)
    attach(folder, module)
    module(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.inner.weight.add_(1)
        ran, result = program_ran(other, x)
        assert ran
        torch.testing.assert_close(result, Block.forward(other, x))
    ran, result = program_ran(module, x)
    assert ran
    torch.testing.assert_close(result, Block.forward(module, x))


@torch.no_grad()
def test_a_pickle_whose_folder_is_gone_runs_the_original(module: nn.Module, folder: Path) -> None:
    saved = pickle.dumps(attach(folder, module))
    shutil.rmtree(folder)
    guards.shipped.pop(str(folder))
    other, x = pickle.loads(saved), torch.randn(4, 8)
    ran, result = program_ran(other, x)
    assert not ran
    torch.testing.assert_close(result, Block.forward(other, x))


def refused(folder: Path, module: nn.Module, why: str) -> None:
    with pytest.raises(PlanishError) as error:
        load(folder, module)
    assert error.value.kind == "another_module" and why in error.value.message and error.value.hint


def live_folder(folder: Path, module: nn.Module, *args: torch.Tensor) -> Path:
    """A program of the module's present state, as `planish.optimize` leaves it."""
    blobs = folder / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(module, args, {}, blobs).graph
    return write(folder, folder.parent, aten_program(graph), graph, modules=json.loads(json.dumps(guards.configuration(module))))


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(x) * 2


@torch.no_grad()
def test_a_module_unlike_the_captured_one_is_refused(tmp_path: Path) -> None:
    """The folder may be loaded in another process, on another object: what was captured counts, not what is there."""
    captured, x = Noisy().eval(), torch.randn(4, 8)
    blobs = tmp_path / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(captured, (x,), {}, blobs).graph
    folder = write(tmp_path / "shipped", tmp_path, aten_program(graph), graph, modules=guards.configuration(captured))
    other = attach(folder, Noisy())
    assert other.training and not program_ran(other, x)[0]
    ran, result = program_ran(other.eval(), x)
    assert ran and torch.equal(result, x * 2)
    stronger = Noisy().eval()
    stronger.drop.p = 0.9
    refused(folder, stronger, "'drop.p' is 0.9, captured was 0.5")
    assert type(stronger) is Noisy


@torch.no_grad()
def test_attaching_twice_and_taking_off(module: nn.Module, folder: Path) -> None:
    attach(folder, module)
    with pytest.raises(PlanishError) as error:
        attach(folder, module)
    assert error.value.kind == "already_attached"
    assert type(detach(module)) is Block
    assert not program_ran(module, torch.randn(4, 8))[0]


def test_what_cannot_be_loaded_is_named(module: nn.Module, folder: Path, tmp_path: Path) -> None:
    for bad in (lambda: load(tmp_path / "none"), lambda: load(folder)):
        with pytest.raises(PlanishError) as error:
            bad()
        assert error.value.kind == "not_shipped" and error.value.hint
    (folder / "ship.json").write_text('{"schema": "other"}')
    with pytest.raises(PlanishError, match="schema"):
        load(folder, module)


@torch.no_grad()
def test_a_call_that_falls_back_says_so_once_and_is_counted(module: nn.Module, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(4, 8)
    caplog.set_level(logging.INFO, "planish.calls")
    attach(folder, module)
    for _ in range(3):
        module(x)
    with pytest.warns(guards.FallbackWarning, match=r"input 0 has shape \[5, 8\], the program was made for \[4, 8\]") as said:
        for _ in range(2):
            module(torch.randn(5, 8))
        module(torch.randn(6, 8))
    assert len(said) == 1 and said[0].filename == __file__  # at the user's line
    with pytest.warns(guards.FallbackWarning, match="strides"):
        module(torch.randn(8, 4).T)
    with pytest.warns(guards.FallbackWarning, match="torch.float64"):
        module.double()(x.double())
    found = counts.status(module)
    assert (found.ran, found.calls) == (3, 8) and found.attached
    assert [record.getMessage().partition("program: ")[2] for record in caplog.records] == list(found.fell_back)
    assert sorted(found.fell_back.values()) == [1, 1, 3]
    assert "ran in 3 of 8 calls" in repr(found) and "3 × " in repr(found)
    assert counts.status(nn.Sequential(module)).ran == 3 and "'0'" in repr(counts.status(nn.Sequential(module)))
    assert not counts.status(nn.Linear(2, 2)).attached


def test_gradients_that_nobody_can_ask_for_do_not_matter(module: nn.Module, folder: Path) -> None:
    x = torch.randn(4, 8)
    attach(folder, module)
    with pytest.warns(guards.FallbackWarning, match=r"inner\.weight.*torch\.no_grad"):
        assert module(x).requires_grad
    module.requires_grad_(False)
    assert torch.is_grad_enabled() and program_ran(module, x)[0]
    with pytest.warns(guards.FallbackWarning, match="strides"):  # gradients were said before
        module(x.clone().requires_grad_())
        module(torch.randn(8, 4).T)


@torch.no_grad()
def test_other_calls_may_be_compiled(module: nn.Module, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    def compile(function: Any, **options: Any) -> Any:
        compiled.append(options)
        return function

    monkeypatch.setattr(torch, "compile", compile)
    attach(folder, module, fallback="compile")
    x, other = torch.randn(4, 8), torch.randn(5, 8)
    assert program_ran(module, x)[0] and compiled == []
    with pytest.warns(guards.FallbackWarning):
        for _ in range(2):
            torch.testing.assert_close(module(other), Block.forward(module, other))
    assert compiled == [{"options": {"fallback_random": True}}]
    with pytest.raises(PlanishError, match="fallback"):
        load(folder, Block(8), fallback="other")
    assert type(detach(module)) is Block and "_planish" not in str(vars(module).keys())


@torch.no_grad()
def test_the_exported_twin_of_a_module_is_accepted_too(tmp_path: Path) -> None:
    captured, x = Noisy().eval(), torch.randn(4, 8)
    write_live(tmp_path / "task", "Noisy", captured, (x,), {}, exported=True)
    task = load_live(tmp_path / "task")
    about = json.loads((tmp_path / "task" / "task.json").read_text())
    blobs = tmp_path / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(task.model, (x,), {}, blobs).graph
    folder = write(tmp_path / "shipped", tmp_path, aten_program(graph), graph, modules=about["modules"], twin=about["twin"])
    for model in (task.rebuild(), Noisy().eval()):
        ran, result = program_ran(attach(folder, model), x)
        assert ran and torch.equal(result, x * 2)
    stronger = Noisy().eval()
    stronger.drop.p = 0.9
    refused(folder, stronger, "'drop.p' is 0.9, captured was 0.5")


def local(times: float) -> nn.Module:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * times

    return Local()


@torch.no_grad()
def test_a_local_class_that_travelled_by_value_is_the_same(tmp_path: Path) -> None:
    """cloudpickle gives it another qualified name."""
    x = torch.randn(4, 8)
    write_live(tmp_path / "task", "local", local(2.0), (x,), {})
    about = json.loads((tmp_path / "task" / "task.json").read_text())
    assert about["form"] == "module"
    there = load_live(tmp_path / "task").model
    folder = live_folder(tmp_path / "shipped", there, x)
    for module in (local(2.0), there):
        ran, result = program_ran(load(folder, module), x)
        assert ran and torch.equal(result, x * 2)
    refused(folder, local(3.0), "forward (times)' is 3.0, captured was 2.0")


def named(name: str, source: str) -> nn.Module:
    space: dict[str, Any] = {"nn": nn, "torch": torch, "__name__": "somewhere"}
    exec(f"class {name}(nn.Module):\n" + "\n".join(f"    {line}" for line in source.splitlines()), space)
    made: nn.Module = space[name]()
    return made


@torch.no_grad()
def test_load_compares_the_code(tmp_path: Path) -> None:
    x = torch.randn(4, 8)
    folder = live_folder(tmp_path / "shipped", named("Net", "def forward(self, x):\n    return x * 2"), x)
    assert program_ran(load(folder, named("Net", "def forward(self, x):  # the same\n\n    return x * 2")), x)[0]
    refused(folder, named("Net", "def forward(self, x):\n    return x * 3"), "Net.forward")
    refused(folder, named("Net", "def forward(self, x):\n    return self.helped(x)\ndef helped(self, x):\n    return x * 2"), "Net.forward")
    refused(folder, named("Other", "def forward(self, x):\n    return x * 2"), "is a Other, captured was a Net")


@torch.no_grad()
def test_code_of_packages_is_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of an installed package, loaded where the package has another version."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    source = "from torch import nn\ndef helper(x):\n    return x * {}\nclass Packaged(nn.Module):\n    def forward(self, x):\n        return helper(x)\n"
    x, made = torch.randn(4, 8), {}
    for times in (2, 3):
        (site / f"packaged{times}.py").write_text(source.format(times))
        made[times] = importlib.import_module(f"packaged{times}").Packaged
    folder = live_folder(tmp_path / "shipped", made[2](), x)
    assert program_ran(load(folder, made[2]()), x)[0]
    refused(folder, made[3](), "the code of 'helper' is another")


@torch.no_grad()
def test_sources_are_compared_under_another_python(tmp_path: Path) -> None:
    module, x = Block(8), torch.randn(4, 8)
    folder = live_folder(tmp_path / "shipped", module, x)
    manifest = json.loads((folder / "ship.json").read_text())
    about = manifest["modules"][""]
    about["python"] = "cpython-399"
    about["reached"] = {k: v.partition(" with code ")[0] for k, v in about["reached"].items()}
    (folder / "ship.json").write_text(json.dumps(manifest))
    assert program_ran(load(folder, copy.deepcopy(module)), x)[0]
    about["sources"]["Block.forward"] = "another"
    (folder / "ship.json").write_text(json.dumps(manifest))
    refused(folder, module, "the code of 'Block.forward' is another")
    del about["sources"]["Block.forward"]
    (folder / "ship.json").write_text(json.dumps(manifest))
    refused(folder, module, "cannot be compared")


TASK = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(4, 8)]
"""


@torch.no_grad()
def test_a_folder_of_a_task_file_is_for_that_task_alone(tmp_path: Path) -> None:
    folder, x = ship(tmp_path, TASK), torch.randn(4, 8)
    same = named("Model", "def forward(self, x):\n    return x * 2")
    ran, result = program_ran(load(folder, same), x)
    assert ran and torch.equal(result, x * 2)
    refused(folder, named("Model", "def forward(self, x):\n    return x * 7"), "Model.forward")
    refused(folder, Block(8), "captured was a Model")


def test_what_can_change_unseen_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    class Iterating(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if self.source is not None else x + 1

    module = Iterating()
    module.source = None
    folder = live_folder(tmp_path / "shipped", module, torch.randn(4, 8))
    module.source = iter([1.0])
    with pytest.raises(PlanishError) as error:
        load(folder, module)
    assert error.value.kind == "not_exportable" and "'source' is a builtins.list_iterator" in error.value.message
