"""An oracle's twin: as new as it, its own, and made before anything of a task was met."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from planish.errors import PlanishError
from planish.wire import Channel

ROOT = Path(__file__).resolve().parents[3]
TASK = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(4)]
"""


def ends() -> tuple[Channel, int, int, int]:
    """Ours of a channel, its other end, and both ends of a pipe."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    out, into = os.pipe()
    return Channel(ours), theirs.detach(), out, into


def ask_for_twin(channel: Channel, identity: int) -> tuple[Channel, int, int]:
    ours, theirs, out, into = ends()
    pid = channel.request(identity, "twin", {}, [theirs, into])["pid"]
    os.close(theirs)
    os.close(into)
    return ours, pid, out


def test_a_twin_opens_tasks_of_its_own_and_none_is_made_afterwards(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    ours, theirs, out, into = ends()
    build = Path(os.environ.get("PLANISH_BUILD", ROOT / "build"))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PLANISH_RT": str(build / "lib" / "libplanish_rt.so")}
    env.pop("OMP_NUM_THREADS", None)  # nor does it hang on that
    command = [sys.executable, "-c", "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execv(sys.executable, [sys.executable, '-m', 'planish.oracle'])"]
    first = subprocess.Popen([*command, str(theirs)], env=env, pass_fds=[theirs])
    os.close(theirs)
    os.close(out)
    os.close(into)
    open_it: dict[str, Any] = {"task": str(tmp_path / "task.py"), "blobs": str(tmp_path / "blobs")}
    ours.request(1, "hello", {"device": "cpu"})
    twin, pid, said = ask_for_twin(ours, 2)
    assert Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1] == str(os.getpid())
    assert ours.request(3, "open", open_it)["task"]["name"] == "task"
    with pytest.raises(PlanishError, match="before anything else"):
        ask_for_twin(ours, 4)
    ours.close()
    assert first.wait(30) == 0
    assert twin.request(1, "hello", {"device": "cpu"})["torch"]
    third, third_pid, third_said = ask_for_twin(twin, 2)
    assert twin.request(3, "open", open_it)["graph"]["nodes"]
    data = twin.request(4, "make", {"region": "task", "data": "d", "seed": 1, "regime": "task"})
    assert len(twin.take_fds(data["_fds"])) >= 2, "inputs and outputs in memory of its own"
    for channel, number, pipe in ((twin, pid, said), (third, third_pid, third_said)):
        channel.close()
        assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
        os.close(pipe)
