"""Every kind of bad input through the built command: exit code, `error:` line, hint, error document, and the store as it was."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Home, lines

#: What fails before anything is compared needs no process that compiles for it.
NO_TIMES = ("--target", "cpu", "--baselines", "none")

HEAD = "import torch\nfrom torch import nn\n"
GOOD = (
    HEAD
    + """
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1

def get_inputs():
    return [torch.randn(4, 8)]
"""
)


def model(forward: str, inputs: str = "[torch.randn(4, 8)]", init: str = "") -> str:
    """A task with this body of forward."""
    body = forward.replace("\n", "\n        ")
    start = f"    def __init__(self{init}):\n        super().__init__()\n        self.drop = nn.Dropout(0.5)\n"
    forward = f"    def forward(self, x):\n        {body}\n"
    return f"{HEAD}import time\n\nclass Model(nn.Module):\n{start}{forward}\ndef get_inputs():\n    return {inputs}\n"


@dataclass
class Case:
    """One bad task file: what it holds, the exit code, the error's kind, and words that the message must have."""

    source: str | bytes
    kind: str
    words: tuple[str, ...] = ()
    code: int = 2
    #: Seconds the task may take, where it is one that never ends.
    timeout: int = 0
    #: By `optimize`; all others are tasks of one suite, whose processes import torch once.
    alone: bool = False


CASES: dict[str, Case] = {
    "not_python": Case("this is :: no Python\n", "not_python", ("not Python",), alone=True),
    "latin_1": Case(b"name = 'caf\xe9'\n", "not_python", ("not Python", "utf-8")),
    "binary": Case(b"\x00\x01\xff\xfe" * 20, "not_python", ("not Python",)),
    "exits": Case("import sys\nsys.exit(0)\n", "import_exited", ("exits when imported",)),
    "exits_hard": Case("import os\nos._exit(0)\n", "task_exited", ("importing it",), alone=True),
    "crashes": Case("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "task_crashed", ("importing it",), alone=True),
    "raises": Case("raise RuntimeError('no way')\n", "import_failed", ("raised when imported", "no way")),
    "hangs": Case("import time\nwhile True:\n    time.sleep(1)\n", "task_hangs", ("importing it", "6 s"), timeout=6, alone=True),
    "missing_import": Case("import a_package_that_is_not_there\n", "missing_import", ("a_package_that_is_not_there",), code=3, alone=True),
    "no_model": Case("x = 1\n", "no_model", ("class Model",)),
    "no_get_inputs": Case(GOOD.split("def get_inputs")[0], "no_inputs", ("get_inputs",)),
    "get_inputs_raises": Case(model("return x", "1 / 0"), "inputs_failed", ("get_inputs() raised", "ZeroDivisionError")),
    "constructor": Case(model("return x", init=", width"), "init_failed", ("width",)),
    "forward_raises": Case(model("raise ValueError('broken in here')"), "forward_failed", ("forward raised", "broken in here")),
    "forward_hangs": Case(model("while True:\n    time.sleep(1)"), "task_hangs", ("forward",), timeout=12, alone=True),
    "no_tensors": Case(model("return 'a text'"), "not_tensors", ("forward returns str",)),
    "data_dependent": Case(model("return x[x > 0]"), "data_dependent", ("sizes that depend on the values",)),
    "unused draw": Case(model("torch.rand(3)\nreturn x * 2"), "random_ops", ("nothing uses",)),
    "own generator": Case(model("return x + torch.randn(x.shape, generator=torch.Generator())"), "random_ops", ("torch.Generator of its own",)),
    "too_large": Case(model("return x * 2", "[torch.rand(1 << 44)]"), "out_of_memory", ("bytes",), code=3, alone=True),
    "nan": Case(model("return torch.log(-1 - x.abs())"), "reference_nan", ("NaN",)),
}


@pytest.fixture(scope="session")
def homes(warm: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Home, subprocess.CompletedProcess[str]]]:
    """Those that are alone, two at a time, by the warm evaluator; the rest as a suite, under `suite`. Of the former nobody writes into their store."""
    stored = tmp_path_factory.mktemp("stored")

    def attempt(folder: Path, name: str, case: Case) -> tuple[Home, subprocess.CompletedProcess[str]]:
        home = Home(folder, warm, stored)
        write(folder, name, case)
        limit = ["--task-timeout", f"{case.timeout}s"] if case.timeout else []
        return home, home.run("optimize", f"{name}.py", *NO_TIMES, "--budget", "1s", "--json", *limit)

    def together(folder: Path) -> tuple[Home, subprocess.CompletedProcess[str]]:
        home = Home(folder)
        (folder / "tasks").mkdir()
        for name, case in CASES.items():
            if not case.alone:
                write(folder / "tasks", name, case)
        return home, home.run("suite", "tasks", *NO_TIMES, "--budget", "1s", "--out", "results")

    with ThreadPoolExecutor(2) as pool:
        suite = pool.submit(together, tmp_path_factory.mktemp("suite"))
        futures = {name: pool.submit(attempt, tmp_path_factory.mktemp(name), name, case) for name, case in CASES.items() if case.alone}
        return {name: future.result() for name, future in ({"suite": suite} | futures).items()}


