#!/usr/bin/env python3
"""The table of examples/suite/README.md, from the tasks themselves: class, dtypes, shapes and bytes of every task at its full size.

    python bench/suite_table.py            # prints it
    python bench/suite_table.py --write    # writes it into the README

No memory is taken: the tasks run on tensors without contents."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

SUITE = Path(__file__).resolve().parents[1] / "examples" / "suite"
README = SUITE / "README.md"
BEGIN, END = "<!-- table: made by bench/suite_table.py --write -->\n", "<!-- end of table -->"

#: the first word of a task's file, and what it stands for
CLASSES = {
    "pointwise": "pointwise",
    "norm": "norms",
    "reduce": "reductions",
    "scan": "scans",
    "pool": "pooling",
    "loss": "losses",
    "gemm": "GEMM chains",
    "batched": "batched and structured GEMM",
    "conv1d": "convolution, 1-D",
    "conv2d": "convolution, 2-D",
    "conv3d": "convolution, 3-D",
    "depthwise": "depthwise convolution",
    "transposed": "transposed convolution",
    "attention": "attention",
    "recurrent": "recurrent",
    "network": "small networks",
}
_SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class Entry:
    name: str
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    parameters: list[torch.Tensor]
    training: bool  # whether a layer in it behaves as in training

    @property
    def kind(self) -> str:
        return CLASSES[self.name.split("_")[0]]

    @property
    def dtypes(self) -> list[str]:
        """Of what is computed with: those of floating point, or of the outputs where none is."""
        tensors = [t for t in (*self.inputs, *self.outputs, *self.parameters) if t.is_floating_point()]
        return sorted({_name(t.dtype) for t in tensors or self.outputs})

    @property
    def sizes(self) -> set[int]:
        return {size for t in self.inputs for size in t.shape}

    @property
    def megabytes(self) -> float:
        """What must be read and written at least: inputs, parameters and outputs, each once."""
        return sum(t.numel() * t.element_size() for t in (*self.inputs, *self.outputs, *self.parameters)) / 1e6


def _name(dtype: torch.dtype) -> str:
    return _SHORT.get(dtype, str(dtype).removeprefix("torch."))


def _shapes(tensors: list[torch.Tensor]) -> str:
    """`2 × bf16 [8, 64]`: equal ones that follow each other stand once."""
    found: list[tuple[int, str]] = []
    for t in tensors:
        text = f"{_name(t.dtype)} {list(t.shape)}"
        found[-1:] = [(found[-1][0] + 1, text)] if found and found[-1][1] == text else [*found[-1:], (1, text)]
    return ", ".join(f"{count} × {text}" if count > 1 else text for count, text in found)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"planish_suite_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entry(path: Path) -> Entry:
    with torch.device("meta"), torch.no_grad():
        task = load(path)
        model = task.Model(*task.get_init_inputs())
        inputs = task.get_inputs()
        outputs = model(*inputs)
    tensors = [[t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)] for tree in (inputs, outputs)]
    parameters = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
    training = any(m.training for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm))
    return Entry(path.stem, tensors[0], tensors[1], parameters, training)


def entries() -> list[Entry]:
    order = list(CLASSES)
    found = [entry(path) for path in sorted(SUITE.glob("*.py"))]
    return sorted(found, key=lambda e: (order.index(e.name.split("_")[0]), e.name))


def table(found: list[Entry]) -> str:
    lines = ["| class | task | dtype | inputs | outputs | MB |", "|---|---|---|---|---|---|"]
    for e in found:
        lines.append(f"| {e.kind} | `{e.name}` | {', '.join(e.dtypes)} | {_shapes(e.inputs)} | {_shapes(e.outputs)} | {e.megabytes:.0f} |")
    return "\n".join(lines) + "\n"


def replaced(text: str, made: str) -> str:
    """The README with this table. Raises ValueError where it has no place for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for the table: {BEGIN.strip()} … {END}")
    return before + begin + made + end + after


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write it into the README")
    options = parser.parse_args()
    made = table(entries())
    if options.write:
        README.write_text(replaced(README.read_text(), made))
    else:
        print(made, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
