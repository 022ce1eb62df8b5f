"""planish-compiler processes behind a queue: what is asked for first is compiled first (docs/formats/wire.md)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class CompileProcess:
    """One compiler. A thread of its own talks to it."""

    def __init__(self, program: Path, limit_seconds: float) -> None:
        self.limit = limit_seconds
        ours, theirs = socket.socketpair()
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
        ]
        self.pid = os.posix_spawn(program, [str(program)], dict(os.environ), file_actions=actions)
        theirs.close()
        ours.settimeout(limit_seconds + 30)
        self.socket = ours
        self.lines = ours.makefile("r")

    def compile(self, launch: Json, arch: str, cache: Path) -> Json:
        """The worker's result, or {"error": {kind, message}}. Raises OSError where the process is gone or hangs."""
        number = random.getrandbits(62)
        params = {key: launch[key] for key in ("language", "source", "entry", "flags")}
        params |= {"arch": arch, "cache": str(cache), "limit_seconds": self.limit}
        self.socket.sendall((json.dumps({"id": number, "method": "compile", "params": params}) + "\n").encode())
        while line := self.lines.readline():
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer["result"] if "result" in answer else {"error": answer["error"]}
        raise ConnectionError("the compiler is gone")

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(OSError):
            os.kill(self.pid, 9)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)


class CompilePool:
    """Compiles all launches of one genome at a time in each of `jobs` processes. `work` gives (future, drawn genome); it is advanced under a lock,
    so that only what is about to be compiled is in memory. A future's result is a list of replies, or {"error"}."""

    def __init__(self, program: Path, jobs: int, arch: str, cache: Path, work: Iterator[tuple[Future[Any], Json]]) -> None:
        self.program, self.arch, self.cache, self.work = program, arch, cache, work
        self.lock = threading.Lock()
        self.stopping = False
        self.threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(jobs)]
        for thread in self.threads:
            thread.start()

    def serve(self) -> None:
        process: CompileProcess | None = None
        while not self.stopping:
            with self.lock:
                item = next(self.work, None)
            if item is None:
                break
            future, drawn = item
            replies: list[Json] = []
            failed: Json | None = None
            for launch in drawn["launches"]:
                try:
                    process = process or CompileProcess(self.program, limit_seconds=60)
                    reply = process.compile(launch, self.arch, self.cache)
                except (OSError, ValueError) as problem:
                    if process is not None:
                        process.close()
                    process, reply = None, {"error": {"kind": "compile_timeout", "message": str(problem)}}
                if "error" in reply:
                    failed = {"error": reply["error"]}
                    break
                replies.append(reply)
            future.set_result(failed or replies)
        if process is not None:
            process.close()

    def stop(self) -> None:
        self.stopping = True
