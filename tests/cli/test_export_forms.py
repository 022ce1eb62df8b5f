"""`planish export`: every form of a shipped folder does what the folder does, away from the package and the place it was made in."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command import Home, lines
from handmade import build, shipped_by_hand, training, with_kernels
from optimised_task import Optimised
from planish.ship import guards
from torch import nn


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return shipped_by_hand(tmp_path_factory.mktemp("export"))


# Runs the text as KernelBench does: exec in a namespace of its own, where no file, folder or package of ours can be seen.
EXEC = """
import json, os, sys
text = sys.stdin.read()
assert not any("planish" in name for name in sys.modules)
import torch
torch.set_num_threads(1)
for attempt in range(2):
    space = {}
    exec(text, space)
    torch.manual_seed(1)
    model, x = space["ModelNew"](*space["get_init_inputs"]()), space["get_inputs"]()[0]
    with torch.no_grad():
        same = [torch.equal(model(x), space["Model"].forward(model, x)) for _ in range(3)]
        hits = model._planish.shipped.extension.hits()
        shorter = torch.equal(model(x[:2]), space["Model"].forward(model, x[:2]))
    other = space["ModelNew"](8, shift=1.0)
    other_same = torch.equal(other(x), space["Model"].forward(other, x)) and bool(other._planish.reason)
mine = sorted(name.rpartition("_")[2] for name in sys.modules if name.startswith("planish"))
import inspect
print(json.dumps({"same": same, "hits": hits, "shorter": shorter, "other": other_same, "modules": mine, "why": model._planish.why,
                  "source": "torch.relu" in inspect.getsource(space["Model"].forward)}))
"""


def test_a_single_file_needs_nothing_else(home: Home, tmp_path: Path) -> None:
    done = home.run("export", "out", "--form", "file")
    assert done.returncode == 0, done.stderr
    made = home.path / "task_planish.py"
    assert done.stdout.strip() == str(made)
    text = made.read_text()
    ran = subprocess.run([sys.executable, "-I", "-c", EXEC], input=text, capture_output=True, text=True, cwd=tmp_path, env={"PATH": ""}, check=False)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["same"] == [True] * 3 and seen["shorter"] and seen["other"] and seen["source"], seen
    assert seen["hits"] == 4, seen  # of three calls, the first binds; twice
    assert seen["modules"] == sorted(["executor", "guards", "reference", *guards.PARTS]), seen
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_the_hub_loads_as_the_package_kernels_loads_it(home: Home, tmp_path: Path) -> None:
    """Its metadata names the file, by which it is imported under a name that nothing else has."""
    shipped = home.path / "measured" / "shipped"
    shutil.copytree(home.path / "out" / "shipped", shipped)
    evidence = json.dumps({"times": {"shipped": {"median_ms": 0.25}, "eager": {"median_ms": 1.5}, "compile": {"error": {}}}})
    (shipped / "evidence.json").write_text(evidence)
    manifest = json.loads((shipped / "ship.json").read_text())
    manifest["files"]["evidence.json"] = hashlib.sha256(evidence.encode()).hexdigest()
    (shipped / "ship.json").write_text(json.dumps(manifest))
    done = home.run("export", "measured", "--form", "hub")
    assert done.returncode == 0 and "README.md" in lines(done.stderr, "next: ")[0], done.stderr
    made = home.path / "task_hub"
    variant = made / "build" / "torch-cpu"
    about = json.loads((variant / "metadata.json").read_text())
    assert (about["name"], about["version"], about["backend"]) == ("task", 1, {"type": "cpu"}) and about["id"].isidentifier() and about["python-depends"] == []
    code = (variant / "__init__.py").read_bytes()
    assert about["digest"] == {"algorithm": "sha256", "files": {"__init__.py": base64.b64encode(hashlib.sha256(code).digest()).decode()}}
    card = (made / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: kernels\n") and about["license"] == "other" and "| this | 0.25 |" in card and "| eager | 1.5 |" in card
    assert {path.name for path in made.iterdir()} == {"README.md", "build", "evidence.json", "planish-hub.txt"}
    asked = (
        "import importlib.util, sys, torch\n"
        f"spec = importlib.util.spec_from_file_location({about['id']!r}, {str(variant / '__init__.py')!r})\n"
        f"kernel = sys.modules[{about['id']!r}] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(kernel)\n"
        "model, x = kernel.ModelNew(*kernel.get_init_inputs()), kernel.get_inputs()[0]\n"
        "with torch.no_grad():\n"
        "    assert torch.equal(model(x), kernel.Model.forward(model, x)) and model._planish.shipped.runs() == 1\n"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", asked], capture_output=True, text=True, cwd=tmp_path, env={"PATH": ""}, check=False)
    assert ran.returncode == 0, ran.stderr
    # Again it is replaced; a folder of somebody else's is not.
    assert home.run("export", "measured", "--form", "hub").returncode == 0
    (made / "planish-hub.txt").unlink()
    assert home.run("export", "measured", "--form", "hub").returncode == 2 and (made / "README.md").exists()


@pytest.fixture
def from_file(home: Home) -> Callable[[], nn.Module]:
    """Makes modules of the single file's."""
    assert home.run("export", "out", "--form", "file", "--out", "gradients.py").returncode == 0
    space: dict[str, Any] = {}
    exec((home.path / "gradients.py").read_text(), space)
    return lambda: space["load"]()


