"""A real evaluator with its real oracle and runners, over its socket, for whatever judges bad candidates. Needs no pytest: it also runs where there is none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
#: a build folder, or a dist folder, which has its programs beside the tests
BUILD = Path(os.environ.get("PLANISH_BUILD") or os.environ.get("PLANISH_ROOT") or (SOURCE if (SOURCE / "bin" / "planish").exists() else SOURCE / "build"))
PLANISH = BUILD / "bin" / "planish"

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) * 2 + y

def get_inputs():
    return [torch.randn(37, 101), torch.randn(37, 101)]

def get_init_inputs():
    return []
"""


class Evaluator:
    """A planish evaluator of this test's own, over its socket."""

    def __init__(self, folder: Path, task: Path, region: bool = True, target: str = "cpu") -> None:
        """`region`: candidates for the task as a whole will come; without it solutions of others alone can be judged."""
        self.target = target
        path = folder / "evaluator.sock"
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "data")}
        if target == "cpu":  # torch with CUDA takes more than this by itself
            environment["PLANISH_RUNNER_MEMORY"] = str(1 << 30)
        self.process = subprocess.Popen([str(PLANISH), "evaluator", "--socket", str(path), "--run-timeout", "8"], env=environment, stderr=subprocess.DEVNULL)
        deadline = monotonic() + 60
        self.socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                assert monotonic() < deadline, "the evaluator never listened"
                sleep(0.05)
        self.file = self.socket.makefile("rw", encoding="utf-8")
        self.count = 0
        self.task = task
        opened = self.call("open", task=str(task), target=target, accuracy="eager", seeds=1)
        self.session = opened["session"]
        self.device = opened["device"]
        if region:
            self.call("region", session=self.session, region="task", nodes=[], inputs=[], outputs=[], bytes=44844, flops=3)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        self.file.write(json.dumps({"id": self.count, "method": method, "params": params}) + "\n")
        self.file.flush()
        while True:
            line = self.file.readline()
            assert line, "the evaluator closed its socket"
            answer = json.loads(line)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def document(self, source: str) -> dict[str, Any]:
        """The program that has `source` as its one kernel, `k0`; on a GPU one block of 1024 threads runs it."""
        cuda = self.target == "cuda"
        tensor = {"dtype": "f32", "shape": [37, 101], "strides": [101, 1]}
        return {
            "schema": "planish.program/1",
            "target": self.target,
            "arch": self.device["arch"],
            "buffers": [{"role": "input", "source": {"kind": "user", "index": i}, **tensor} for i in range(2)] + [{"role": "output", **tensor}],
            "kernels": [{"language": "cuda" if cuda else "cpp", "entry": "k0", "flags": [], "source": source}],
            "steps": [
                {
                    "kind": "launch",
                    "kernel": 0,
                    "grid": [1, 1, 1],
                    "block": [1024 if cuda else 1, 1, 1],
                    "cluster": [1, 1, 1],
                    "shared": 0,
                    "args": [{"buffer": 0}, {"buffer": 1}, {"buffer": 2}],
                }
            ],
            "outputs": [{"buffer": 2, "kind": "user"}],
        }

    def evaluate(self, source: str, level: str = "screen") -> dict[str, Any]:
        program = json.dumps(self.document(source))
        return self.call("evaluate", session=self.session, region="task", program=program, level=level, bench=True, give_up_ms=0)

    def verify(self, solution: Path, seeds: int = 1, time: bool = False) -> dict[str, Any]:
        return self.call("verify", session=self.session, path=str(solution), seeds=seeds, time=time)

    def close(self) -> None:
        self.file.close()  # it holds the descriptor open as well
        self.socket.close()
        self.process.wait(timeout=30)
