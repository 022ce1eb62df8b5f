"""A shipped folder or file in memory, and the executors that it was given.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import sysconfig
from pathlib import Path
from typing import Any

import torch


def cpu_flags() -> set[str]:
    """The instruction sets of this CPU as the kernel names them."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


class Folder:
    """Where a shipped folder keeps what it consists of. (A shipped file brings a class of its own with the same four members.)"""

    def __init__(self, folder: Path) -> None:
        self.key = str(folder)
        self._folder = folder

    def read(self, name: str) -> bytes:
        """Raises OSError."""
        return (self._folder / name).read_bytes()

    def path(self, name: str) -> str:
        """A path under which this process can open the file."""
        return str(self._folder / name)

    def __contains__(self, name: str) -> bool:
        return (self._folder / name).exists()


shipped: dict[str, Shipped] = {}  # by key, so that an unpickled attachment finds what it belongs to


class Shipped:
    """One shipped folder or file in memory: manifest, program, and an executor a device, made when first needed."""

    def __init__(self, files: Any, executor_module: Any, defer_gradients: bool = False) -> None:
        """`files` is a Folder, or like one. With `defer_gradients` the program also runs where parameters alone could be asked for
        gradients (_Deferred). Raises OSError or ValueError if it is not a shipped one."""
        self.files = files
        self.defer_gradients = defer_gradients
        self.key: str = files.key
        self.manifest: dict[str, Any] = json.loads(files.read("ship.json"))
        if self.manifest.get("schema") != "planish.ship/1":
            raise ValueError(f"ship.json: schema is {self.manifest.get('schema')!r}, expected 'planish.ship/1'")
        self.mode: str = self.manifest["mode"]
        self.program: dict[str, Any] = {}
        if self.mode == "program":
            self.program = json.loads(files.read("program.json"))
        self.module = executor_module
        self.altered = self._altered("program.json", "planish_call.so") if self.mode == "program" else ""
        self.extension = load_extension(files) if self.mode == "program" and not self.altered else None
        self._executors: dict[torch.device, Any] = {}
        shipped[self.key] = self

    def executor(self, device: torch.device) -> Any:
        """The executor of a device, or the reason (str) why the program cannot run there."""
        found = self._executors.get(device)
        if found is None:
            found = self._why_not(device)
            if found is None:
                try:
                    native = any(step["kind"] != "aten" for step in self.program["steps"])
                    binaries = [self.files.path(name) for name in self.manifest["binaries"]]
                    runtime = self.files.path("libplanish_rt.so") if native else None
                    found = self.module.Executor(self.program, binaries, self._constant, runtime, device, self.manifest.get("effects", []))
                except AttributeError as error:  # of a library: a live module's folder is run by the installed version
                    found = f"made by Planish {self.manifest.get('planish', 'of another version')}, which this one cannot run ({error}); optimise it again"
                except (OSError, self.module.ExecutorError) as error:
                    found = f"{getattr(error, 'kind', 'load_failed')}: {error}"
            found = self._executors.setdefault(device, found)  # another thread may have been faster
        return found

    def runs(self) -> int:
        """Calls that the program answered, of all modules that this is attached to."""
        direct: int = 0 if self.extension is None else self.extension.hits()  # counted for the whole process
        return direct + sum(getattr(e, "runs", 0) for e in self._executors.values())

    def _altered(self, *names: str) -> str:
        """Which of these is not what the manifest says that was shipped; empty where all are, or it lists no files (a single file is one)."""
        listed: dict[str, str] = self.manifest.get("files") or {}
        for name in names if listed else ():
            if name in self.files and hashlib.sha256(self.files.read(name)).hexdigest() != listed.get(name):
                return f"altered: {name} is not the file that was shipped; ship it again"
        return ""

    def _constant(self, blob: str) -> bytes:
        content: bytes = self.files.read(f"blobs/{blob}")
        if hashlib.sha256(content).hexdigest() != blob:
            raise OSError(f"altered: the constant {blob[:12]} is not what its name says; ship it again")
        return content

    def _why_not(self, device: torch.device) -> str | None:
        if altered := self.altered or self._altered(*self.manifest["binaries"], "libplanish_rt.so"):
            return altered
        if device.type != self.program["target"]:
            return f"made for {self.program['target']}, called on {device.type}"
        if device.type == "cuda":
            major, minor = torch.cuda.get_device_capability(device)
            wanted = self.program["arch"].rstrip("abcdefghijklmnopqrstuvwxyz")
            if wanted and wanted != f"sm_{major}{minor}":
                return f"compiled for {self.program['arch']}, this GPU is sm_{major}{minor}"
        elif self.program["kernels"]:
            missing = set(self.manifest.get("cpu_flags", [])) - cpu_flags()
            if missing:
                return f"compiled for a CPU with {', '.join(sorted(missing))}"
        return None


def load_extension(files: Any) -> Any:
    """The C form of the checks, or None where it is missing or not for this interpreter: it counts references as an interpreter
    with a global lock does, so a free-threaded one must not load it."""
    if "planish_call.so" not in files or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    try:
        loader = importlib.machinery.ExtensionFileLoader("planish_call", files.path("planish_call.so"))
        spec = importlib.util.spec_from_loader("planish_call", loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError):
        return None
    return module
