"""For what stands between the evaluator and a process of its own: moves what comes over the one channel to the other."""

import array
import os
import socket
import subprocess


def receive(source: socket.socket) -> tuple[bytes, list[int]]:
    """Bytes and descriptors that have come; no bytes at the end."""
    data, ancillary, _, _ = source.recvmsg(1 << 16, socket.CMSG_SPACE(64 * 4))
    fds = array.array("i")
    for _, _, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % 4])
    return data, list(fds)


def send(target: socket.socket, data: bytes, fds: list[int]) -> None:
    """Closes the descriptors as well."""
    if fds:
        target.sendmsg([data[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        data = data[1:]
    target.sendall(data)
    for fd in fds:
        os.close(fd)


def stand_between(command: list[str]) -> tuple[socket.socket, socket.socket, subprocess.Popen]:
    """Starts the command with a channel of its own: the evaluator's, the command's, and its process."""
    outer = socket.socket(fileno=os.dup(3))
    inner, theirs = socket.socketpair()
    os.dup2(theirs.fileno(), 3)
    process = subprocess.Popen(command, pass_fds=(3,))
    os.close(3)
    theirs.close()
    return outer, inner, process
