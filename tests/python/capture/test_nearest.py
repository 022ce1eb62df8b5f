"""Images of another size whose elements are the nearest ones: kernels compute PyTorch's, bit for bit, or leave them to PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from planish import rt
from planish.capture import capture
from planish.executor import Executor
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "random_graphs"))

from parts import CppBatch, Tool, cpu_levels

ALONG = [{"scale_factor": 3}, {"scale_factor": 7}, {"size": 7}, {"size": 7, "mode": "nearest-exact"}, {"scale_factor": 3, "mode": "nearest-exact"}]
PLANES: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"size": (8, 15)},
    {"size": (6, 7)},
    {"size": (2, 3)},
    {"size": (7, 3), "mode": "nearest-exact"},
    {"scale_factor": (5, 3), "mode": "nearest-exact"},
]
SPACES: list[dict[str, Any]] = [{"scale_factor": 3}, {"size": (3, 9, 5)}, {"size": (3, 9, 5), "mode": "nearest-exact"}]
# By PyTorch's product 41 times a forty-first is less than 1; a factor that is not the quotient of the sizes.
ODD: list[dict[str, Any]] = [{"scale_factor": 41}, {"scale_factor": 1.7}]


class Resized(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(F.interpolate(image + 1, **how) for image, ways in ((x, ALONG), (y, PLANES + ODD), (z, SPACES)) for how in ways)


@torch.no_grad()
def test_they_are_torchs_bit_for_bit(tmp_path: Path) -> None:
    call = torch.randn(2, 3, 5), torch.randn(2, 3, 4, 5), torch.randn(2, 3, 2, 4, 5)
    graph = capture(Resized(), call, {}, tmp_path).graph
    tool = Tool()
    arch = cpu_levels()[0]
    program = tool.ask({"graph": graph, "target": "cpu", "arch": arch, "programs": 1, "best": True})["programs"][0]["program"]
    tool.close()
    left = [step["args"][-1] for step in program["steps"] if step["kind"] == "aten"]
    assert [[float.fromhex(f) for f in arg["floats"]] for arg in left] == [[41, 41], [1.7, 1.7]]
    batch = CppBatch(tmp_path)
    built = [batch.add(kernel, arch) for kernel in program["kernels"]]
    batch.build()
    for kernel, one in zip(program["kernels"], built, strict=True):
        kernel["entry"] = one.entry
    executor = Executor(program, [one.path for one in built], tmp_path, rt.find_library(), "cpu", effects=[])
    found = executor.run([call[b.index] for b in executor.bindings])
    for ours, theirs, entry in zip(found, Resized()(*call), [e for e in graph["nodes"] if "nearest" in e["op"]], strict=True):
        assert torch.equal(ours, theirs), entry
