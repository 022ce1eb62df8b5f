"""The snippets of the documents, and the calls in typed_calls.py, as mypy and pyright see them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import ROOT, pages

PYRIGHT = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "docs-venv" / "bin" / "pyright"
CALLS = Path(__file__).parent / "typed_calls.py"
#: In place of the line after them a caller's mistake, which a checker is to name.
WRONG = {
    "a keyword that there is not": 'planish.optimize(Net(), x, budgett="5s")',
    "an argument of another type": 'function.module("x")',
    "an argument that there is not": "searched(x, columns=2)",
    "a result of another type": "number: int = waits(x)",
    "an attribute of another type": "text: str = net.module.width",
}


def check(checker: str, *files: Path) -> tuple[int, str]:
    environment = os.environ | {"MYPYPATH": str(ROOT / "python"), "PYTHONPATH": str(ROOT / "python"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    names = [str(file) for file in files]
    command = [str(PYRIGHT), "--pythonpath", sys.executable, *names]
    if checker == "mypy":
        cache = str(Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "mypy-snippets")
        command = [sys.executable, "-m", "mypy", "--config-file", "", "--cache-dir", cache, "--check-untyped-defs", "--ignore-missing-imports", *names]
    done = subprocess.run(command, cwd=files[0].parent, capture_output=True, text=True, env=environment, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=["mypy", "pyright"])
def checker(request: pytest.FixtureRequest) -> str:
    if request.param == "pyright" and not PYRIGHT.exists():
        pytest.skip("pyright is not installed (make setup-docs)")
    return str(request.param)


def test_snippets_and_calls_have_types(checker: str, tmp_path: Path) -> None:
    files = [tmp_path / CALLS.name]
    files[0].write_text(CALLS.read_text())
    for page in pages():
        for needed, program in page.programs.items():
            # pyright finds mistakes in the types of others, as transformers' `generate`, which are not ours.
            if needed and (checker == "pyright" or importlib.util.find_spec(needed) is None):
                continue
            files.append(tmp_path / f"{page.path.stem.lower()}_page{'_' if needed else ''}{needed}.py")
            files[-1].write_text(program)
    assert len(files) >= 4
    code, said = check(checker, *files)
    assert code == 0, said


def test_mistakes_are_named(checker: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    good = CALLS.read_text()
    file.write_text(good + "".join(f"{line}\n" for line in WRONG.values()))
    _, said = check(checker, file)
    first = good.count("\n") + 1
    for number, what in enumerate(WRONG):
        assert f"wrong.py:{first + number}:" in said, f"{what}: {said}"
