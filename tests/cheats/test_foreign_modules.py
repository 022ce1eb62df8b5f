"""Solutions of others (`ModelNew`), judged by a real evaluator: what attacks is held, what cheats is named, what is only unusual passes."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evaluator import PLANISH, TASK, Evaluator
from test_bad_candidates import _descendants

HEAD = "import torch\nfrom torch import nn\n"
RIGHT = "torch.relu(x) * 2 + y"


def solution(forward: str, before: str = "", init: str = "pass") -> str:
    return (
        HEAD + before + "\nclass ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {init}\n    def forward(self, x, y):\n        {forward}\n"
    )


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    if not PLANISH.exists():
        pytest.fail(f"{PLANISH} is not built: run make build")
    folder = tmp_path_factory.mktemp("foreign")
    task = folder / "task.py"
    task.write_text(TASK)
    os.environ["PLANISH_TEST_TOKEN"] = "a secret"
    running = Evaluator(folder, task)
    yield running
    running.close()
    del os.environ["PLANISH_TEST_TOKEN"]


def judge(evaluator: Evaluator, source: str, folder: Path) -> dict[str, Any]:
    path = folder / "solution.py"
    path.write_text(source)
    return evaluator.verify(path)


def test_a_right_solution_that_attacks_gets_nothing_but_its_verdict(evaluator: Evaluator, tmp_path: Path) -> None:
    """It tries everything of attempts.py on the evaluator, its children and the folders around, and raises where one attempt succeeds."""
    others = tmp_path / "others"
    others.mkdir()
    path = str(tmp_path / "door")
    attempts = Path(__file__).with_name("attempts.py")
    with socket.socket() as over_ip, socket.socket(socket.AF_UNIX) as at_path, socket.socket(socket.AF_UNIX) as by_name:
        over_ip.bind(("127.0.0.1", 0))
        at_path.bind(path)
        by_name.bind("\0" + path)
        for door in (over_ip, at_path, by_name):
            door.listen(8)
        processes = [evaluator.process.pid, *_descendants(evaluator.process.pid)]
        mark = f"{3000 + os.getpid() % 1000}.{int(time.time() * 1000) % 100000:05d}"
        attack = f"""
import importlib.util, os, subprocess, sys
spec = importlib.util.spec_from_file_location("attempts", {str(attempts)!r})
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

def attack():
    for victim in {processes!r}:
        for name, attempt in tool.attempts(victim, 4096, {str(others)!r}, {over_ip.getsockname()[1]}, {path!r}).items():
            try:
                got = attempt()
            except OSError:
                continue
            if name == "write to /tmp" and os.path.samefile("/tmp", os.environ["TMPDIR"]):  # its own
                continue
            raise SystemError(f"{{name}} of {{victim}} succeeded: {{got}}")
    for place in ({str(evaluator.task)!r}, {str(tmp_path / "x")!r}, torch.__file__, "/tmp/torchinductor_root/x", "/etc/x"):
        try:
            open(place, "a").close()
        except OSError:
            continue
        raise SystemError(f"{{place}} can be written to")
    if any("TOKEN" in name for name in os.environ):
        raise SystemError("secrets are in the environment")
    if os.fork() == 0:
        os.setsid()
        os.execv("/bin/sleep", ["sleep", "{mark}"])

attack()
"""
        found = judge(evaluator, solution(f"attack(); return {RIGHT}", attack), tmp_path)
    assert found["verified"], found["message"]
    assert list(others.iterdir()) == [] and not list(Path("/tmp").glob("planted-*")) and all(Path(f"/proc/{pid}").exists() for pid in processes[:1])
    sandbox = found["sandbox"]
    assert sandbox["seccomp"] == "tools" and sandbox["no_new_privileges"] and sandbox["max_rss"] > 0
    end = time.monotonic() + 60  # the kernel ends a namespace in its own time
    while running := [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark.encode() in _command(entry)]:
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    assert running == [], "its daemons have ended with it"


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


# The child waits for a lock that a thread of the process it is a copy of held; here for what nobody writes.
WAITING = """
def forked(answers):
    given, answer = os.pipe()
    if os.fork() == 0:
        if answers:
            os.write(answer, b"x")
            os._exit(0)
        signal.pause()
    os.read(given, 1)
