#!/usr/bin/env python3
"""Stands between the evaluator and the runner REAL_RUNNER, and lets the device fail as the file DEVICE_FAILS says: a line `run N` makes the next N
runs answer that the device is lost, a line `hello` makes every new process find no device."""

import json
import os
import select
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from relay import receive, send, stand_between

if sys.argv[1] == "--capture":  # of the oracle, whose device does not fail
    os.execvp(os.environ["REAL_RUNNER"], [os.environ["REAL_RUNNER"], *sys.argv[1:]])
script = Path(os.environ["DEVICE_FAILS"])


def failure(method: str) -> dict | None:
    """What to answer in place of the runner."""
    words = script.read_text().split("\n")
    if method == "hello" and "hello" in words:
        return {"kind": "no_device", "message": "cuInit failed: CUDA_ERROR_NO_DEVICE"}
    for k, line in enumerate(words):
        if method == "run" and line.startswith("run ") and int(line[4:]) > 0:
            words[k] = f"run {int(line[4:]) - 1}"
            script.write_text("\n".join(words))
            return {"kind": "device_lost", "message": "cuCtxSynchronize: CUDA_ERROR_ECC_UNCORRECTABLE"}
    return None


outer, inner, runner = stand_between([os.environ["REAL_RUNNER"], *sys.argv[1:]])
asked, answered = b"", b""
methods: dict[int, str] = {}
while True:
    ready, _, _ = select.select([outer, inner], [], [])
    if outer in ready:
        data, fds = receive(outer)
        if not data:
            break
        send(inner, data, fds)
        asked += data
        *lines, asked = asked.split(b"\n")
        for line in lines:
            request = json.loads(line)
            methods[request["id"]] = request["method"]
    if inner in ready:
        data = inner.recv(1 << 16)
        if not data:
            break
        answered += data
        *lines, answered = answered.split(b"\n")
        for line in lines:
            answer = json.loads(line)
            error = failure(methods.get(answer.get("id"), ""))
            outer.sendall((json.dumps({"id": answer["id"], "error": error}) if error else line.decode()).encode() + b"\n")
inner.close()
sys.exit(runner.wait())
