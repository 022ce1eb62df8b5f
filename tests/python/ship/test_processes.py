"""Shipped modules in processes that they did not start: forked workers, servers with threads of their own, daemons, small stacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import parallel
import pytest

HERE = Path(__file__).parent
PACKAGE = HERE.parents[2] / "python"

BEFORE = """
import json, os, signal, sys, threading, time
import torch
sys.path[:0] = [HERE, PACKAGE]
import parallel
from pathlib import Path
from planish.ship import load
folder = Path(FOLDER)
model, x = load(folder), torch.randn(parallel.SIZE)
model.requires_grad_(False)
model(x)
wanted = (x * 2).numpy()
def teams():
    before = model._planish.shipped.runs()
    assert (model(x).numpy() == wanted).all()  # not by torch, whose threads a fork does not survive
    assert model._planish.shipped.runs() == before + 1, model._planish.why
    return parallel.team(folder)
seen = {}
"""


def run(folder: Path, script: str, **environment: str) -> dict[str, Any]:
    """What a script puts into `seen`, in a process of its own that has a minute."""
    head = f"HERE, PACKAGE, FOLDER = {str(HERE)!r}, {str(PACKAGE)!r}, {str(folder)!r}\n"
    known = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", head + BEFORE + script + "\nprint(json.dumps(seen))"],
        capture_output=True, text=True, env={**known, **environment}, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module", params=["in C", "in Python"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parallel.folder(tmp_path_factory.mktemp("parallel"), request.param == "in C")


def test_threads_follow_torch_at_each_call(folder: Path) -> None:
    seen = run(
        folder,
        """
for count in (3, 1, 2, 8):
    torch.set_num_threads(count)
    seen[str(count)] = teams(), torch.get_num_threads()
torch.set_num_threads(2)
def work():
    seen["a new thread"] = teams(), torch.get_num_threads()
    torch.set_num_threads(1)
    seen["its own setting"] = teams(), torch.get_num_threads()
thread = threading.Thread(target=work)
thread.start(); thread.join()
seen["the main thread"] = teams(), torch.get_num_threads()
with open("/proc/self/maps") as maps:
    seen["libraries"] = sorted({line.split()[-1] for line in maps if "libgomp" in line})
""",
    )
    libraries = seen.pop("libraries")
    assert seen["3"] == [3, 3] and seen["1"] == [1, 1] and seen["2"] == [2, 2] and seen["8"] == [4, 8]
    assert seen["a new thread"] == [2, 2] and seen["its own setting"] == [1, 1]
    assert seen["the main thread"][0] == min(seen["the main thread"][1], 4)
    assert len(libraries) == 1, "torch's OpenMP is the kernels' as well"


def test_the_environment_says_how_many_threads(folder: Path) -> None:
    assert run(folder, "seen['team'] = teams()", OMP_NUM_THREADS="1")["team"] == 1


def test_forked_workers_run(folder: Path) -> None:
    """After a call in the parent, whose threads do not come with a fork."""
    seen = run(
        folder,
        """
torch.set_num_threads(4)
seen["parent"] = teams()
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.tensor([torch.get_num_threads(), teams()])
loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context="fork", timeout=120)
seen["workers"] = [item.tolist() for batch in loader for item in batch]
def child(body):
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(100)
        os.write(writes, json.dumps(body()).encode())
        os._exit(0)
    os.close(writes)
    text = os.read(reads, 1000)
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)
def in_a_thread():
    found = []
    def work():
        torch.set_num_threads(3)
        found.append(teams())
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
    return found[0]
seen["fork"] = child(teams)
seen["a fork's fork"] = child(lambda: child(teams))
seen["a fork's thread"] = child(in_a_thread)
seen["parent again"] = teams()
""",
    )
    assert seen == {"parent": 4, "workers": [[1, 1]] * 4, "fork": 1, "a fork's fork": 1, "a fork's thread": 3, "parent again": 4}


def test_an_interrupt_between_calls_harms_nothing(folder: Path) -> None:
    """Ctrl-C arrives while calls are made, again and again; each comes through, and what is called afterwards is right."""
    seen = run(
        folder,
        """
interrupts = calls = 0
end = time.monotonic() + 100
while interrupts < 25 and time.monotonic() < end:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    soon = time.monotonic() + 1  # Python loses one that arrives in a destructor
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 * (1 + interrupts % 7))
        while time.monotonic() < soon:
            result = model(x)
            calls += 1
    except KeyboardInterrupt:
        interrupts += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    teams()
seen["interrupts"] = interrupts
""",
    )
    assert seen["interrupts"] == 25


def test_an_installation_that_cannot_be_written_to(folder: Path) -> None:
    """Nothing is opened for writing beside the module, but for Python's own caches (which it does without)."""
    seen = run(
        folder,
        """
import shutil, tempfile
copied = shutil.copytree(folder, Path(tempfile.mkdtemp()) / "installed")
written = []
def hook(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(os.fsdecode(args[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove"):
        written.append(os.fsdecode(args[0]))
sys.addaudithook(hook)
other = load(copied)
assert torch.equal(other(x), x * 2) and torch.equal(other(x), x * 2) and other._planish.shipped.runs() == 2
seen["written"] = [path for path in written if path.startswith(str(copied)) and "__pycache__" not in path]
shutil.rmtree(copied.parent)
""",
    )
    assert seen == {"written": []}
