"""Lets torchvision's Python part be imported where its compiled part does not load, as beside a torch for CPUs: in every process of the environment that
`make setup-models` makes, since transformers and timm import it. Models that call its operators do not run."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

#: Operators of the compiled part for which torchvision registers shapes when it is imported.
_SCHEMAS = ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_kept: list[Any] = []  # a declaration lasts as long as its library


class _First(MetaPathFinder):
    """Declares the operators' names when torchvision is asked for, and finds nothing itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torchvision" and not _kept:
            import torch

            _kept.append(torch.library.Library("torchvision", "FRAGMENT"))
            for schema in _SCHEMAS:
                _kept[0].define(schema)


sys.meta_path.insert(0, _First())
