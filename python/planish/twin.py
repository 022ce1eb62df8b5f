"""A second process like this one, made beside it: a child of its parent, which waits for it, watches it and ends it like one that it started
itself. It has imported what this one has, which takes a new process seconds of a processor, and has met as little of the world."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence

from planish.errors import PlanishError
from planish.wire import die_with_parent

_CLONE, _CLONE_PARENT = 56, 0x8000  # of Linux on x86-64


def twin_beside(ends: Sequence[int]) -> int:
    """The other's number; 0 in the other, which has `ends` as its descriptors 3 (the channel), and 1 and 2. They are closed here.

    os.fork() would make a child of ours. What that does beyond the system call holds no locks here: there is one thread alone, and what other
    threads may hold is why there has to be."""
    channel, output = ends
    if len(os.listdir("/proc/self/task")) != 1:
        raise PlanishError("unsupported", "a process of several threads makes no twin")
    parent = os.getppid()
    libc = ctypes.PyDLL(None)
    libc.syscall.restype = ctypes.c_long
    ctypes.pythonapi.PyOS_BeforeFork()
    number = int(libc.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if number != 0:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        for end in ends:
            os.close(end)
        if number < 0:
            raise PlanishError("unsupported", "the kernel makes no process beside this one")
        return number
    ctypes.pythonapi.PyOS_AfterFork_Child()
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != parent:
        os._exit(127)  # it died before it could take this one with it
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(channel, 3)
    for end in ends:
        os.close(end)
    return 0
