"""Starts `planish environment` for tests, and finds the processes that judge for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from command import BINARY, Home

TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) * 2 + y

def get_inputs():
    return [torch.randn(37, 101), torch.randn(37, 101)]

def get_init_inputs():
    return []
"""
RIGHT = """Of course.
```python
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return y + 2 * torch.relu(x)
```
"""


class Endpoint:
    """A running endpoint with the folder `tasks` of a home; ends with its block."""

    def __init__(self, home: Home, *arguments: str, env: dict[str, str] | None = None) -> None:
        command = [str(BINARY), "environment", "--port", "0", "--json", "--target", "cpu", "--seeds", "1", *arguments]
        (home.path / "tasks").mkdir(exist_ok=True)
        self.home = home
        self.log = (home.path / "log").open("w")
        environment = home.environment({"OMP_NUM_THREADS": "1", "TMPDIR": str(home.path), **(env or {})})
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment, cwd=home.path)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (home.path / "log").read_text()
        self.url: str = json.loads(line)["url"]

    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.log.close()

    def workers(self, word: str) -> list[int]:
        """Processes below it whose command line has the word."""
        return [pid for pid in _below(self.process.pid) if word in _command(pid)]

    def kill_one(self, word: str, seconds: float = 60) -> int:
        """kill -9 of such a process, as soon as there is one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for pid in self.workers(word):
                os.kill(pid, signal.SIGKILL)
                return pid
            time.sleep(0.01)
        raise AssertionError(f"no process with {word} came")


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _below(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [root]
    while todo:
        todo.extend(children := parents.get(todo.pop(), []))
        found.extend(children)
    return found


def raw(address: tuple[str, int], text: bytes) -> tuple[int, dict[str, Any]]:
    """What the endpoint answers to these bytes."""
    import socket

    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(text)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        while len(body) < length:
            body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else {}