def took_the_program(model: nn.Module, *args: Any) -> tuple[bool, Any]:
    before = model._planish.shipped.runs()
    result = model(*args)
    return model._planish.shipped.runs() > before, result


def test_a_single_file_defers_gradients_that_nobody_asks_for(from_file: Callable[[], nn.Module]) -> None:
    """Timed without no_grad the program runs; asked for gradients, the original gives them, and is left alone from then on."""
    model, x = from_file(), torch.randn(4, 8)
    wanted = torch.relu(x) * model.weight + 0.5
    for _ in range(3):
        ran, result = took_the_program(model, x)
        assert ran and result.requires_grad and result.grad_fn is not None
        assert torch.equal(result, wanted)
    (expected,) = torch.autograd.grad(wanted.square().sum(), [model.weight])
    (found,) = torch.autograd.grad(result.square().sum(), [model.weight])
    torch.testing.assert_close(found, expected)
    ran, result = took_the_program(model, x)
    assert not ran
    result.sum().backward()
    torch.testing.assert_close(model.weight.grad, torch.relu(x).sum(0))
    with torch.no_grad():
        assert took_the_program(model, x)[0]


def test_deferred_gradients_of_gradients(from_file: Callable[[], nn.Module]) -> None:
    model, x = from_file(), torch.randn(4, 8)
    ran, result = took_the_program(model, x)
    (first,) = torch.autograd.grad(result.square().sum(), [model.weight], create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), [model.weight])
    assert ran
    torch.testing.assert_close(second, 2 * torch.relu(x).square().sum(0))


def test_deferred_gradients_are_of_what_was_given(from_file: Callable[[], nn.Module]) -> None:
    model, x = from_file(), torch.randn(4, 8)
    old = model.weight
    _, result = took_the_program(model, x)
    model.weight = nn.Parameter(torch.zeros(8))
    result.sum().backward()
    torch.testing.assert_close(old.grad, torch.relu(x).sum(0))
    assert model.weight.grad is None
    for change in (lambda m: m.weight.detach().add_(1), lambda m: x.add_(1)):
        other = from_file()
        _, result = took_the_program(other, x)
        change(other)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_what_is_not_deferred(from_file: Callable[[], nn.Module]) -> None:
    model, x = from_file(), torch.randn(4, 8)
    ran, result = took_the_program(model, x.clone().requires_grad_())
    assert not ran and result.requires_grad
    ran, result = took_the_program(model.requires_grad_(False), x)
    assert ran and not result.requires_grad
    trains = from_file()
    trains(x).sum().backward()
    for copied in (copy.deepcopy(trains), from_file()):
        assert took_the_program(copied, x)[0]  # that one never trained
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not took_the_program(from_file(), x)[0]
    batch = torch.randn(2, 4, 8)
    torch.testing.assert_close(torch.vmap(from_file())(batch), torch.relu(batch) * model.weight + 0.5)