def write(folder: Path, name: str, case: Case) -> None:
    (folder / f"{name}.py").write_bytes(case.source if isinstance(case.source, bytes) else case.source.encode())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.alone])
def test_bad_task(homes: dict[str, tuple[Home, subprocess.CompletedProcess[str]]], name: str) -> None:
    """As a person and as a program would run it."""
    case, (home, done) = CASES[name], homes[name]
    assert done.returncode == case.code, done.stderr
    said = lines(done.stderr, "error: ")
    assert len(said) == 1, done.stderr
    assert lines(done.stderr, "hint: "), done.stderr
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert document["error"]["message"] == said[0].removeprefix("error: ")
    names_what_is_wrong(case, name, document["error"])
    assert "Traceback" not in done.stderr + done.stdout
    assert home.store_bytes() == {}
    assert not (home.path / "planish-out").exists()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.alone])
def test_bad_task_of_a_suite(homes: dict[str, tuple[Home, subprocess.CompletedProcess[str]]], name: str) -> None:
    home, done = homes["suite"]
    rows = {row["task"]: row for row in json.loads((home.path / "results" / "suite.json").read_text())["tasks"]}
    assert rows[name]["outcome"] == "failed"
    names_what_is_wrong(CASES[name], name, rows[name]["error"])
    assert f"({CASES[name].kind})" in next(line for line in done.stderr.splitlines() + done.stdout.splitlines() if line.strip().startswith(f"{name}: "))
    assert "Traceback" not in done.stderr + done.stdout


def test_a_suite_of_bad_tasks_leaves_no_run(homes: dict[str, tuple[Home, subprocess.CompletedProcess[str]]]) -> None:
    home, done = homes["suite"]
    assert done.returncode != 0
    assert home.store_bytes() == {}


