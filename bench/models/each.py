"""One process a model, and one row of JSON."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from subjects import SUBJECTS


def options_with(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What both benchmarks take, and what `parser` adds. `only` is a list of models."""
    parser.add_argument("--only", required=True, type=lambda text: text.split(","), help=", ".join(SUBJECTS))
    parser.add_argument("--torch", default="eager,graph")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if unknown := [name for name in options.only if name not in SUBJECTS]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(SUBJECTS)}")
    return options


def run_each(options: argparse.Namespace, row_of: Callable[[str, argparse.Namespace], dict[str, Any]]) -> None:
    """Prints a row of each model, and adds it to `options.rows` where that is a file; several models have a process each."""
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