def test_a_single_file_in_training_mode(tmp_path: Path) -> None:
    """Called as harnesses do, with gradients on: the program runs in C, its buffers and their versions are eager's, and so are gradients."""
    home = Home(tmp_path)
    (tmp_path / "kernels").mkdir()
    with_kernels(tmp_path / "out", training.TASK, training.DOCUMENT, build([training.KERNEL], tmp_path / "kernels"))
    home.task(training.TASK)
    done = home.run("export", "out", "--form", "file")
    assert done.returncode == 0, done.stderr
    space: dict[str, Any] = {}
    exec((home.path / "task_planish.py").read_text(), space)
    model, twin = space["ModelNew"](), space["Model"]()
    given = [torch.randn(4, 8) for _ in range(4)]
    for x in given:
        ran, result = took_the_program(model, x)
        wanted = twin(x)
        assert ran
        torch.testing.assert_close(result, wanted)
        for one, other in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(one, other)
            assert one._version == other._version
    assert model._planish.shipped.extension.hits() == len(given)
    for one, other in zip(*(torch.autograd.grad(y.square().sum(), list(m.parameters())) for y, m in ((result, model), (wanted, twin))), strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(one, other)
    code, document = home.document("verify", "task.py", "task_planish.py", "--target", "cpu", "--seeds", "1")
    assert code == 0 and document["verified"], document["message"]


def test_verify_takes_the_file(home: Home) -> None:
    assert home.run("export", "out", "--form", "file", "--out", "solution.py").returncode == 0
    code, document = home.document("verify", "task.py", "solution.py", "--target", "cpu", "--seeds", "1")
    assert code == 0 and document["verified"], document["message"]
    calls = document["program"]["calls"]
    assert document["program"] == {"calls": calls, "ran": calls, "reason": ""} and calls > len(document["cases"])


def test_verify_refuses_a_folder_that_is_not_what_was_shipped(home: Home) -> None:
    """One that was put together by hand, and one that lost its runtime library: nothing of them is loaded (tests/cheats/test_altered_folders.py has
    the rest)."""
    code, document = home.document("verify", "task.py", "out", "--target", "cpu", "--seeds", "1")
    assert code == 1 and not document["verified"] and "is not the program that ship.json names" in document["message"]
    shutil.copytree(home.path / "out" / "shipped", home.path / "crippled")
    (home.path / "crippled" / "libplanish_rt.so").unlink()
    done = home.run("verify", "task.py", "crippled", "--target", "cpu", "--seeds", "1")
    assert done.returncode == 1 and "libplanish_rt.so is missing" in done.stdout


def test_the_source_form_builds_and_its_test_passes(home: Home) -> None:
    code, document = home.document("export", "out/shipped", "--form", "source", "--out", "project")
    assert code == 0 and document["form"] == "source", document
    project = home.path / "project"
    made = subprocess.run(["make", "-C", project, "test", f"PYTHON={sys.executable}"], capture_output=True, text=True, check=False)
    assert made.returncode == 0 and "passed" in made.stdout, made.stdout + made.stderr
    # It says what a call takes here, and that it is slower where it is.
    assert re.search(r"a call takes [\d.e+-]+ ms, the original [\d.e+-]+ ms: ([\d.]+ times as fast|SLOWER by [\d.]+)", made.stdout), made.stdout
    verdict = [sys.executable, "-c", "import test_model as t; print(t.verdict(2.0, 3.0)); print(t.verdict(3.0, 2.0))"]
    said = subprocess.run(verdict, cwd=project, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0].startswith("SLOWER by 1.50") and said[1] == "1.50 times as fast"
    assert "may be slower than the original" in home.run("export", "out/shipped", "--form", "source", "--out", "project").stderr
    # It is a test that can fail: a kernel that does something else is noticed.
    source = project / "kernels" / "k0.cpp"
    source.write_text(source.read_text().replace("+ shift", "- shift"))
    broken = subprocess.run(["make", "-C", project, "test", f"PYTHON={sys.executable}"], capture_output=True, text=True, check=False)
    assert broken.returncode != 0 and "relative error" in broken.stderr


def test_the_folder_form_goes_elsewhere(home: Home, tmp_path: Path) -> None:
    done = home.run("export", "out", "--out", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy" / "module.py").exists() and (tmp_path / "copy" / "kernels" / "k0.so").exists()
    assert f"next: planish verify TASK.py {tmp_path}/copy --time" in done.stderr


def test_what_to_type_next_names_the_task_that_the_result_names(home: Home, tmp_path: Path) -> None:
    task, result = tmp_path / "my_task.py", home.path / "out" / "result.json"
    task.write_text("")
    try:
        for text, named in ((json.dumps({"task_path": str(task)}), str(task)), ('{"task_path": "/gone.py"}', "TASK.py"), ("[3]", "TASK.py"), ("{", "TASK.py")):
            result.write_text(text)
            done = home.run("export", "out", "--out", str(tmp_path / "copy"))
            assert f"next: planish verify {named} {tmp_path}/copy --time" in done.stderr, text
            shutil.rmtree(tmp_path / "copy")
    finally:
        result.unlink()


def test_a_run_is_exported_by_its_id(optimised: Optimised, tmp_path: Path) -> None:
    home, run = optimised.home, optimised.result["run"]
    code, document = home.document("export", run, "--form", "file", "--out", str(tmp_path / "small.py"))
    assert code == 0 and document["task"] == "small", document
    assert "class ModelNew(Model)" in (tmp_path / "small.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (["nothing-here"], "no_such_run", "nothing-here"),
        (["kernels"], "not_shipped", "kernels"),
        (["out", "--form", "wheel"], "usage", "--form"),
        (["out", "--form", "file", "--out", "task.py"], "in_the_way", "task.py"),
        (["out", "--out", "kernels"], "not_shipped", "kernels"),
    ],
)
def test_errors_are_named(home: Home, arguments: list[str], kind: str, words: str) -> None:
    done = home.run("export", *arguments, "--json")
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == kind and words in error["message"], error
    assert lines(done.stderr, "hint: ")


def test_a_task_with_neighbours_ships_with_them(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path, warm)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "planish_test_helper.py").write_text("import torch\n\ndef act(x):\n    return torch.relu(x) * 2\n")
    source = "from planish_test_helper import act\nimport torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return act(x)\n"
    (tmp_path / "tasks" / "task.py").write_text(source + "\ndef get_inputs():\n    return [torch.randn(4, 8)]\n")
    done = home.run("optimize", "tasks/task.py", "--target", "cpu", "--budget", "3s", "--evals", "1", "--baselines", "none", "--out", "out")
    assert done.returncode in (0, 1), done.stderr
    shutil.move(tmp_path / "out" / "shipped", tmp_path / "moved")
    shutil.rmtree(tmp_path / "tasks")
    code = "import sys; sys.path.insert(0, 'moved'); import torch, module; x = torch.randn(4, 8); print(torch.equal(module.load()(x), torch.relu(x) * 2))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "True", ran.stderr
    refused = home.run("export", "moved", "--form", "file")
    assert refused.returncode == 2 and "planish_test_helper.py" in refused.stderr


