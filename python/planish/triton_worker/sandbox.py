"""Confines the process that compiles foreign source: it writes to one folder, and has no network. Each part is best effort, since kernels differ."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_WRITE_FILE = 1 << 1
# Removing and making of every kind; what later versions of Landlock know: moving (2), truncating (3).
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_MOST_MEMORY = 16 << 30
_MOST_FILE = 256 << 20


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def confine(folder: Path) -> bool:
    """Irrevocable. True where the file system is closed but for `folder`."""
    for limit, most in ((resource.RLIMIT_AS, _MOST_MEMORY), (resource.RLIMIT_FSIZE, _MOST_FILE), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)  # fails where user namespaces are off
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    handled = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = _Ruleset(handled)
    ruleset = libc.syscall(_LANDLOCK_CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return False
    try:
        for place, allowed in ((folder, handled), (Path("/dev/null"), _WRITE_FILE)):
            fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = _Beneath(allowed, fd)
                if libc.syscall(_LANDLOCK_ADD, ruleset, 1, ctypes.byref(rule), 0) != 0:
                    return False
            finally:
                os.close(fd)
        return libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)
