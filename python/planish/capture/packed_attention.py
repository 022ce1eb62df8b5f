"""Attention over sequences that lie packed one after the other, whose offsets are a tensor ("varlen").

A graph has one operator for it, `aten._flash_attention_forward`: what PyTorch's `varlen_attn` and older wrappers end in. It is in no type but 16 bits, and
on a GPU alone; what it computes is written down here, for the reference.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

from planish.capture import draws
from planish.capture.source import line_of
from planish.errors import task_error

aten = torch.ops.aten
ATTENTION = "_flash_attention_forward"
#: PyTorch's own operator around it, whose arguments differ from version to version.
_WRAPPED = "torch_attn::_varlen_attn"
#: Names of the wrapper's arguments that the operator calls otherwise.
_RENAMED = {"cu_seq_q": "cum_seq_q", "cu_seq_k": "cum_seq_k"}
_DROPOUT = "dropout"
_DROPPED = {"window_size", "enable_gqa"}
#: Scores that are held at once, over heads and queries.
_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 24}


def is_wrapped(target: Any) -> bool:
    """Whether an operator is the wrapper."""
    return isinstance(target, torch._ops.OpOverload) and target._schema.name == _WRAPPED


def name_packed_attention(graph: fx.Graph, path: Path) -> None:
    """Replaces PyTorch's wrapper by the operator that a graph can hold; one that asks for more than that knows stays. Raises PlanishError
    (unsupported_op) for a call of the operator that has no reference."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is aten._flash_attention_forward.default:
            _refuse(node, draws.bound(node.target, node.args, node.kwargs), path)
        if node.op != "call_function" or not is_wrapped(node.target):
            continue
        call = unwrapped(draws.bound(node.target, node.args, node.kwargs))
        if call is None or any(user.args[1] == 2 for user in node.users):  # the state of a generator that nothing is drawn from
            continue
        _refuse(node, call, path)
        mode = detect_fake_mode([node.args[0].meta["val"]])
        assert mode is not None
        args, kwargs = _positional(call)
        with graph.inserting_before(node):
            made = graph.call_function(aten._flash_attention_forward.default, args, kwargs)
        made.meta = {k: v for k, v in node.meta.items() if k != "val"}
        known_args, known_kwargs = fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])  # type: ignore[misc]
        with mode, torch.no_grad():
            made.meta["val"] = aten._flash_attention_forward.default(*known_args, **known_kwargs)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _refuse(node: fx.Node, call: dict[str, Any], path: Path) -> None:
    why = lacking(call)
    if why and why != _DROPOUT:  # which is a matter of random numbers
        message = f"uses attention over packed sequences{line_of(node)} with {why}, which nothing is proved by"
        raise task_error("unsupported_op", path, message, "add the slopes to the scores of torch.nn.functional.scaled_dot_product_attention")


def unwrapped(given: dict[str, Any]) -> dict[str, Any] | None:
    """The operator's arguments by name, from the wrapper's; None where these say something that it has no word for."""
    left, right = given.get("window_size") or (-1, -1)
    known = {a.name for a in aten._flash_attention_forward.default._schema.arguments}
    call = {_RENAMED.get(name, name): value for name, value in given.items() if name not in _DROPPED}
    if any(value is not None for name, value in call.items() if name not in known):
        return None
    call = {name: value for name, value in call.items() if name in known}
    # A window without keys behind the query is what `is_causal` says, and else would be said twice.
    causal = bool(call.get("is_causal")) or (left, right) == (-1, 0)
    call |= {"dropout_p": 0.0, "return_debug_mask": False, "is_causal": causal}
    return call | {"window_size_left": left, "window_size_right": 0 if causal else right}