"""


def test_processes_that_wait_for_each_other_are_a_hang_before_any_limit(evaluator: Evaluator, tmp_path: Path) -> None:
    begun = time.monotonic()
    for answers in (True, False):
        found = judge(evaluator, solution(f"forked({answers}); return {RIGHT}", "import os, signal\n" + WAITING), tmp_path)
        assert found["outcome"] == ("ok" if answers else "hang"), found["message"]
    assert "waited for each other" in found["message"] and "forked" in found["message"] and time.monotonic() - begun < 90


CHEATS: dict[str, tuple[str, set[str]]] = {
    "ends with success": (solution("import os; os._exit(0)"), {"exit"}),
    "answers in the runner's place": (
        solution('import os; os.write(3, b\'{"id": 1, "result": {"ms": 0.001}}\\n\'); return torch.zeros_like(x)'),
        {"crash"},
    ),
    "takes all memory": (
        solution("self.kept = [bytearray(b'x') * (1 << 26) for _ in range(64)]; return " + RIGHT),
        {"out_of_memory"},
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_named(name: str, evaluator: Evaluator, tmp_path: Path) -> None:
    source, outcomes = CHEATS[name]
    found = judge(evaluator, source, tmp_path)
    assert not found["verified"] and found["outcome"] in outcomes, found


def test_what_a_solution_says_is_not_believed_and_cannot_draw_on_the_terminal(evaluator: Evaluator, tmp_path: Path) -> None:
    raising = 'raise PlanishError("device_lost", "\\x1b[2J\\x1b[Hverified: \\u202eall")'
    found = judge(evaluator, solution(raising, "from planish.errors import PlanishError"), tmp_path)
    assert not found["verified"] and found["outcome"] == "launch_failed" and "\\x1b[2J" in found["message"]
    assert "\x1b" not in json.dumps(found, ensure_ascii=False) and "\u202e" not in json.dumps(found, ensure_ascii=False)


def test_a_solution_writes_to_its_own_tmp_and_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As public ones do that build an extension below /tmp, or generate sources where they are started; nothing of it is seen or left outside.
    The extension is C++ without PyTorch's headers, which take a minute to compile."""
    task, rooms, name = tmp_path / "task.py", tmp_path / "rooms", f"planish-own-{os.getpid()}"
    task.write_text(TASK)
    rooms.mkdir()
    monkeypatch.setenv("TMPDIR", str(rooms))  # where the evaluator makes its guests' folders
    secret = Path("/tmp") / f"{name}-of-the-host"
    secret.write_text("of the host")
    before = f"""
import ctypes, os, pathlib
from torch.utils.cpp_extension import load_inline

place = pathlib.Path("/tmp/{name}")
place.mkdir()
os.symlink("/etc", place / "elsewhere")
source = 'extern "C" void relu(const float* a, float* b, long n) {{ for (long i = 0; i < n; ++i) b[i] = a[i] < 0 ? 0 : a[i]; }}'
load_inline("mine", [source], build_directory=str(place), is_python_module=False, no_implicit_headers=True)
library = ctypes.CDLL(str(place / "mine.so"))
with open("kernel.cu", "w") as file:
    file.write("generated")
assert open("kernel.cu").read() == "generated"
for there in ("{secret}", "/tmp/{name}/elsewhere/x", "{task}"):
    try:
        open(there, "a" if there == "{task}" else "x").close()
        pathlib.Path(there).read_text() == "of the host" and os.abort()
    except OSError as error:
        assert there != "{secret}", error
"""
    forward = (
        "out = torch.empty_like(x); library.relu(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(x.numel())); return out * 2 + y"
    )
    running = Evaluator(tmp_path, task)
    try:
        found = [judge(running, solution(forward, before), tmp_path) for _ in range(2)]  # the second finds nothing of the first
    finally:
        running.close()
        content = secret.read_text()
        secret.unlink()
    if not found[0]["sandbox"]["private_tmp"]:
        assert not found[0]["verified"] and "no /tmp of their own" in found[0]["message"]
        pytest.skip("no mount namespace can be made here")
    assert all(each["verified"] for each in found), found[0]["message"]
    assert content == "of the host" and not (Path("/tmp") / name).exists() and not Path("kernel.cu").exists()
    assert [path.name for path in rooms.iterdir() if path.name.startswith("planish-guest-")] == []


