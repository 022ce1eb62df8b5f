"""`python -m planish.triton_worker`: answers the requests of planish-compiler (docs/formats/wire.md) on descriptor 3 until it closes.

A kernel's source is Python and runs when it is compiled. Each compilation therefore happens in a child of its own, which may write to the job's
folder alone; this process looks only at whether it ended well and at the text it left. The child starts with Triton already imported.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
from pathlib import Path
from typing import Any

from planish.errors import PlanishError
from planish.wire import Channel, die_with_parent, serve

_DONE, _REFUSED = 0, 10
_ERROR_BYTES = 65536
_warm = False


def hello(params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    try:
        import triton
    except ImportError as error:
        message = f"there is no Triton to compile with: {error}"
        raise PlanishError("no_compiler", message, "pip install triton into the Python that has torch, or set PLANISH_PYTHON") from error
    global _warm
    if not _warm:
        from planish.triton_worker.build import warm_up

        warm_up()
        _warm = True
    return {"triton": str(triton.__version__)}


def compile_kernel(params: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """Leaves kernel.cubin, kernel.ptx and kernel.log in `folder`."""
    hello({}, [])
    folder = Path(params["folder"])
    limit = float(params.get("limit_seconds", 60))
    child = os.fork()
    if child == 0:
        os._exit(_in_child(params, folder))
    with contextlib.suppress(OSError):
        os.setpgid(child, child)  # here as well: whoever comes first
    status = _wait(child, limit)
    if status is None:
        raise PlanishError("compile_timeout", f"compiling kernel {params['entry']} took longer than {limit:.0f} s")
    if status == _DONE:
        return {}
    try:
        with (folder / "error.txt").open("rb") as file:
            text = file.read(_ERROR_BYTES).decode(errors="replace")
    except OSError:
        text = ""
    if os.WIFSIGNALED(status):
        text = f"Triton died of signal {os.WTERMSIG(status)}\n{text}"
    raise PlanishError("compile_error", text.strip() or f"Triton ended with status {os.waitstatus_to_exitcode(status)}")


def _wait(child: int, limit: float) -> int | None:
    """The child's wait status; None where it had to be killed."""
    pidfd = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([pidfd], [], [], limit)
        if not ready:
            # ptxas is a child of the child and in its group.
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        _, status = os.waitpid(child, 0)
        return status
    finally:
        os.close(pidfd)


def _in_child(params: dict[str, Any], folder: Path) -> int:
    try:
        os.setpgid(0, 0)
        os.closerange(3, 256)
        die_with_parent()
        from planish.triton_worker.build import build
        from planish.triton_worker.sandbox import confine

        confine(folder)
        build(params["source"], params["entry"], list(params["flags"]), params["arch"], folder)
        return _DONE
    except BaseException as error:  # whatever foreign source raises is the compilation's failure
        text = describe(error)
        (folder / "error.txt").write_text(text)
        return _REFUSED


def describe(error: BaseException) -> str:
    """The lines a reader needs: Triton's own say where, those of Python's syntax errors too."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 4:
        text = str(cause).strip()
        if text and not any(text in part for part in parts):
            parts.append(f"{type(cause).__name__}: {text}")
        cause = cause.__cause__
    return "\n".join(parts) or type(error).__name__


def main() -> None:
    faulthandler.enable()
    die_with_parent()
    if "TRITON_INTERPRET" in os.environ:  # would leave nothing to compile
        del os.environ["TRITON_INTERPRET"]
    serve(Channel.of_fd(3), {"hello": hello, "compile": compile_kernel})


if __name__ == "__main__":
    main()