def names_what_is_wrong(case: Case, name: str, error: dict[str, str]) -> None:
    assert error["kind"] == case.kind
    for word in (f"{name}.py", *case.words):
        assert word in error["message"], error
    assert error["hint"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def refused(done: subprocess.CompletedProcess[str], kind: str, code: int, *words: str) -> str:
    """Asserts an error as a user sees it; the message."""
    assert done.returncode == code, done.stderr
    assert lines(done.stderr, "hint: "), done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["error"]["kind"] == kind, document
    message: str = document["error"]["message"]
    assert f"error: {message}" in done.stderr
    for word in words:
        assert word in message + done.stderr, message
    return message


def test_a_flood_on_stdout_is_no_trouble(warm: dict[str, str], home: Home) -> None:
    """A file that prints megabytes on both streams when imported, and then fails: its noise is not ours."""
    flood = "import os\nfor _ in range(400):\n    os.write(1, b'x' * 65536)\n    os.write(2, b'y' * 65536)\n"
    task = home.task(flood + "x = 1\n", "flood.py")
    done = home.run("optimize", task, *NO_TIMES, "--json", env=warm)
    refused(done, "no_model", 2, "flood.py")
    assert len(done.stdout) + len(done.stderr) < 10_000


def test_a_folder_that_is_no_task(home: Home) -> None:
    (home.path / "folder").mkdir()
    done = home.run("optimize", "folder", *NO_TIMES, "--json")
    assert done.returncode == 2
    assert "folder" in json.loads(done.stdout)["error"]["message"]
    assert lines(done.stderr, "hint: ")
    assert home.store_bytes() == {}


def as_another_user(home: Home) -> dict[str, object]:
    """Options of a command that permissions hold: as another user where this is root."""
    if os.geteuid() != 0:
        return {}
    for folder in (home.path, *home.path.parents):
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o005 and "pytest" in str(folder):
            folder.chmod(0o755)
    return {"user": 65534, "group": 65534}


def test_a_task_that_may_not_be_read(home: Home) -> None:
    (home.path / home.task(GOOD, "secret.py")).chmod(0)
    done = home.run("optimize", "secret.py", "--target", "cpu", "--json", **as_another_user(home))
    refused(done, "unreadable", 2, "secret.py", "Permission denied")
    assert home.store_bytes() == {}


def test_verbose_shows_the_traceback_of_our_own_faults(warm: dict[str, str], home: Home) -> None:
    """An exception that nobody foresaw has a traceback, with --verbose only."""
    # A metaclass whose class check raises is nothing that a task loader foresees.
    source = HEAD + "class Odd(type(nn.Module)):\n    @property\n    def __mro__(cls): raise KeyError('odd')\n"
    source += "class Model(nn.Module):\n    def forward(self, x): return x\n    def named_buffers(self, *a, **k): raise LookupError('odd')\n"
    source += "def get_inputs(): return [torch.randn(2)]\n"
    task = home.task(source, "odd.py")
    quiet = home.run("optimize", task, *NO_TIMES, env=warm)
    assert quiet.returncode == 2 and "Traceback" not in quiet.stderr and "odd.py" in quiet.stderr
    loud = home.run("optimize", task, *NO_TIMES, "-v", env=warm)
    assert "Traceback" in loud.stderr and "LookupError" in loud.stderr


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg"), reason="there is a GPU")
def test_cuda_without_a_gpu(home: Home) -> None:
    task = home.task(GOOD)
    message = refused(home.run("optimize", task, "--target", "cuda", "--json"), "no_device", 3)
    assert "GPU" in message
    assert home.store_bytes() == {}


def test_without_a_compiler(home: Home) -> None:
    task = home.task(GOOD)
    done = home.run("optimize", task, *NO_TIMES, "--json", env={"PLANISH_CXX": "/no/such/compiler"})
    refused(done, "no_compiler", 3, "/no/such/compiler")


def test_a_store_of_a_newer_version_stays_as_it_was(home: Home) -> None:
    task = home.task(GOOD)
    store = home.path / "new.db"
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA user_version=99")
    before = store.read_bytes()
    refused(home.run("optimize", task, "--target", "cpu", "--json", "--store", str(store)), "store_newer", 2, "new.db")
    assert store.read_bytes() == before
    assert [p.name for p in home.path.glob("new.db*")] == ["new.db"]
    assert not any((home.path / "planish-out").glob("*"))


def test_a_file_that_is_no_store(home: Home) -> None:
    task = home.task(GOOD)
    store = home.path / "text.db"
    store.write_text("this is a text, and long enough to be read as the head of a data base " * 20)
    before = store.read_bytes()
    refused(home.run("optimize", task, "--target", "cpu", "--json", "--store", str(store)), "store_corrupt", 2, "text.db")
    assert store.read_bytes() == before


def test_an_output_folder_that_cannot_be_made(home: Home) -> None:
    task = home.task(GOOD)
    (home.path / "a_file").write_text("")
    done = home.run("optimize", task, *NO_TIMES, "--json", "--out", "a_file/below")
    assert done.returncode in (2, 3)
    assert "a_file" in json.loads(done.stdout)["error"]["message"]
    assert lines(done.stderr, "hint: ")
    assert home.store_bytes() == {}


def test_a_cache_that_cannot_be_written(home: Home) -> None:
    """As another user where this is root, whom permissions do not stop."""
    task = home.task(GOOD)
    locked = home.path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    places = {"XDG_CACHE_HOME": str(locked), "HOME": "/nonexistent"}
    done = home.run("optimize", task, "--target", "cpu", "--json", env=places, **as_another_user(home))
    refused(done, "permission_denied", 3, str(locked))
    assert not any(locked.iterdir())


@contextlib.contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    """A file system of this size, or the test is skipped where one cannot be mounted."""
    at.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(at)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("cannot mount a small file system here")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], capture_output=True, check=False)


def fill(folder: Path) -> None:
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


@pytest.mark.parametrize("what", ["store", "out", "cache", "cache_filled_by_compiling"])
def test_a_full_disk(home: Home, what: str) -> None:
    task = home.task(GOOD)
    with small_disk(home.path / "small", "256k") as disk:
        fill(disk)
        if what == "cache_filled_by_compiling":  # room for a beginning, none for a binary
            os.truncate(disk / "filler", (disk / "filler").stat().st_size - 8192)
        places = {"store": ["--store", str(disk / "store.db")], "out": ["--out", str(disk / "out")], "cache": [], "cache_filled_by_compiling": []}
        env = {"XDG_CACHE_HOME": str(disk / "cache")} if what.startswith("cache") else {}
        done = home.run("optimize", task, *NO_TIMES, "--budget", "30s", "--evals", "5", "--json", *places[what], env=env)
    refused(done, "disk_full", 3, str(disk))


def test_a_read_only_store(home: Home) -> None:
    task = home.task(GOOD)
    with small_disk(home.path / "small", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
        refused(home.run("optimize", task, *NO_TIMES, "--json", "--store", str(disk / "store.db")), "store_unwritable", 3, str(disk))


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"]] + [["optimize", "task.py", *flag] for flag in (["--budget", "-1s"], ["--accuracy", "exact"], ["--task-timeout", "0s"])],
)
def test_bad_flags(home: Home, arguments: list[str]) -> None:
    home.task(GOOD)
    refused(home.run(*arguments, "--json"), "usage", 2)
    assert home.store_bytes() == {}
