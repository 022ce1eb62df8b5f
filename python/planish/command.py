"""The `planish` command of an installed package: the program beside this file, with the Python that it was installed for."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    package = Path(__file__).resolve().parent
    os.environ.setdefault("PLANISH_PYTHON", sys.executable)
    os.environ.setdefault("PLANISH_PYTHON_PATH", str(package.parent))
    program = package / "bin" / "planish-bin"
    try:
        os.execv(program, ["planish", *sys.argv[1:]])
    except OSError as error:
        print(f"error: {program} cannot be started: {error.strerror}\nhint: install planish again", file=sys.stderr)
        raise SystemExit(3) from error


if __name__ == "__main__":
    main()
