"""`python -m planish.oracle`: serves the oracle on descriptor 3 until it closes."""

from __future__ import annotations

import os
import sys

from planish.errors import PlanishError
from planish.wire import Channel, die_with_parent, serve


def main() -> int:
    die_with_parent()
    try:
        channel = Channel.of_fd(3)
    except PlanishError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return 2
    # The oracle makes and drops fp64 copies all the time. In huge pages they cost half as much: most of it was page faults. Only here:
    # what is timed runs as the user would run it.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    from planish.oracle.service import Service  # after the channel: importing torch takes seconds

    serve(channel, Service().handlers())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the other side is gone: no time for the interpreter's and torch's own teardown


if __name__ == "__main__":
    sys.exit(main())
