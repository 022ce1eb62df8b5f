"""A command on a pseudo-terminal, and what such a terminal shows of what it writes."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable

from command import BINARY, Home


class OnTerminal:
    """Runs until its output holds what is waited for. All that it wrote is in `bytes`; stdout and stderr are the terminal."""

    def __init__(self, home: Home, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.bytes = b""
        self._ours, theirs = pty.openpty()
        settings = {k: v for k, v in home.environment().items() if k not in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR")}
        settings |= {"TERM": "xterm"} | (env or {})
        self.process = subprocess.Popen(
            [str(BINARY), *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=home.path,
            env=settings,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(theirs)

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, done: Callable[[str], bool], seconds: float) -> str:
        """Reads until `done` says so of all text; an AssertionError with that text where the time is over first."""
        end = time.monotonic() + seconds
        while not done(self.text):
            assert time.monotonic() < end, self.text
            assert self._read(0.2) or self.process.poll() is None, self.text
        return self.text

    def finish(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while self._read(0.2) or self.process.poll() is None:
            assert time.monotonic() < end, self.text
        return self.process.returncode

    @property
    def text(self) -> str:
        return self.bytes.decode(errors="replace")

    def screen(self) -> list[str]:
        """The lines that stay, trailing space cut."""
        rows, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.text):
            if part == "\r":
                column = 0
            elif part == "\n":
                row, rows = row + 1, rows + [""] * (row + 1 == len(rows))
            elif part.startswith("\x1b["):
                if part.endswith("A"):
                    row = max(0, row - int(part[2:-1] or 1))
                elif part.endswith("J"):
                    rows[row:] = [rows[row][:column]]
            else:
                rows[row] = rows[row].ljust(column)[:column] + part + rows[row][column + len(part) :]
                column += len(part)
        return [line.rstrip() for line in rows]

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            new = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.bytes += new
        return bool(new)


def take_terminal() -> None:
    """Ctrl-C reaches whoever has the terminal as the one of its session."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
