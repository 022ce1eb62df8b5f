"""Which line of the user's own source asked for an operator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import fx

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TORCH = str(Path(torch.__file__).parent)


def source_of(node: fx.Node) -> dict[str, Any] | None:
    """{file, line} of the innermost frame outside PyTorch that export kept for the node; None where it kept none. The file goes by its
    name alone: a graph is shipped, and the folders of whoever made it are nobody's business."""
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    if not own:
        return None
    file, line = own[-1]
    return {"file": Path(file).name, "line": line}
