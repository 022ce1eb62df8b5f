"""An evaluator that is kept warm while a test runs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command import Home


def wait_until_it_listens(server: subprocess.Popen[str]) -> Path:
    assert server.stdout is not None
    socket = Path(json.loads(server.stdout.readline())["socket"])
    end = time.monotonic() + 60
    while not socket.is_socket() and time.monotonic() < end:
        time.sleep(0.01)
    assert socket.is_socket() and socket.parent.stat().st_mode & 0o077 == 0
    return socket


@contextmanager
def served(home: Home) -> Iterator[subprocess.Popen[str]]:
    """`planish serve` for commands of this home; ended at the end."""
    with _listening(home) as (server, _):
        yield server


@contextmanager
def asked_by_all(home: Home) -> Iterator[dict[str, str]]:
    """The same for commands of any home, whose environment this is: what ships is read from the cache that the evaluator has."""
    with _listening(home) as (_, socket):
        yield {"PLANISH_EVALUATOR": str(socket), "PLANISH_CACHE": str(home.path / "cache" / "planish")}


@contextmanager
def _listening(home: Home) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    server = home.start("serve", "--idle", "10m", "--json")
    try:
        yield server, wait_until_it_listens(server)
    finally:
        server.terminate()
        try:
            server.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()
