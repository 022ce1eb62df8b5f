"""Imports the libraries that models come from, as far as they can be imported beside this torch."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys

import torch

LIBRARIES = ("transformers", "diffusers", "timm", "torchvision", "torchaudio")
#: Operators for which torchvision registers shapes when it is imported. Its compiled part, which declares them, does not load beside a torch for CPUs.
_DECLARED = ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_kept: list[torch.library.Library] = []  # a declaration lasts as long as its library


def import_torchvision() -> None:
    """With the names alone of operators that it cannot load: models that call none of them run, and timm imports it. Raises what the import raises."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _kept.append(torch.library.Library("torchvision", "FRAGMENT"))
        for schema in _DECLARED:
            _kept[0].define(schema)
        importlib.import_module("torchvision")


def versions() -> tuple[dict[str, str], dict[str, str]]:
    """Of the libraries that can be imported here; and of the others why not."""
    found, missing = {"torch": torch.__version__}, {}
    with contextlib.suppress(Exception):  # whoever needs it says so below
        import_torchvision()
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
