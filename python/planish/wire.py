"""JSON lines over a Unix stream socket, descriptors beside them (docs/formats/wire.md).

A `Channel` belongs to one thread. Descriptors that arrive belong to whoever takes them with `take_fds`; those that are
sent stay the sender's. `serve` is the loop of a child process: one request at a time, in order, until the socket closes.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from planish.errors import PlanishError, is_device_failure

FDS_A_BATCH = 64
_CHUNK = 1 << 16
_MOST_OF_A_TEXT = 1 << 16  # characters of one field of an error
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


class Channel:
    """One end of the socket. `receive` blocks; None means that the other side has closed."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._bytes = bytearray()
        self._scanned = 0  # no newline before this position: a long line is not searched again with each piece
        self._fds: deque[int] = deque()

    @classmethod
    def of_fd(cls, fd: int = 3) -> Channel:
        """The channel that the parent left as descriptor 3. Raises PlanishError(`no_channel`) when it is not there."""
        try:
            return cls(socket.socket(fileno=fd))
        except OSError as error:
            raise PlanishError("no_channel", f"descriptor {fd} is no socket: {error}", "planish starts this process, not you") from error

    @property
    def connection(self) -> socket.socket:
        return self._sock

    def receive(self) -> dict[str, Any] | None:
        """The next message; its descriptors wait in the queue for `take_fds`."""
        while True:
            end = self._bytes.find(b"\n", self._scanned)
            if end >= 0:
                line = bytes(self._bytes[:end])
                del self._bytes[: end + 1]
                self._scanned = 0
                if not line.strip():
                    continue
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise PlanishError("bad_message", "a message must be a JSON object")
                return message
            self._scanned = len(self._bytes)
            space = socket.CMSG_SPACE(FDS_A_BATCH * array.array("i").itemsize)
            try:
                data, ancillary, flags, _ = self._sock.recvmsg(_CHUNK, space, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                return None
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds = array.array("i")
                    fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                    self._fds.extend(fds)
            if flags & socket.MSG_CTRUNC:
                raise PlanishError("bad_message", "descriptors were lost: more than 64 in one batch")
            if not data:
                return None
            self._bytes += data

    def take_fds(self, count: int) -> list[int]:
        """The descriptors of the message just received; from now on the caller's to close."""
        if count > len(self._fds):
            raise PlanishError("bad_message", f"{count} descriptors announced, {len(self._fds)} received")
        return [self._fds.popleft() for _ in range(count)]

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends one line. More than 64 descriptors go in batches, each attached to one byte of the line."""
        if fds:
            message = {**message, "fds": len(fds)}
        line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        start = 0
        for first in range(0, len(fds), FDS_A_BATCH):
            batch = array.array("i", fds[first : first + FDS_A_BATCH])
            self._sock.sendmsg([line[start : start + 1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, batch)])
            start += 1
        self._sock.sendall(line[start:])

    def request(self, identity: int, method: str, params: dict[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        """Client side, for tests and tools: sends, waits for that answer, skips events. Raises PlanishError on `error`.

        The answer's descriptors stay in the queue; the result carries their number as `_fds` when there are any."""
        self.send({"id": identity, "method": method, "params": params}, fds)
        while True:
            answer = self.receive()
            if answer is None:
                raise PlanishError("closed", f"the other side closed during {method}")
            if answer.get("id") != identity:
                continue
            if "error" in answer:
                error = answer["error"]
                raise PlanishError(error["kind"], error["message"], error.get("hint", ""), error.get("about", ""))
            result = dict(answer["result"])
            if answer.get("fds"):
                result["_fds"] = answer["fds"]
            return result

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.popleft())
        self._sock.close()


class Answer:
    """A result with descriptors to send along."""

    def __init__(self, result: dict[str, Any], fds: Sequence[int]) -> None:
        self.result = result
        self.fds = list(fds)


_listener: Callable[[str, float], None] | None = None
_bell: socket.socket | None = None
_BELL_BYTES = 64


def report_stage(stage: str, seconds: float = 0) -> None:
    """Says what foreign code is about to be run ("importing it"): whoever waits names it when this process hangs or dies in it. `seconds`: how long
    it takes by what was measured, where that is known. Nothing happens in a process that serves nobody."""
    if _listener is not None:
        _listener(stage, seconds)


def await_bell() -> bytes:
    """Within a request: says that it is ready, and waits until whoever asked rings. The word that it rang with."""
    assert _bell is not None, "only a request can be rung for"
    _bell.sendall(b'{"event":"ready"}\n')
    return _bell.recv(_BELL_BYTES)[:-1]


def answer_bell(word: bytes, text: str) -> None:
    """To whoever rang; the request is answered after that."""
    assert _bell is not None
    _bell.sendall(b"%b %b\n" % (word, text.encode()))


# Takes the params and the request's descriptors (now the handler's), returns the result.
Handler = Callable[[dict[str, Any], list[int]], "dict[str, Any] | Answer"]


def die_with_parent() -> None:
    """Asks the kernel for SIGKILL when the parent dies; without that (not Linux) the closed socket has to do."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return


def keep_memory_private() -> None:
    """Nobody but the kernel's owner may look into this process or change it (ptrace, /proc/PID/mem, process_vm_writev), its own user's other
    processes included: for whoever holds expected values."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        return


def _document(error: PlanishError) -> dict[str, str]:
    found = {"kind": error.kind, "message": _cut(error.message)}
    if error.hint:
        found["hint"] = _cut(error.hint)
    if error.about:
        found["about"] = _cut(error.about)
    return found


def _cut(text: str) -> str:
    """What foreign code raises may be of any length, and nobody reads more."""
    return text if len(text) <= _MOST_OF_A_TEXT else f"{text[: _MOST_OF_A_TEXT // 2]}\n… \n{text[-_MOST_OF_A_TEXT // 2 :]}"


def serve(channel: Channel, methods: dict[str, Handler]) -> None:
    """Answers requests until the channel closes. PlanishError becomes an error answer, any other exception `internal`."""
    global _listener, _bell

    def tell(stage: str, seconds: float) -> None:
        channel.send({"event": "stage", "stage": stage} | ({"seconds": seconds} if seconds > 0 else {}))

    _listener, _bell = tell, channel.connection
    try:
        _serve(channel, methods)
    finally:
        _listener = _bell = None  # a later caller in this process serves nobody


def _serve(channel: Channel, methods: dict[str, Handler]) -> None:
    while (message := channel.receive()) is not None:
        identity = message.get("id")
        if identity is None:
            continue
        try:
            fds = channel.take_fds(int(message.get("fds", 0)))
            handler = methods.get(str(message.get("method")))
            if handler is None:
                for fd in fds:
                    os.close(fd)
                raise PlanishError("bad_message", f"unknown method {message.get('method')!r}")
            answer = handler(message.get("params") or {}, fds)
            if isinstance(answer, Answer):
                channel.send({"id": identity, "result": answer.result}, answer.fds)
            else:
                channel.send({"id": identity, "result": answer})
        except PlanishError as error:
            channel.send({"id": identity, "error": _document(error)})
        except BrokenPipeError:
            return
        except Exception as error:  # whatever a foreign model raises must become an answer
            trace = _cut(traceback.format_exc())
            print(trace, file=sys.stderr, flush=True)
            text = _cut(f"{type(error).__name__}: {error}")
            kind = "device_lost" if is_device_failure(error) else "internal"
            channel.send({"id": identity, "error": {"kind": kind, "message": text, "trace": trace}})
