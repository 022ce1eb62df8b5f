#!/usr/bin/env python3
"""Stands in for the interpreter, between the evaluator and what REAL_PYTHON runs, and for the runner, which confines nothing here. The file WATCH_LOG gains
a line for each process, `KIND started`, and for each answer, `KIND METHOD free` where anybody could have measured on the device at that moment (`held` where
not): the lock WATCHED_LOCK was taken, is kept for a while after the answer, and the line `KIND METHOD let go` ends that. The file WATCH_FAILS may hold
`KIND METHOD N`: then what comes after N such lines is an error. With a fourth word, `narrowly`, the answer after N is that of a near miss, those behind it as
they are."""

import fcntl
import json
import os
import select
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from relay import receive, send, stand_between

IMPORTS_FOR = 0.3  # seconds that even a process takes that had imported everything
LOCK_KEPT = 0.3

arguments = sys.argv[1:]
if arguments[0] in ("--guest", "--capture"):
    os.execvp(arguments[arguments.index("--") + 1], arguments[arguments.index("--") + 1 :])
if arguments[0] == "--device":
    os.execvp(os.environ["REAL_RUNNER"], [os.environ["REAL_RUNNER"], *arguments])
log = Path(os.environ["WATCH_LOG"])
kind = arguments[arguments.index("-m") + 1].removeprefix("planish.")


def note(method: str, word: str) -> None:
    with log.open("a") as file:
        file.write(f"{kind} {method} {word}\n")


def fails(method: str) -> bool:
    words = Path(os.environ["WATCH_FAILS"]).read_text().split()
    return words[:2] == [kind, method] and len(words) == 3 and count(method) > int(words[2])


def misses(method: str) -> bool:
    words = Path(os.environ["WATCH_FAILS"]).read_text().split()
    return words[:2] == [kind, method] and words[3:] == ["narrowly"] and count(method) == int(words[2]) + 1


def count(method: str) -> int:
    return sum(line.startswith(f"{kind} {method} ") and not line.endswith("let go") for line in log.read_text().splitlines())


def near_miss(message: dict) -> bytes:
    """A check's answer, over its limit by a fifth."""
    result = message["result"]
    result |= {"ok": False, "problem": "mismatch", "message": "it is to miss"}
    result["outputs"][0] |= {"ratio": 1.2, "statistic": "99 %"}
    return json.dumps(message).encode() + b"\n"


def answered(message: dict) -> tuple[str, int | None]:
    """The method, and the lock where it was to be had."""
    method = methods.pop(message["id"])
    if method == "hello":
        time.sleep(IMPORTS_FOR)
    lock = os.open(os.environ["WATCHED_LOCK"], os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        note(method, "held")
        return method, None
    note(method, "free")
    return method, lock


note("started", "")
outer, inner, child = stand_between([os.environ["REAL_PYTHON"], *arguments])
asked, said = b"", b""
methods: dict[int, str] = {}
while True:
    ready, _, _ = select.select([outer, inner], [], [])
    if outer in ready:
        data, fds = receive(outer)
        if not data:
            break
        asked += data
        *lines, asked = asked.split(b"\n")
        for line in lines:
            methods[json.loads(line)["id"]] = json.loads(line)["method"]
        send(inner, data, fds)
    if inner in ready:
        try:
            data, fds = receive(inner)
        except ConnectionResetError:
            break
        if not data:
            break
        said += data
        *lines, said = said.split(b"\n")
        answers = [message for message in map(json.loads, lines) if "id" in message]
        taken = [(*answered(message), message["id"]) for message in answers]
        if taken and misses(taken[-1][0]):
            data = near_miss(answers[-1])
        if taken and fails(taken[-1][0]):
            data = json.dumps({"id": taken[-1][2], "error": {"kind": "made_up", "message": "it is to fail"}}).encode() + b"\n"
        send(outer, data, fds)
        for method, lock, _ in taken:
            if lock is not None:
                time.sleep(LOCK_KEPT)
                note(method, "let go")
                os.close(lock)
inner.close()
status = child.wait()
if status < 0:  # as it died
    os.kill(os.getpid(), -status)
sys.exit(status)
