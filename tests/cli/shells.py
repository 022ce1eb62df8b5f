"""zsh and fish with the completion script read: what they make of typed words."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time

from command import Home
from terminal import take_terminal

#: Reads nothing of the user's. Ctrl-X prints the line that is being edited.
_ZSH = "PS1='> '; autoload -U compinit && compinit -D -u; source ./script; show() { print -r -- \"<<$BUFFER>>\" }; zle -N show; bindkey '^X' show\n"


def fish_completes(home: Home, typed: str) -> list[str]:
    """The words that fish offers for the last one, as its own command lists them."""
    ask = f"source ./script; complete --do-complete '{typed}'"
    done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, check=True, cwd=home.path, env=home.environment(), timeout=60)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def zsh_completes(home: Home, typed: str) -> str:
    """What stands on the line of an interactive zsh when Tab was pressed behind `typed`."""
    ours, theirs = pty.openpty()
    settings = home.environment({"TERM": "dumb", "LC_ALL": "C.UTF-8"})
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=home.path, env=settings, start_new_session=True,
                             preexec_fn=take_terminal)  # fmt: skip
    os.close(theirs)
    try:
        _press(ours, _ZSH + "\x18")
        _line(ours)
        _press(ours, typed + "\t\x18")
        return _line(ours).strip()
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def _press(terminal: int, keys: str) -> None:
    os.write(terminal, keys.encode())


def _line(terminal: int) -> str:
    """What the next Ctrl-X printed."""
    seen, end = "", time.monotonic() + 60
    while not (found := re.search(r"<<([^$]*?)>>", seen)):
        assert time.monotonic() < end, seen
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 1 << 16).decode(errors="replace")
    return found[1]