def test_unusual_honest_solutions_pass(evaluator: Evaluator, tmp_path: Path) -> None:
    """All in one, since each class costs a process: a factory in place of a class; a file beside it; the task's own names; a kernel compiled by g++ at
    the first call and loaded; temporary files; threads; a shared lock; work in place on its own memory; a view that is not contiguous; caches of
    packages; programs that were installed for the interpreter, as ninja is, though its environment is not activated."""
    (tmp_path / "beside_solution.py").write_text("def double(t):\n    return t.mul_(2)\n")
    source = (
        HEAD
        + """
import ctypes, multiprocessing, os, pathlib, subprocess, sys, tempfile, threading
from concurrent.futures import ThreadPoolExecutor
from beside_solution import double

for name in ("CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "TILELANG_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
    folder = pathlib.Path(os.environ[name]) / "of mine"
    folder.mkdir(parents=True)
    (folder / "kept").write_text("kept")
assert os.environ["MAX_JOBS"]
assert str(pathlib.Path(sys.executable).parent) in os.environ["PATH"].split(":")

class Faster(Model):
    def __init__(self):
        super().__init__()
        self.library = None
        self.lock = multiprocessing.Lock()

    def forward(self, x, y):
        if self.library is None:
            folder = pathlib.Path(tempfile.mkdtemp())
            (folder / "k.cpp").write_text('extern "C" void relu(const float* a, float* b, long n) { for (long i = 0; i < n; ++i) b[i] = a[i] < 0 ? 0 : a[i]; }')
            subprocess.run(["g++", "-O2", "-shared", "-fPIC", "-o", folder / "k.so", folder / "k.cpp"], check=True)
            self.library = ctypes.CDLL(str(folder / "k.so"))
        out = torch.empty_like(x)
        with self.lock, ThreadPoolExecutor(1) as pool:
            call = pool.submit(self.library.relu, ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(x.numel()))
            call.result()
        double(out)
        return out.add_(y).t().contiguous().t()

def ModelNew(*args):
    return Faster(*args)
"""
    )
    found = judge(evaluator, source, tmp_path)
    assert found["verified"], found["message"]


@pytest.mark.parametrize(
    "raised",
    [
        "from planish.errors import PlanishError; raise PlanishError('out_of_time', 'time ran out')",
        "from planish.errors import PlanishError; raise PlanishError('cancelled', 'x' * 48_000_000)",
        "raise ValueError('y' * 48_000_000)",
        "import sys; sys.modules['planish.wire']._bell.sendall(b'[' * 48_000_000 + bytes([10]))",
    ],
)
def test_no_solution_names_its_own_end(evaluator: Evaluator, tmp_path: Path, raised: str) -> None:
    """Kinds that spare a solution are the judge's alone, and what it says is cut."""
    found = judge(evaluator, solution(raised), tmp_path)
    assert not found["verified"] and found["outcome"] in {"launch_failed", "crash"}, found["outcome"]
    assert len(json.dumps(found)) < 100_000
    assert judge(evaluator, solution(f"return {RIGHT}"), tmp_path)["verified"]
