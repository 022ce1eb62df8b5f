# ruff: noqa: E402, F401  (imports follow the contents, and are used by what src/ship appends: the module's own part of module.py)
# ---- contents ----
_KEY, _TEXTS, _BINARIES = "", {}, {}
# ---- end of contents ----
import base64
import functools
import linecache
import os
import sys
import tempfile
import types
import zlib

import torch
from torch.utils import _pytree


class _Contents:
    """Hands out the parts of this file, as a shipped folder would. Binaries become files that only this process sees: in memory
    where the kernel allows that, else in a temporary folder that goes with the process."""

    key = f"planish_shipped_{_KEY}"

    def __init__(self):
        self._paths, self._folder = {}, None

    def __contains__(self, name):
        return name in _TEXTS or name in _BINARIES

    def read(self, name):
        if name not in self:
            raise FileNotFoundError(2, "not in this file", name)
        return _TEXTS[name].encode() if name in _TEXTS else zlib.decompress(base64.b64decode(_BINARIES[name]))

    def path(self, name):
        if name not in self._paths:
            self._paths.setdefault(name, self._in_memory(name) or self._in_folder(name))
        return self._paths[name]

    def _in_memory(self, name):
        try:
            descriptor = os.memfd_create(os.path.basename(name))  # stays open: its path must never name another file
        except (AttributeError, OSError):
            return None
        with open(descriptor, "wb", closefd=False) as file:
            file.write(self.read(name))
        path = f"/proc/self/fd/{descriptor}"
        return path if os.path.exists(path) else None

    def _in_folder(self, name):
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="planish-")
        path = os.path.join(self._folder.name, f"{len(self._paths)}-{os.path.basename(name)}")
        with open(path, "wb") as file:
            file.write(self.read(name))
        return path


def _sibling(stem):
    name = f"{_Contents.key}_{stem}"
    if name not in sys.modules:
        source, module = _TEXTS[f"{stem}.py"], types.ModuleType(name)
        filename = f"<{name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)  # for tracebacks and inspect
        sys.modules[name] = module
        try:
            exec(compile(source, filename, "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


_guards = _sibling("guards")
_reference = _sibling("reference")
_shipped = _guards.shipped.get(_Contents.key) or _guards.Shipped(_Contents(), _sibling("executor"), defer_gradients=True)
# ---- the module ----
