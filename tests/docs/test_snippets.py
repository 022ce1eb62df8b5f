"""The snippets of the documents run, and have types."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from snippets import ROOT, Page, pages, read_page, shortened

sys.path.insert(0, str(ROOT / "tests" / "cli"))

from command import Home
from serving import asked_by_all

PAGES = pages()
#: An environment that Planish was installed into, as its Python's path: the snippets run there, as they do for who has a wheel and no checkout.
INSTALLED = os.environ.get("PLANISH_SNIPPETS_PYTHON", "")
PYTHON = INSTALLED or sys.executable
BUILD = Path(os.environ.get("PLANISH_BUILD", ROOT / "build"))
TASKS = ("examples",)  # what pages name by its path in the repository


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of commands that ask a warm evaluator: torch is imported once for all pages. What is installed asks its own."""
    if INSTALLED:
        yield {}
        return
    with asked_by_all(Home(tmp_path_factory.mktemp("warm"))) as settings:
        yield settings


def environment(folder: Path, searches: bool = True) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PLANISH_", "XDG_"))}
    kept |= {"HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"} | ({} if searches else {"PLANISH_INSIDE": "1"})
    if INSTALLED:
        return kept | {"PATH": f"{Path(INSTALLED).parent}:{os.environ['PATH']}"}
    path = f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT / "python"), "PLANISH_PYTHON": sys.executable, "PLANISH_BIN": str(BUILD / "bin" / "planish")}


def lay_out(page: Page, folder: Path) -> None:
    (folder / "home").mkdir()
    for name in TASKS:
        (folder / name).symlink_to(ROOT / name)
    for name, text in page.files.items():
        (folder / name).write_text(text)


def run(command: list[str], folder: Path, warm: dict[str, str], searches: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment(folder, searches) | warm, capture_output=True, text=True, timeout=900, check=False)


def test_pages_for_users_have_snippets() -> None:
    assert {"README.md", "docs/first_model.md", "docs/kernel_by_hand.md", "docs/deploy.md", "docs/python.md"} <= {page.name for page in PAGES}
    assert sum(len(page.programs) for page in PAGES) >= 5 and sum(len(page.commands) for page in PAGES) >= 8


PROGRAMS = [(page, needed) for page in PAGES for needed in page.programs]


@pytest.mark.parametrize(("page", "needed"), PROGRAMS, ids=[f"{page.name} {needed}".strip() for page, needed in PROGRAMS])
def test_programs_run(page: Page, needed: str, warm: dict[str, str], tmp_path: Path) -> None:
    ask = f"import importlib.util as u, sys; sys.exit(u.find_spec({needed!r}) is None)"
    if needed and subprocess.run([PYTHON, "-c", ask], check=False).returncode != 0:
        pytest.skip(f"{needed} is not installed")
    lay_out(page, tmp_path)
    (tmp_path / "page.py").write_text(shortened(page.programs[needed]))
    done = run([PYTHON, "page.py"], tmp_path, warm, page.searches)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("page", [page for page in PAGES if page.commands], ids=lambda p: p.name)
def test_commands_run(page: Page, warm: dict[str, str], tmp_path: Path) -> None:
    lay_out(page, tmp_path)
    gained = True
    for command in page.commands:
        words = shlex.split(shortened(command))
        if words[:2] == ["planish", "export"] and not gained:
            words.append("--original")
        done = run(words, tmp_path, warm)
        allowed = (0, 1) if words[:2] == ["planish", "optimize"] else (0,)  # 1: nothing was gained, which hangs on the machine
        gained = gained and done.returncode == 0
        assert done.returncode in allowed, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


@pytest.mark.skipif(bool(INSTALLED), reason="the lines are for a checkout")
def test_a_shell_uses_a_checkout_after_the_lines_of_the_first_page(tmp_path: Path) -> None:
    """The command and the module, from any folder."""
    page = (ROOT / "docs" / "first_model.md").read_text()
    shown = [line.strip() for line in page.splitlines() if line.startswith(("    . ", "    export "))]
    assert len(shown) == 2
    for name, place in ((".venv", Path(sys.prefix)), ("build", BUILD.absolute()), ("python", ROOT / "python")):
        (tmp_path / name).symlink_to(place)
    (tmp_path / "elsewhere").mkdir()
    asked = ["cd elsewhere", "planish --version", "python -c 'import planish; print(planish.optimize.__name__)'"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PLANISH_", "PYTHON"))}
    done = subprocess.run(["sh", "-ec", "\n".join([*shown, *asked])], cwd=tmp_path, env=kept, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("planish ") and done.stdout.endswith("optimize\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_is_not_run_is_compiled(page: Page, tmp_path: Path) -> None:
    for number, code in enumerate(page.sketches):
        compile(code, f"{page.name}, sketch {number + 1}", "exec")
    for name, text in page.files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
        if name.endswith(".cu"):
            compile_cuda(text, name)


def compile_cuda(text: str, name: str) -> None:
    """With NVRTC, as Planish does it, where there is one; it needs no GPU."""
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    import ctypes

    import emit_check

    try:
        nvrtc = emit_check.load_nvrtc()
    except SystemExit:
        pytest.skip(f"NVRTC is not installed: {name} was not compiled")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
    failed = nvrtc.nvrtcCompileProgram(program, 1, options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert failed == 0, log.value.decode()


def test_wrong_snippets_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text('text\n```python\nx = 1\n```\n<!-- setup\ny = 2\n-->\n```python\nassert x == y\n```\n```console\n$ false\nout\n```\n'
                    '```cuda title="a.cu"\nextern "C" __global__ void f( {}\n```\n<!-- snippet: sketch -->\n```python\ndef\n```\n')  # fmt: skip
    page = read_page(path)
    lines = page.programs[""].splitlines()
    assert lines[2] == "x = 1" and lines[8] == "assert x == y" and page.commands == ["false"]
    for number, (test, said) in enumerate(((lambda p, f: test_programs_run(p, "", {}, f), "line 9"), (lambda p, f: test_commands_run(p, {}, f), "false"))):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(AssertionError, match=said):
            test(page, tmp_path / str(number))
    with pytest.raises(SyntaxError):
        test_what_is_not_run_is_compiled(page, tmp_path)
    page.sketches = []
    with pytest.raises(AssertionError, match="error"):
        test_what_is_not_run_is_compiled(page, tmp_path)
