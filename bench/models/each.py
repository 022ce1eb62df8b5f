"""One process a model, and one row of JSON."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from subjects import SUBJECTS


def options_with(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What both benchmarks take, and what `parser` adds. `only` is a list of models."""
    parser.add_argument("--only", required=True, type=lambda text: text.split(","), help=", ".join(SUBJECTS))
    parser.add_argument("--torch", default="eager,graph")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--together", type=float, metavar="SECONDS",
                        help="all models are prepared at once, for so long at most, and then timed one after the other; who is late is left out")  # fmt: skip
    parser.add_argument("--gate", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.only if name not in SUBJECTS]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(SUBJECTS)}")
    return options


def _together(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gate, begin = Path(folder), time.monotonic()
        running = {name: subprocess.Popen([sys.executable, *sys.argv, f"--only={name}", f"--gate={gate}"]) for name in options.only}

        def unready() -> list[str]:
            return [name for name, process in running.items() if process.poll() is None and not (gate / f"{name}.ready").exists()]

        while (late := unready()) and time.monotonic() - begin < options.together:
            time.sleep(0.5)
        for name in late:
            running[name].kill()
            print(f"{name} was not ready after {options.together:.0f} s", file=sys.stderr)
        (gate / "open").touch()
        for process in running.values():
            process.wait()


@contextlib.contextmanager
def alone(name: str, options: argparse.Namespace) -> Iterator[None]:
    """What is timed, where several models were prepared at once: when all are ready, and one at a time."""
    if options.gate is None:
        yield
        return
    (options.gate / f"{name}.ready").touch()
    while not (options.gate / "open").exists():
        time.sleep(0.2)
    with (options.gate / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_each(options: argparse.Namespace, row_of: Callable[[str, argparse.Namespace], dict[str, Any]]) -> None:
    """Prints a row of each model, and adds it to `options.rows` where that is a file; several models have a process each."""
    if len(options.only) > 1 and options.together:
        _together(options)
        return
    if len(options.only) > 1:
        for name in options.only:  # the last of two options counts
            subprocess.run([sys.executable, *sys.argv, f"--only={name}"], check=False)
        return
    (name,) = options.only
    with torch.no_grad():
        try:
            row = row_of(name, options)
        except (Exception, SystemExit) as error:
            row = {"model": name, "error": f"{type(error).__name__}: {error}"[:2000], "traceback": traceback.format_exc()[-3000:]}
    if options.rows:
        with options.rows.open("a") as file:
            file.write(json.dumps(row, default=str) + "\n")
    print(json.dumps(row, default=str))
