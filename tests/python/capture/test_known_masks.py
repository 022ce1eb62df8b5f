"""Masks of attention that are known at capture are said by structure, and others are left alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import capture
from planish.oracle.interpret import Interpreter, Mode
from torch.nn import functional

QUERIES, KEYS = 6, 9


class Attends(torch.nn.Module):
    def __init__(self, mask: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        place, query = torch.arange(k.shape[2], device=k.device), torch.arange(q.shape[2], device=q.device)[:, None]
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(place, query))


def nothing(place: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return ((place + query) >= 0).expand(2, 1, QUERIES, KEYS)


def later(place: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    same = (place - torch.arange(KEYS)).cumsum(0) == 0  # one sequence
    return (place <= query)[None, None] & same


def window(place: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return (place <= query + 3) & (place > query - 2)


def old(place: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return place >= query + 1


def gap(place: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return (place - query) % 3 != 1


def by_head(place: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return torch.stack([place <= query, place >= query])[None]


CASES: list[tuple[Any, bool, bool, int]] = [
    (nothing, False, False, 0),
    (later, False, True, 0),
    (window, True, False, 2),
    (old, True, False, 1),
    (gap, True, False, -1),
    (by_head, True, False, -1),
]


@pytest.mark.parametrize(("mask", "has_mask", "causal", "tests"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_mask_is_said_by_structure(tmp_path: Path, mask: Any, has_mask: bool, causal: bool, tests: int) -> None:
    torch.manual_seed(0)
    module = Attends(mask)
    args = torch.randn(2, 2, QUERIES, 8), torch.randn(2, 2, KEYS, 8), torch.randn(2, 2, KEYS, 8)
    found = capture(module, args, {}, tmp_path)
    (node,) = (n for n in found.graph["nodes"] if "scaled_dot" in n["op"])
    given = {a["name"]: a for a in node["args"]}
    assert ("value" in given["attn_mask"]) == has_mask
    assert given["is_causal"].get("bool") is causal
    if tests >= 0:
        ops = [n["op"] for n in found.graph["nodes"]]
        assert sum(op.startswith(("aten.le.", "aten.ge.", "aten.gt.", "aten.lt.")) for op in ops) == tests
        assert not any("cumsum" in op for op in ops)
    wanted = [o["value"] for o in found.graph["outputs"]]
    inputs = {i["value"]: t for i, t in zip(found.graph["inputs"], found.flat_inputs(args, {}), strict=True)}
    got = Interpreter(found, range(len(found.nodes))).run(inputs, wanted, Mode())[wanted[0]]
    torch.testing.assert_close(got, module(*args), equal_nan=True)
