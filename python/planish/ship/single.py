# ruff: noqa: E402, F401  (imports follow the contents, and are used by what src/ship appends: the module's own part of module.py)
# ---- contents ----
_KEY, _TEXTS, _BINARIES = "", {}, {}
# ---- end of contents ----
import atexit
import base64
import functools
import linecache
import os
import shutil
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
        self._made, self._folder = {}, None  # by name: a path, and what it leads to

    def __contains__(self, name):
        return name in _TEXTS or name in _BINARIES

    def read(self, name):
        if name not in self:
            raise FileNotFoundError(2, "not in this file", name)
        return _TEXTS[name].encode() if name in _TEXTS else zlib.decompress(base64.b64decode(_BINARIES[name]))

    def path(self, name):
        # A daemon closes all descriptors, and the next file that somebody opens gets the number of ours; temporary folders are tidied.
        path, there = self._made.get(name, (None, None))
        if path is None or self._identity(path) != there:
            path = self._in_memory(name) or self._in_folder(name)
            self._made[name] = path, self._identity(path)
        return path

    @staticmethod
    def _identity(path):
        try:
            about = os.stat(path)
        except OSError:
            return None
        return about.st_dev, about.st_ino, about.st_size

    def _in_memory(self, name):
        try:
            descriptor = os.memfd_create(os.path.basename(name))  # stays open, as its path must lead to it
        except (AttributeError, OSError):
            return None
        with open(descriptor, "wb", closefd=False) as file:
            file.write(self.read(name))
        # The dynamic loader knows libraries by their paths, for good, whatever a number stands for later. No two of these are alike:
        # 64 random bits are written as "/" and "/./", which lead nowhere else.
        bits = int.from_bytes(os.urandom(8), "little")
        path = f"/proc/self{''.join('/./' if bits >> i & 1 else '/' for i in range(64))}fd/{descriptor}"
        return path if os.path.exists(path) else None

    def _in_folder(self, name):
        if self._folder is None or not os.path.isdir(self._folder):
            self._folder = tempfile.mkdtemp(prefix="planish-")
            atexit.register(self._tidy, self._folder, os.getpid())
        path = os.path.join(self._folder, f"{os.urandom(8).hex()}-{os.path.basename(name)}")
        with open(path, "wb") as file:
            file.write(self.read(name))
        return path

    @staticmethod
    def _tidy(folder, owner):
        if os.getpid() == owner:  # a forked child's end is not the parent's
            shutil.rmtree(folder, ignore_errors=True)


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


# PARTS of guards.py
for _part in "names wrapped hooks outside frozen reach signature context trees holders watch apart archive parts deferred".split():
    _sibling(_part)
_guards = _sibling("guards")
_reference = _sibling("reference")
_shipped = _guards.shipped.get(_Contents.key) or _guards.Shipped(_Contents(), _sibling("executor"), defer_gradients=True)
# ---- the module ----
