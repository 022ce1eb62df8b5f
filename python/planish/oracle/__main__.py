"""`python -m planish.oracle`: serves the oracle on descriptor 3 until it closes."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from planish.errors import PlanishError
from planish.importing import lasting
from planish.wire import Channel, die_with_parent, keep_memory_private, serve


def refusal(error: ImportError) -> Callable[[Any, Any], Any]:
    """Answers a request with what this Python lacks."""
    kind = "missing_package" if importlib.util.find_spec("torch") and (error.name or "").partition(".")[0] not in ("", "torch") else "no_torch"
    message = f"{sys.executable} cannot import what Planish needs: {error}"

    def refuse(params: Any, fds: Any) -> Any:
        raise PlanishError(kind, message, "install PyTorch there, or set PLANISH_PYTHON to a Python that can import torch")

    return refuse


def main() -> int:
    die_with_parent()
    keep_memory_private()
    try:
        channel = Channel.of_fd(3)
    except PlanishError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return 2
    # A thread more, of numpy's BLAS alone, and there could be no twin.
    single = "OPENBLAS_NUM_THREADS" not in os.environ
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # The oracle makes and drops fp64 copies all the time. In huge pages they cost half as much: most of it was page faults. Only here:
    # what is timed runs as the user would run it.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        with lasting():
            from planish import preload
            from planish.oracle import memory
            from planish.oracle.service import Service  # after the channel: importing torch takes seconds

            preload.for_capture()
            preload.for_task()
            import planish.twin  # what twins share is imported before
    except ImportError as error:
        serve(channel, {"hello": refusal(error)})
        return 0
    if single:
        del os.environ["OPENBLAS_NUM_THREADS"]

    memory.keep_on_host()

    def work(channel: Channel) -> NoReturn:
        service = Service()

        def twin(params: Any, fds: list[int]) -> dict[str, int]:
            if service.asked:
                raise PlanishError("bad_message", "a twin is made before anything else is asked")
            number = planish.twin.twin_beside(fds)
            if number == 0:
                work(Channel.of_fd(3))
            return {"pid": number}

        serve(channel, {**service.handlers(), "twin": twin})
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # the other side is gone: no time for the interpreter's and torch's own teardown

    work(channel)


if __name__ == "__main__":
    sys.exit(main())