def test_a_run_that_gained_nothing_exports_nothing_unasked(tmp_path: Path) -> None:
    home = shipped_by_hand(tmp_path)
    manifest = tmp_path / "out" / "shipped" / "ship.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"mode": "baseline"}))
    for form in ("folder", "file"):
        code, document = home.document("export", "out", "--form", form, "--out", f"made-{form}")
        assert code == 1 and document["exported"] is None
        assert not (tmp_path / f"made-{form}").exists()
    assert "nothing to export" in home.run("export", "out").stdout
    code, document = home.document("export", "out", "--form", "folder", "--original", "--out", "original")
    assert code == 0 and (Path(document["exported"]) / "ship.json").exists(), document


def test_a_run_that_gained_nothing_and_kept_no_folder_says_so(optimised: Optimised, tmp_path: Path) -> None:
    """As planish.optimize leaves it: nothing was moved or deleted."""
    store = tmp_path / "store.db"
    shutil.copy(optimised.home.path / "data" / "planish" / "store.db", store)
    with sqlite3.connect(store) as database:
        database.execute("UPDATE runs SET outcome='no_improvement', out_folder='/gone'")
    done = optimised.home.run("export", "latest", "--store", str(store))
    assert done.returncode == 2 and "nothing to export: run " in lines(done.stderr, "error: ")[0]
    with sqlite3.connect(store) as database:
        database.execute("UPDATE runs SET outcome='improved'")
    assert "moved or deleted" in optimised.home.run("export", "latest", "--store", str(store)).stderr
