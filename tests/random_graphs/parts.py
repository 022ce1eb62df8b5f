"""The built parts that a case goes through outside Python: the program tool, g++ in batches, and the NVRTC worker."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CPP_FLAGS = ["-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]


def binary(name: str) -> Path:
    """A built program: in PLANISH_ROOT (a dist folder or a build folder), PLANISH_BUILD, or the checkout's build."""
    roots = [Path(os.environ[v]) for v in ("PLANISH_ROOT", "PLANISH_BUILD") if os.environ.get(v)]
    for root in [*roots, ROOT, ROOT / "build"]:
        if (root / "bin" / name).exists():
            return root / "bin" / name
    raise FileNotFoundError(f"{name} is not built: run `make build` and `ninja -C build tests`, or set PLANISH_BUILD")


@cache
def cpu_levels() -> tuple[str, ...]:
    """The -march levels that this CPU runs, best first."""
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split())
            break
    found = ["x86-64-v2"]
    if {"avx2", "bmi1", "bmi2", "fma", "f16c", "abm", "movbe"} <= flags:
        found.insert(0, "x86-64-v3")
        if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
            found.insert(0, "x86-64-v4")
    return tuple(found)


class ToolDied(Exception):
    """planish-graph-programs ended in the middle of a request."""


class Tool:
    """One planish-graph-programs process."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises ToolDied; the next question starts another process."""
        if self.process is None:
            self.process = subprocess.Popen([str(binary("planish-graph-programs"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.process.wait()
            self.process = None
            raise ToolDied(f"planish-graph-programs ended with {code}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None


@dataclass
class Built:
    """Where each kernel went: a file and the entry's name in it, or why it does not compile."""

    path: str = ""
    entry: str = ""
    error: str = ""


def write_source(folder: Path, source: str, entry: str) -> Built:
    """A kernel that is interpreted: its source as a file."""
    path = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.source.py"
    path.write_text(source)
    return Built(path=str(path), entry=entry)


@dataclass
class CppBatch:
    """Kernels that are compiled together, each in its own namespace: starting g++ and reading the vector types costs more than a kernel."""

    folder: Path
    change: Callable[[str], str] = lambda source: source
    kernels: dict[tuple[str, str, tuple[str, ...]], list[Built]] = field(default_factory=dict)

    def add(self, kernel: dict[str, Any], arch: str) -> Built:
        built = Built()
        self.kernels.setdefault((arch, kernel["source"], tuple(kernel["flags"])), []).append(built)
        return built

    def build(self) -> None:
        groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, list[Built]]]] = {}
        for (arch, source, flags), wanted in self.kernels.items():
            groups.setdefault((arch, flags), []).append((source, wanted))
        for number, ((arch, flags), members) in enumerate(groups.items()):
            self._group(f"g{number}", arch, flags, members)

    def _group(self, name: str, arch: str, flags: Sequence[str], members: list[tuple[str, list[Built]]]) -> None:
        text = ""
        entries = []
        for number, (source, _) in enumerate(members):
            entries.append(f"k0_{name}_{number}")
            renamed = re.sub(r'extern "C" void k0\(', f'extern "C" __attribute__((visibility("default"))) void {entries[-1]}(', self.change(source))
            text += f"namespace n{number} {{\n{renamed}\n}}\n"
        source_file, object_file = self.folder / f"{name}.cpp", self.folder / f"{name}.so"
        source_file.write_text(text)
        command = ["g++", "-O1", f"-march={arch}", *CPP_FLAGS, *flags, str(source_file), "-o", str(object_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode == 0:
            for (_, wanted), entry in zip(members, entries, strict=True):
                for built in wanted:
                    built.path, built.entry = str(object_file), entry
        elif len(members) == 1:
            for built in members[0][1]:
                built.error = done.stderr[:2000]
        else:
            half = len(members) // 2
            self._group(f"{name}a", arch, flags, members[:half])
            self._group(f"{name}b", arch, flags, members[half:])


class Nvrtc:
    """One planish-compiler process, as the evaluator starts it."""

    def __init__(self, cache_folder: Path) -> None:
        from planish.wire import Channel

        ours, theirs = socket.socketpair()
        fd = theirs.detach()

        def place() -> None:
            os.dup2(fd, 3)

        environment = {**os.environ, "PLANISH_SITE_PACKAGES": os.pathsep.join(p for p in sys.path if p.endswith("site-packages"))}
        program = [str(binary("planish-compiler"))]
        self.process = subprocess.Popen(program, stdin=subprocess.DEVNULL, preexec_fn=place, pass_fds=(3,), env=environment)
        os.close(fd)
        self.channel = Channel(ours)
        self.cache = cache_folder
        self.ids = itertools.count(1)

    def build(self, kernel: dict[str, Any], arch: str, change: Callable[[str], str]) -> Built:
        """Raises PlanishError of another kind than compile_error: NVRTC itself is absent."""
        from planish.errors import PlanishError

        params = {"language": "cuda", "source": change(kernel["source"]), "entry": kernel["entry"], "flags": kernel["flags"], "arch": arch}
        params["cache"] = str(self.cache)
        try:
            reply = self.channel.request(next(self.ids), "compile", {**params, "limit_seconds": 60.0}, ())
        except PlanishError as error:
            if error.kind not in ("compile_error", "compile_timeout"):
                raise
            return Built(error=error.message[:2000])
        return Built(path=str(reply["path"]), entry=kernel["entry"])

    def close(self) -> None:
        self.channel.close()
        self.process.wait(timeout=20)
