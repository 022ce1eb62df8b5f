"""`python -m planish …`: the `planish` command with this Python."""

from __future__ import annotations

import os
import sys

from planish.errors import PlanishError
from planish.session import launcher


def main() -> None:
    os.environ.setdefault("PLANISH_PYTHON", sys.executable)
    try:
        program = launcher()
        os.execv(program, ["planish", *sys.argv[1:]])
    except (PlanishError, OSError) as error:
        print(f"error: {error}\nhint: run make build, install planish again, or set PLANISH_BIN", file=sys.stderr)
        raise SystemExit(3) from error


main()
