"""Attention over packed sequences: one node whichever of PyTorch's operators is called, its reference, its noise, and offsets that stay such."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from planish.capture.export import capture
from planish.capture.packed_attention import ATTENTION, packed_attention
from planish.errors import PlanishError
from planish.oracle import regimes
from planish.oracle.interpret import Double, Interpreter
from planish.oracle.noise import Replay
from planish.oracle.promoted import in_double, named, stands_for
from torch import nn

varlen = pytest.importorskip("torch.nn.attention.varlen")

LENGTHS, KEYS = (7, 0, 13, 1, 6), (9, 4, 0, 11, 6)
HEADS, SHARED, FEATURES = 4, 2, 16


def offsets(lengths: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor((0, *lengths), dtype=torch.int32).cumsum(0, dtype=torch.int32)


def drawn(dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = [(sum(LENGTHS), HEADS), (sum(KEYS), SHARED), (sum(KEYS), SHARED)]
    tensors = [torch.randn(n, heads, FEATURES, generator=generator).to(dtype) for n, heads in sizes]
    return [*tensors, offsets(LENGTHS), offsets(KEYS)]


def visible(queries: int, keys: int, window: tuple[int, int]) -> torch.Tensor:
    place = torch.arange(queries)[:, None] + keys - queries
    key = torch.arange(keys)
    hidden = torch.zeros(queries, keys, dtype=torch.bool)
    if window[1] >= 0:
        hidden |= key > place + window[1]
    if window[0] >= 0:
        hidden |= key < place - window[0]
    return ~hidden


def wanted(tensors: list[torch.Tensor], window: tuple[int, int], scale: float | None = None) -> torch.Tensor:
    """By scaled_dot_product_attention, which gives zeros to a query that sees no key."""
    q, k, v = (t.double() for t in tensors[:3])
    out = torch.zeros_like(q)
    for (a, b), (c, d) in zip(pairwise(tensors[3].tolist()), pairwise(tensors[4].tolist()), strict=True):
        if a == b or c == d:
            continue
        one = [t.transpose(0, 1)[None] for t in (q[a:b], k[c:d], v[c:d])]
        mask = visible(b - a, d - c, window)
        found = F.scaled_dot_product_attention(*one, attn_mask=mask, scale=scale, enable_gqa=True)[0].transpose(0, 1)
        out[a:b] = torch.where(mask.any(-1)[:, None, None], found, 0.0)
    return out


class _Wrapped(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor) -> torch.Tensor:
        return varlen.varlen_attn(q, k, v, cu_q, cu_k, max(LENGTHS), max(KEYS), enable_gqa=True, **self.how) * 2  # type: ignore[no-any-return]


class _Operator(nn.Module):
    def __init__(self, left: int | None, causal: bool, **more: Any) -> None:
        super().__init__()
        self.left, self.causal, self.more = left, causal, more

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor) -> torch.Tensor:
        found = torch.ops.aten._flash_attention_forward(
            q, k, v, cu_q, cu_k, max(LENGTHS), max(KEYS), 0.0, self.causal, False, window_size_left=self.left, **self.more
        )
        return found[0] * 2  # type: ignore[no-any-return]


CALLS = [
    (_Wrapped(), (-1, -1), None),
    (_Wrapped(window_size=(-1, 0)), (-1, 0), None),
    (_Wrapped(window_size=(3, 0), scale=0.5), (3, 0), 0.5),
    (_Wrapped(window_size=(2, 4)), (2, 4), None),
    (_Operator(None, False), (-1, -1), None),
    (_Operator(5, True), (5, 0), None),
]


@pytest.mark.parametrize(("model", "window", "scale"), CALLS)
def test_a_call_is_one_node_with_its_reference(model: nn.Module, window: tuple[int, int], scale: float | None, tmp_path: Path) -> None:
    tensors = drawn()
    captured = capture(model, tuple(tensors), {}, tmp_path)
    assert [node["op"] for node in captured.graph["nodes"]] == [f"aten.{ATTENTION}.default", "aten.mul.Tensor"]
    node = captured.graph["nodes"][0]
    assert [arg["name"] for arg in node["args"][:5]] == ["query", "key", "value", "cum_seq_q", "cum_seq_k"]
    assert node["outs"] == [node["outs"][0], None, None, None, None]  # what nothing reads has no value
    inputs = dict(zip([i["value"] for i in captured.graph["inputs"]], captured.flat_inputs(tuple(tensors), {}), strict=True))
    result = captured.graph["outputs"][0]["value"]
    run = Interpreter(captured, range(len(captured.nodes)))
    exact = run.run(inputs, [result], Double())[result]
    assert torch.allclose(exact, 2 * wanted(tensors, window, scale), atol=1e-12)
    read = frozenset(captured.nodes[:1])
    replays = [run.run(inputs, [result], Replay(torch.device("cpu"), seed, read))[result] for seed in (1, 2)]
    for noisy in replays:
        off = (noisy - exact).abs()
        assert 0 < float(off.max()) < 0.05  # a rounding of weights, and one of results, to bfloat16
        assert float(noisy[exact == 0].abs().max()) < 1e-38  # of no keys nothing is summed
    assert not torch.equal(*replays)


def test_what_has_no_reference_is_refused_by_name(tmp_path: Path) -> None:
    slopes = torch.ones(HEADS)

    class Sloped(_Operator):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor) -> torch.Tensor:
            found = torch.ops.aten._flash_attention_forward(q, k, v, cu_q, cu_k, 13, 11, 0.0, False, False, alibi_slopes=slopes)
            return found[0]  # type: ignore[no-any-return]

    with pytest.raises(PlanishError, match=r"packed sequences.* with slopes") as refusal:
        capture(Sloped(None, False), tuple(drawn()), {}, tmp_path)
    assert refusal.value.kind == "unsupported_op"
    with pytest.raises(ValueError, match="no reference"):
        packed_attention(*drawn(torch.float64), 13, 11, 0.5)


def test_the_reference_takes_used_keys_batches_and_refuses_offsets_that_no_sequences_have() -> None:
    q, k, v, cu_q, cu_k = drawn(torch.float64)
    used = torch.tensor([3, 4, 0, 20, 1], dtype=torch.int32)
    found = packed_attention(q, k, v, cu_q, cu_k, 13, 11, seqused_k=used)[0]
    ends = [min(c + int(n), d) for (c, d), n in zip(pairwise(cu_k.tolist()), used, strict=True)]
    kept = torch.cat([torch.arange(c, end) for c, end in zip(cu_k.tolist(), ends, strict=False)])
    shorter = offsets(tuple(end - c for c, end in zip(cu_k.tolist(), ends, strict=False)))
    assert found is not None and torch.allclose(found, wanted([q, k[kept], v[kept], cu_q, shorter], (-1, -1)))
    batch = [torch.randn(2, n, heads, 8, dtype=torch.float64) for n, heads in ((5, 4), (7, 2), (7, 2))]
    out, sums = packed_attention(*batch, None, None, 5, 7, is_causal=True)[:2]
    assert out is not None and sums is not None and out.shape == batch[0].shape and sums.shape == (2, 4, 5)
    heads = [t.transpose(1, 2) for t in batch]
    mask = visible(5, 7, (-1, 0))
    assert torch.allclose(out, F.scaled_dot_product_attention(*heads, attn_mask=mask, enable_gqa=True).transpose(1, 2))
    scores = heads[0] @ heads[1].repeat_interleave(2, 1).transpose(-1, -2) / math.sqrt(8)
    assert torch.allclose(sums, scores.masked_fill(~mask, -math.inf).logsumexp(-1))
    for wrong in ([0, 7, 5, 20, 21, 27], [0, 7, 7, 20, 21, 28], [-1, 7, 7, 20, 21, 27]):
        with pytest.raises(ValueError, match="must not fall"):
            packed_attention(q, k, v, torch.tensor(wrong), cu_k, 13, 11)
    with pytest.raises(ValueError, match="different numbers"):
        packed_attention(q, k, v, cu_q[:-1], cu_k, 13, 11)


class _Paged(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, used: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        more = {"enable_gqa": True, "seqused_k": used, "block_table": table} | self.how
        return varlen.varlen_attn(q, k, v, cu_q, None, max(LENGTHS), max(KEYS), **more) * 2  # type: ignore[no-any-return]


def in_pages(dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The same attention with keys in pages that a table names in no order, and one after the other."""
    q, k, v, cu_q, cu_k = drawn(dtype)
    each, generator = 4, torch.Generator().manual_seed(2)
    most = -(-max(KEYS) // each)
    table = torch.randperm(len(KEYS) * most + 3, generator=generator, dtype=torch.int32)[: len(KEYS) * most].view(len(KEYS), most)
    pages = [torch.full((len(KEYS) * most + 3, each, SHARED, FEATURES), torch.nan, dtype=dtype) for _ in range(2)]
    for n, (begin, count) in enumerate(zip(cu_k.tolist(), KEYS, strict=False)):
        for i in range(count):
            for page, packed in zip(pages, (k, v), strict=True):
                page[int(table[n, i // each]), i % each] = packed[begin + i]
    return [q, *pages, cu_q, torch.tensor(KEYS, dtype=torch.int32), table], [q, k, v, cu_q, cu_k]


@pytest.mark.parametrize(("how", "window"), [({}, (-1, -1)), ({"window_size": (3, 0)}, (3, 0))])
def test_keys_in_pages_that_a_table_names_are_one_node_with_its_reference(how: dict[str, Any], window: tuple[int, int], tmp_path: Path) -> None:
    tensors, packed = in_pages(torch.bfloat16)
    captured = capture(_Paged(**how), tuple(tensors), {}, tmp_path)
    assert [node["op"] for node in captured.graph["nodes"]] == [f"aten.{ATTENTION}.default", "aten.mul.Tensor"]
    inputs = dict(zip([i["value"] for i in captured.graph["inputs"]], captured.flat_inputs(tuple(tensors), {}), strict=True))
    result = captured.graph["outputs"][0]["value"]
    exact = Interpreter(captured, range(len(captured.nodes))).run(inputs, [result], Double())[result]
    assert torch.allclose(exact, 2 * wanted(packed, window), atol=1e-12)
    wide = [named(t.double(), torch.bfloat16) if t.is_floating_point() else t for t in tensors]
    with in_double():
        assert torch.allclose(_Paged(**how)(*wide), exact, atol=1e-12)


def test_tables_that_name_no_pages_are_errors() -> None:
    q, k, v, cu_q, used, table = in_pages(torch.float64)[0]
    with pytest.raises(ValueError, match="outside of the 18"):
        packed_attention(q, k, v, cu_q, None, 13, 11, seqused_k=used, block_table=table + 18)
    for wrong in (None, used[:-1], used + 4):
        with pytest.raises(ValueError, match="as many rows of a table"):
            packed_attention(q, k, v, cu_q, None, 13, 11, seqused_k=wrong, block_table=table)


def test_offsets_are_drawn_as_offsets_of_sequences_no_longer_than_the_call_allows(tmp_path: Path) -> None:
    captured = capture(_Wrapped(), tuple(drawn()), {}, tmp_path)
    places = {i["index"]: i["value"] for i in captured.graph["inputs"]}
    kinds = regimes.label_inputs(captured)
    assert kinds == {places[3]: regimes.Offsets(max(LENGTHS)), places[4]: regimes.Offsets(max(KEYS))}
    like, empty, different = offsets(LENGTHS), 0, set()
    for seed in range(40):
        fresh = regimes.draw_labels(like, kinds[places[3]], torch.Generator().manual_seed(seed))
        lengths = fresh.diff()
        assert fresh.dtype == like.dtype and int(fresh[0]) == 0 and int(fresh[-1]) == int(like[-1])
        assert bool((lengths >= 0).all()) and int(lengths.max()) <= max(LENGTHS)
        empty += int((lengths == 0).any())
        different.add(tuple(fresh.tolist()))
    assert empty >= 30 and len(different) >= 15


@pytest.mark.parametrize(("model", "window", "scale"), CALLS)
def test_a_module_without_a_graph_has_the_same_reference(model: nn.Module, window: tuple[int, int], scale: float | None) -> None:
    tensors = drawn()
    wide = [named(t.double(), torch.bfloat16) if t.is_floating_point() else t for t in tensors]
    with in_double():
        found = model(*wide)
    assert found.dtype == torch.float64 and stands_for(found) == torch.bfloat16
    assert torch.allclose(found, 2 * wanted(tensors, window, scale), atol=1e-12)
