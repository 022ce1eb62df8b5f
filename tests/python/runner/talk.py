"""Starts `python -m planish.<module>` as the evaluator does, and shares buffers with it."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import planish
import torch
from planish import rt
from planish.capture.arguments import dtype_name
from planish.wire import Channel

SOURCES = str(Path(planish.__file__).parents[1])


class Client:
    """A child process and the requests to it."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        self.process, self.channel = process, channel
        self._ids = itertools.count(1)

    def ask(self, method: str, fds: Any = (), **params: Any) -> dict[str, Any]:
        return self.channel.request(next(self._ids), method, params, fds)


@contextmanager
def child(module: str) -> Iterator[Client]:
    ours, theirs = socket.socketpair()
    theirs_fd = theirs.detach()

    def place() -> None:
        os.dup2(theirs_fd, 3)

    environment = {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=place, pass_fds=(3,), env=environment
    )
    os.close(theirs_fd)
    client = Client(process, Channel(ours))
    try:
        yield client
    finally:
        client.channel.close()
        process.wait(timeout=20)  # a closed socket ends the child


class Shared:
    """A tensor in memory that the child maps."""

    def __init__(self, tensor: torch.Tensor, name: str, index: int, output: bool = False) -> None:
        span = rt.extent_bytes(tensor.dtype.itemsize, list(tensor.shape), list(tensor.stride()))
        self.buffer = rt.Buffer.create("cpu", span, seal=not output)
        self.tensor = self.buffer.tensor(tensor.dtype, list(tensor.shape), list(tensor.stride()))
        self.tensor.copy_(tensor)
        self.description = {
            "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), "strides": list(tensor.stride()), "bytes": self.buffer.bytes,
            "offset": self.buffer.offset, "map_bytes": self.buffer.map_bytes, "device": "cpu", "writable": output, "name": name, "buffer": index,
        }  # fmt: skip


def bind(client: Client, handle: int, data: str, shared: list[Shared]) -> None:
    client.ask("bind", [s.buffer.fd for s in shared], handle=handle, data=data, buffers=[s.description for s in shared])
