"""Imports the libraries that models come from, as far as they can be imported beside this torch."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata

import torch

LIBRARIES = ("transformers", "diffusers", "timm", "torchvision", "torchaudio")


def versions() -> tuple[dict[str, str], dict[str, str]]:
    """Of the libraries that can be imported here; and of the others why not."""
    found, missing = {"torch": torch.__version__}, {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.import_module(name).__version__
        except Exception as error:  # whatever a package raises beside a torch that it was not made for
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
    return found, missing


if __name__ == "__main__":  # those that were installed and cannot be imported, a line each
    for name in versions()[1]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(name)
            print(name)
