"""A guest's own /tmp and current folder, and a home with nothing in it (docs/sandbox.md): taken before the first line of a solution runs.

Public solutions write to /tmp and to where they were started. Here both are folders of the guest's scratch. What is still to be read
below the real /tmp, or below the user's home (the solution, its task, an environment that lies there), is named to whoever made the
guest's place, and stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_MOST_ENTRIES, _MOST_COPIED, _COPIED_TOGETHER = 4096, 1 << 20, 64 << 20
_MOST_LINKS = 40
_PLACES = ("PATH", "PREFIX", "_HOME", "_ENV", "PLANISH_RT", "_CACHE", "PLANISH_SITE_PACKAGES")  # ends of the names of variables
_ASKS, _FOLDER = "PLANISH_GUEST_TMP", "PLANISH_GUEST_FOLDER"
_refused: list[bool] = []  # once taken: whether there was no /tmp to be had


def _current() -> Path:
    try:
        return Path.cwd()
    except OSError:  # removed
        return Path("/")


_STARTED_IN = _current()


def where(path: str | Path) -> Path:
    """The path as it was meant before the current folder changed."""
    return _STARTED_IN / path


def take(*needed: Path) -> None:
    """Once in a process; nothing where it is no guest that may. Raises OSError where the place that was promised is not had."""
    asks, folder = os.environ.pop(_ASKS, None), os.environ.pop(_FOLDER, None)
    if folder is None:
        return
    # Of a home it would be anything: what the solution and its task need lies beside them.
    at_home = _home() is not None and _within(os.path.realpath(_STARTED_IN), _home())
    entries = [] if at_home else list(_entries(_STARTED_IN))
    if asks is not None:
        # Where it was started is imported from where Python was told to (-m), and for no other reason.
        named = [path for path in _environment() if not (at_home and path == str(_STARTED_IN))]
        shown: set[str] = set()
        links: dict[str, str] = {}
        for path in (*_with_neighbours(needed), *named, *_model_caches(), *([] if at_home else [str(_STARTED_IN)])):
            shown.add(_followed(path, links))
        # Files that it reads by name stay in any folder, also in one that is hidden from guests.
        _ask(int(asks), [*_outermost({path for path in shown if _lies_hidden(path)}), *(os.path.realpath(path) for path in needed)])
        for link, target in links.items():
            with contextlib.suppress(OSError):  # there, in a folder that stays
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.symlink(target, link)
    _refused.append(asks is None)
    os.chdir(folder)
    for path, size in entries:
        with contextlib.suppress(OSError):
            _place(path, size)


def decline() -> None:
    """For code of others that needs none: nobody asks for it from here on."""
    asks, _ = os.environ.pop(_ASKS, None), os.environ.pop(_FOLDER, None)
    if asks is not None:
        os.close(int(asks))


def advice(error: BaseException | None) -> str:
    """What to add of a file that could not be written where no own /tmp was to be had; empty in every other case."""
    while error is not None and any(_refused):
        named = error.filename if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.EPERM) else None
        if isinstance(named, str | bytes) and os.path.abspath(os.fsdecode(named)).startswith("/tmp/"):
            return (
                " (this machine allows solutions no /tmp of their own: they may write to the folder that they are started in, and below $TMPDIR, "
                "which Python's tempfile uses)"
            )
        error = error.__cause__ or error.__context__
    return ""


def _tmp() -> str:
    return os.path.realpath("/tmp")


def _home() -> str | None:
    """None where there is none, it lies in /tmp, which is hidden by itself, or holds everything."""
    home = os.path.realpath(os.environ.get("HOME") or "/")
    return None if home == "/" or _within(home, _tmp()) or _within(_tmp(), home) or _within("/usr/lib", home) else home


def _within(path: str, folder: str | None) -> bool:
    return folder is not None and (path == folder or path.startswith(folder + "/"))


def _lies_hidden(path: str) -> bool:
    return path.startswith(_tmp() + "/") or (path != _home() and _within(path, _home()))


def _model_caches() -> Iterator[str]:
    """Weights that tasks load by name, where their libraries keep them unless told otherwise; not what lies beside those."""
    if (home := _home()) is not None:
        hub = os.environ.get("HF_HOME") or f"{home}/.cache/huggingface"
        yield from (f"{hub}/hub", f"{hub}/modules", f"{home}/.cache/torch")


def _ask(descriptor: int, paths: list[str]) -> None:
    with socket.socket(fileno=descriptor) as door:
        door.sendall(b"".join(os.fsencode(path) + b"\0" for path in paths) or b"\0")
        if door.recv(1) != b"+":
            raise OSError(errno.EIO, "no /tmp of its own was made")


def _outermost(paths: set[str]) -> list[str]:
    """Without those that lie in others: the request is one packet."""
    return sorted(path for path in paths if not any(str(folder) in paths for folder in Path(path).parents))


def _with_neighbours(needed: tuple[Path, ...]) -> Iterator[str]:
    """Files with what lies beside them, unless that is all of /tmp."""
    for path in needed:
        yield str(path)
        for form in (path, path.resolve()):
            if not form.is_dir():
                yield str(form.parent)


def _environment() -> Iterator[str]:
    """What this interpreter imports from, and what the environment names: compilers, headers, libraries."""
    named = [*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, sys.executable]
    for module in list(sys.modules.values()):
        facts = getattr(module, "__dict__", {})  # not its attributes: asking some for one imports what they stand for
        file = facts.get("__file__")
        named.append(os.path.dirname(file) if isinstance(file, str) else "")
        if "__editable__" in str(facts.get("__name__")):  # an installation that lies anywhere
            named += [str(place) for place in dict(facts.get("MAPPING") or {}).values()]
    for name, value in os.environ.items():
        paths = [*value.split(":"), *re.findall(r"/[^:\s,;\"']+", value)]
        # What lies in a home is shown where programs and libraries are looked for by this, and for no other mention of it.
        named += [path for path in paths if (name.endswith(_PLACES) and name != "HF_HOME") or not _within(os.path.realpath(path), _home())]
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        named += [line[line.index("/") :].rstrip("\n") for line in maps if "/" in line]
    for path in dict.fromkeys(named):
        if path.startswith("/") and "\0" not in path:
            yield path
            # A compiler's headers and libraries lie beside it; beside a user's own programs lies everything else.
            if os.path.basename(path) == "bin" and os.path.dirname(os.path.realpath(path)) not in (_home(), f"{_home()}/.local"):
                yield os.path.dirname(path)


def _followed(path: str, links: dict[str, str]) -> str:
    """Where it leads; `links` gains what of /tmp was a symbolic link on the way. Empty where there is nothing."""
    at, ahead, followed = "/", [*reversed(path.split("/"))], 0
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        step = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        try:
            target = os.readlink(step)
        except OSError:
            at = step
            continue
        if (followed := followed + 1) > _MOST_LINKS:
            return ""
        if _lies_hidden(step):
            links[step] = target
        ahead += reversed(target.split("/"))
        at = "/" if target.startswith("/") else at
    return at if os.path.exists(at) else ""


def _entries(folder: Path) -> Iterator[tuple[str, int]]:
    """What lies there, with the size of files that are copied, else -1. Nothing of /tmp itself, nor of a folder that is very full."""
    found: list[tuple[str, int]] = []
    left = _COPIED_TOGETHER
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for entry in listing:
            size = entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else -1
            size = size if size <= min(_MOST_COPIED, left) else -1
            left -= max(size, 0)
            found.append((entry.path, size))
            if len(found) > _MOST_ENTRIES:
                return
    if os.path.realpath(folder) != _tmp():
        yield from found


def _place(path: str, size: int) -> None:
    """In the current folder. What is small is a copy, to be written anew by who generates a source there; to the rest a link leads."""
    name = os.path.basename(path)
    if size >= 0:
        shutil.copyfile(path, name)
    else:
        os.symlink(path, name)


def main() -> None:
    """`python -m planish.runner.own_tmp NEEDED… -- COMMAND…`: takes it, and becomes the command."""
    at = sys.argv.index("--")
    command = sys.argv[at + 1 :]
    programs = [Path(word) for word in command if word.startswith("/") and os.access(word, os.X_OK) and os.path.isfile(word)]
    prefixes = [program.resolve().parents[1] for program in programs if len(program.resolve().parents) > 1]
    take(*(where(word) for word in sys.argv[1:at]), *programs, *prefixes)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