def _positional(call: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arguments = aten._flash_attention_forward.default._schema.arguments
    args = tuple(call[a.name] for a in arguments if not a.kwarg_only)
    return args, {a.name: call[a.name] for a in arguments if a.kwarg_only and call.get(a.name) is not None}


def lacking(call: dict[str, Any]) -> str:
    """What of a call `packed_attention` does not compute; empty where it computes all."""
    if call.get("dropout_p"):
        return _DROPOUT
    return "slopes" if call.get("alibi_slopes") is not None else ""


def packed_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cum_seq_q: torch.Tensor | None, cum_seq_k: torch.Tensor | None, max_q: int, max_k: int,
    dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None, window_size_left: int | None = None,
    window_size_right: int | None = None, seqused_k: torch.Tensor | None = None, block_table: torch.Tensor | None = None, **more: Any,
) -> list[torch.Tensor | None]:  # fmt: skip
    """The first two results of `aten._flash_attention_forward`, results and the logarithms of their sums, in any type: sequence by sequence, of [tokens,
    heads, features] with offsets, or of [batch, tokens, heads, features] without. With a table, keys and values are pages [pages, tokens of one, heads,
    features], of which the table names those of each sequence, and `seqused_k` how many tokens it has there. Places count from the last query and the last
    key; a query that sees no key gives zeros, and so do tokens behind the last sequence. Raises ValueError for offsets that no sequences have, for tables
    that name no pages, and for what `lacking` names."""
    if why := lacking({"dropout_p": dropout_p, **more}):
        raise ValueError(f"attention over packed sequences with {why} has no reference")
    packed = cum_seq_q is not None
    queries, keys, values = (t if packed else t.flatten(0, 1) for t in (query, key, value))
    of_queries = _bounds(cum_seq_q, query) if cum_seq_q is not None else [n * query.shape[1] for n in range(query.shape[0] + 1)]
    if block_table is not None:
        places, of_keys = _in_pages(block_table, seqused_k, key, len(of_queries) - 1)
        keys, values = (t.flatten(0, 1)[places] for t in (key, value))
        seqused_k = None
    elif cum_seq_k is not None:
        of_keys = of_queries if cum_seq_k is cum_seq_q else _bounds(cum_seq_k, key)
    else:
        of_keys = [n * key.shape[1] for n in range(key.shape[0] + 1)]
    if len(of_queries) != len(of_keys):
        raise ValueError("queries and keys have different numbers of sequences")
    used = None if seqused_k is None else seqused_k.tolist()
    left, right = (None if n is None or n < 0 else int(n) for n in (window_size_left, 0 if is_causal else window_size_right))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    out = queries.new_zeros(*queries.shape[:2], value.shape[-1])
    sums = queries.new_full((queries.shape[1], queries.shape[0]), math.inf)
    for n in range(len(of_queries) - 1):
        (a, b), (c, d) = of_queries[n : n + 2], of_keys[n : n + 2]
        d = d if used is None else min(d, c + int(used[n]))
        if a < b and c < d:
            _attend(out[a:b], sums[:, a:b], queries[a:b], keys[c:d], values[c:d], factor, left, right)
    if not packed:
        out = out.view(*query.shape[:3], -1)
        sums = sums.view(query.shape[2], *query.shape[:2]).transpose(0, 1)
    return [out, sums, None, None, None]


def _in_pages(table: torch.Tensor, used: torch.Tensor | None, pages: torch.Tensor, sequences: int) -> tuple[torch.Tensor, list[int]]:
    """Where the tokens of all sequences lie, one sequence after the other, and where each begins."""
    each = pages.shape[1]
    lengths = [] if used is None else [int(n) for n in used.tolist()]
    if len(lengths) != sequences or table.shape[0] != sequences or any(not 0 <= n <= table.shape[1] * each for n in lengths):
        raise ValueError(f"{sequences} sequences with keys in pages need as many rows of a table and numbers of used keys, none beyond the table's pages")
    found = [torch.zeros(0, dtype=torch.int64, device=table.device)]
    for row, count in zip(table.long(), lengths, strict=True):
        names = row[: -(-count // each)]
        if bool(((names < 0) | (names >= pages.shape[0])).any()):
            raise ValueError(f"a table names a page outside of the {pages.shape[0]} that there are")
        found.append((names[:, None] * each + torch.arange(each, device=table.device)).flatten()[:count])
    return torch.cat(found), [sum(lengths[:n]) for n in range(sequences + 1)]


def _bounds(offsets: torch.Tensor, packed: torch.Tensor) -> list[int]:
    found = [int(n) for n in offsets.tolist()]
    if not found or found[0] != 0 or any(a > b for a, b in zip(found, [*found[1:], packed.shape[0]], strict=True)):
        raise ValueError(f"offsets {found} of sequences must begin at 0, must not fall, nor leave 0 to {packed.shape[0]}")
    return found


def _attend(
    out: torch.Tensor, sums: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, factor: float, left: int | None, right: int | None
) -> None:
    """One sequence's, into its rows: some heads and queries at a time."""
    rows, heads, count, groups = q.shape[0], q.shape[1], k.shape[0], q.shape[1] // k.shape[1]
    room = _AT_ONCE["cuda" if q.is_cuda else "cpu"]
    step = max(1, min(rows, room // count))
    for head in range(0, heads, each := max(1, room // (step * count))):
        some = torch.arange(head, min(head + each, heads), device=q.device)
        keys, values = (t[:, some // groups].transpose(0, 1) for t in (k, v))
        for row in range(0, rows, step):
            part = slice(row, min(row + step, rows))
            scores = torch.matmul(q[part, head : head + each].transpose(0, 1) * factor, keys.transpose(-1, -2))
            # How far before the query's own place a key lies.
            before = torch.arange(part.start, part.stop, device=q.device)[:, None] + (count - rows) - torch.arange(count, device=q.device)
            hidden = torch.zeros_like(before, dtype=torch.bool)
            if right is not None:
                hidden |= before < -right
            if left is not None:
                hidden |= before > left
            scores = scores.masked_fill(hidden, -math.inf)
            none = hidden.all(-1, keepdim=True)
            weighed = torch.matmul(torch.softmax(scores, -1), values)
            out[part, head : head + each] = torch.where(none, 0.0, weighed).transpose(0, 1)
            sums[head : head + each, part] = torch.where(none[:, 0], math.inf, torch.logsumexp(scores, -1))
