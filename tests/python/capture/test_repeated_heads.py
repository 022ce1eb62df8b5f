"""Attention over keys that are repeated for several heads reads them once, and gives the same."""

from pathlib import Path

import pytest
import torch
from planish.capture import capture
from planish.oracle.interpret import Interpreter, Mode
from torch.nn import functional


class Attends(torch.nn.Module):
    def __init__(self, keys: int, values: int, dim: int = 2) -> None:
        super().__init__()
        self.keys, self.values, self.dim = keys, values, dim

    def several(self, x: torch.Tensor, times: int) -> torch.Tensor:
        batch, heads, places, features = x.shape
        if self.dim == 1:  # all heads, and again
            return x[:, None].expand(batch, times, heads, places, features).reshape(batch, times * heads, places, features)
        return x[:, :, None].expand(batch, heads, times, places, features).reshape(batch, heads * times, places, features)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, self.several(k, self.keys), self.several(v, self.values), is_causal=True)


@pytest.mark.parametrize(("keys", "values", "dim", "shared"), [(2, 2, 2, True), (4, 2, 2, False), (2, 2, 1, False)], ids=["both", "unlike", "in turn"])
def test_repeated_heads(tmp_path: Path, keys: int, values: int, dim: int, shared: bool) -> None:
    torch.manual_seed(0)
    module = Attends(keys, values, dim)
    args = torch.randn(2, 8, 6, 8), torch.randn(2, 8 // keys, 6, 8), torch.randn(2, 8 // values, 6, 8)
    found = capture(module, args, {}, tmp_path)
    (node,) = (n for n in found.graph["nodes"] if "scaled_dot" in n["op"])
    given = {a["name"]: a for a in node["args"]}
    assert bool(given["enable_gqa"].get("bool")) is shared
    assert any("expand" in n["op"] for n in found.graph["nodes"]) is not shared
    wanted = [o["value"] for o in found.graph["outputs"]]
    inputs = {i["value"]: t for i, t in zip(found.graph["inputs"], found.flat_inputs(args, {}), strict=True)}
    got = Interpreter(found, range(len(found.nodes))).run(inputs, wanted, Mode())[wanted[0]]
    torch.testing.assert_close(got, module(*args))
