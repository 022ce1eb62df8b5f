"""Runs the `planish` command for the Python interface: finds it, shows its progress while it works, reads its document."""

from __future__ import annotations

import codecs
import fcntl
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from planish.errors import PlanishError

_log = logging.getLogger("planish.search")
#: `optimize` exit codes that come with a result document; 130 where `--max-time` was over before all that was asked for had been done.
_FINISHED = (0, 1, 130)
#: Seconds that the command has to save its state after an interrupt.
_GRACE = 20.0
#: Where the command begins to say what went wrong; its last words.
_ERROR = re.compile(r"(?:^|(?<=[\r\n]))(?:\x1b\[[0-9;?]*[A-Za-z])*error(?:\x1b\[[0-9;]*m)*:")
#: Set in whatever the command starts: code of the user's that optimises something when it is imported does not start the next run there.
INSIDE = "PLANISH_INSIDE"


def launcher() -> Path:
    """The `planish` command that belongs to this package: PLANISH_BIN, the checkout's build, a dist folder's, the one installed with
    this Python, then the path. Raises PlanishError (not_built)."""
    if named := os.environ.get("PLANISH_BIN"):
        return Path(named)
    root = Path(__file__).resolve().parents[2]
    for candidate in (root / "build" / "bin" / "planish", root / "bin" / "planish", Path(sys.executable).parent / "planish"):
        if candidate.exists():
            return candidate
    if found := shutil.which("planish"):
        return Path(found)
    raise PlanishError("not_built", "the planish command was not found", "run make build, or set PLANISH_BIN")


def data_folder() -> Path:
    """Where Planish keeps what is to last, as base/file.h has it."""
    if ours := os.environ.get("PLANISH_DATA"):
        return Path(ours)
    home = os.environ.get("XDG_DATA_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "share") / "planish"


def run(arguments: list[str], progress: bool, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document that `planish ARGUMENTS --json` prints. With `progress` what the command says meanwhile is shown on sys.stderr, which a
    notebook shows below the cell. `more`: variables of its environment. Interrupting lets the command save its state first. Raises
    PlanishError, as the command names it."""
    environment = {"PLANISH_PYTHON": sys.executable, **os.environ, INSIDE: "1", **(more or {})}
    command = [str(launcher()), *arguments, "--json", *([] if progress else ["--quiet"])]
    began = time.monotonic()
    _log.info("%s", shlex.join(command))
    ours, theirs = _terminal_like(sys.stderr) if progress and _is_terminal(sys.stderr) else os.pipe()
    try:
        # A group of its own: an interrupt reaches it once, from _output, however this process got its.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True, errors="replace",
                                   env=environment, process_group=0)  # fmt: skip
    except OSError as error:
        os.close(ours)
        raise PlanishError("not_built", f"{command[0]} cannot be started: {error.strerror}", "run make build, or set PLANISH_BIN") from error
    finally:
        os.close(theirs)
    said: list[str] = []
    listener = threading.Thread(target=_show, args=(ours, said, progress), daemon=True)
    listener.start()
    try:
        text = _output(process)
    finally:
        listener.join(timeout=1.0)
    try:
        result: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"planish {arguments[0]} gave no result document (exit code {process.returncode})"
        raise PlanishError("optimize_failed", message, "".join(said)[-2000:]) from error
    _log.info("%s after %.1f s (exit code %d)", result.get("outcome", "an error"), time.monotonic() - began, process.returncode)
    if "error" in result or process.returncode not in _FINISHED:
        about = result.get("error", {})
        raise PlanishError(about.get("kind", "optimize_failed"), about.get("message", f"planish {arguments[0]} failed"), about.get("hint", ""))
    return result


def _output(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    try:
        text = process.stdout.read()
        process.wait()
        return text
    except BaseException:  # a KeyboardInterrupt, mostly
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        raise


def _show(descriptor: int, said: list[str], progress: bool) -> None:
    """Passes on what the command says, until it says what went wrong: that is raised, and so said once."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    failed = False
    with open(descriptor, "rb", buffering=0) as stream:
        while chunk := _read(stream):
            text = decoder.decode(chunk)
            said.append(text)
            del said[:-200]
            found = _ERROR.search(text)
            if progress and not failed:
                sys.stderr.write(text[: found.start()] if found else text)
                sys.stderr.flush()
            failed = failed or found is not None


def _read(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(1 << 16)
    except OSError:  # how the last writer to a terminal ends it
        return b""


def _terminal_like(stream: IO[str]) -> tuple[int, int]:
    """A terminal as wide as `stream`, so that the command draws its progress: (what is read from, what it writes to)."""
    ours, theirs = os.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # line ends are the outer terminal's
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, bytes(8)))
    return ours, theirs


def _is_terminal(stream: Any) -> bool:
    """Whether what a child writes to descriptor 2 reaches the same terminal as `stream`."""
    try:
        return bool(stream.isatty()) and stream.fileno() == 2
    except (AttributeError, OSError, ValueError):
        return False
