"""Pieces of graphs: their texts and keys, and what is cut out of them."""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

import models
import pytest
import torch
from planish.capture import by_value
from planish.pieces import graph as graphs
from planish.pieces.split import split
from torch import nn


def captured(function: Any, *args: Any, dynamic: bool = False) -> list[tuple[Any, list[Any]]]:
    found = []

    def backend(graph: Any, inputs: Any) -> Any:
        found.append((graph, list(inputs)))
        return graph.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(function, backend=backend, dynamic=dynamic)(*args)
    return found


def piece(function: Any, *args: Any) -> tuple[graphs.Graph, list[Any]]:
    ((graph, inputs),) = captured(function, *args)
    made = graphs.of(graph, inputs)
    assert made is not None
    return made, inputs


def test_layers_alike_have_one_key_and_others_another() -> None:
    x = torch.randn(4, 16)
    first, second = (piece(nn.Sequential(nn.Linear(16, 16), nn.Tanh()), x) for _ in range(2))
    assert first[0].key == second[0].key and first[0].source == second[0].source and len(first[0].state) == 2
    for other in (piece(nn.Sequential(nn.Linear(16, 16), nn.Sigmoid()), x), piece(nn.Sequential(nn.Linear(16, 16), nn.Tanh()), torch.randn(5, 16)),
                  piece(nn.Sequential(nn.Linear(16, 16), nn.Tanh()), torch.randn(16, 4).T)):  # fmt: skip
        assert other[0].key != first[0].key


def test_a_piece_has_the_parameters_of_its_layer() -> None:
    layer, x = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)).eval(), torch.randn(4, 16)
    graph, inputs = piece(layer, x)
    made = graph.module(inputs)
    assert len(list(made.parameters())) == 4 and len(list(made.buffers())) == 2
    with torch.no_grad():
        layer[0].weight.mul_(3)
        layer[1].running_mean.add_(1)
        (result,) = made(*(inputs[i] for i in graph.inputs))
        torch.testing.assert_close(result, layer(x))


def test_what_a_piece_is_travels_by_value() -> None:
    graph, inputs = piece(nn.Linear(16, 16), torch.randn(4, 16))
    made = graph.module(inputs)
    again = pickle.loads(by_value_of(made))
    torch.testing.assert_close(again(*(inputs[i] for i in graph.inputs)), made(*(inputs[i] for i in graph.inputs)))
    assert type(again).__name__ == "Piece"


def test_code_that_travels_keeps_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where cloudpickle leaves it out, as newer ones do: messages name the user's lines by it."""
    nameless = by_value.Pickler.dispatch_table[types.CodeType]
    monkeypatch.setitem(by_value.Pickler.dispatch_table, types.CodeType, lambda code: nameless(code.replace(co_filename="<dynamic-code>")))
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def scaled(x):\n    return [y * x for y in range(3)]\n", "/home/somebody/model.py", "exec"), space)
    again = pickle.loads(by_value_of(space["scaled"]))
    assert again(2) == [0, 2, 4] and again.__code__ is not space["scaled"].__code__
    assert again.__code__.co_filename == "/home/somebody/model.py"


def by_value_of(thing: Any) -> bytes:
    stream = io.BytesIO()
    by_value.Pickler(stream).dump(thing)
    return stream.getvalue()


def test_what_is_no_piece() -> None:
    parameter = nn.Parameter(torch.ones(3))
    ((graph, inputs),) = captured(lambda x: x + x.shape[0], torch.randn(4, 16), dynamic=True)
    assert graphs.of(graph, inputs) is None
    graph = torch.fx.symbolic_trace(lambda p: p)
    assert graphs.of(graph, [parameter]) is None  # the caller's own parameter would come back as another
    assert graphs.of(graph, [torch.ones(3)]) is not None


@pytest.mark.parametrize(("function", "steps"), [
    (lambda x: models.doubled(x.tanh()).sin() + 1, ["planish_tests_pieces.doubled"]),
])  # fmt: skip
def test_steps_that_no_program_holds_are_cut_out(function: Any, steps: list[str]) -> None:
    x = torch.randn(4, 16)
    ((graph, inputs),) = captured(function, x)
    torch.manual_seed(0)
    expected = graph(*inputs)
    whole, pieces, opaque = split(graph)
    assert opaque == steps and pieces
    torch.manual_seed(0)
    torch.testing.assert_close(whole(*inputs), expected)
    called = [str(n.target) for p in pieces.values() for n in p.graph.nodes if n.op.startswith("call")]
    assert called and not any(word in name for name in called for word in ("rand", "doubled", "dropout"))


def test_draws_from_torchs_generator_are_part_of_a_piece_and_others_are_none() -> None:
    ((graph, _),) = captured(lambda x: nn.functional.dropout(x.tanh(), 0.5, True).sin() + torch.rand_like(x), torch.randn(4, 16))
    assert split(graph)[1:] == ({}, [])
    own = torch.fx.Graph()
    x, generator = own.placeholder("x"), own.placeholder("generator")
    drawn = own.call_function(torch.rand, (16,), {"generator": generator})
    own.output(own.call_function(torch.add, (own.call_function(torch.sin, (x,)), drawn)))
    _, pieces, opaque = split(torch.fx.GraphModule(torch.nn.Module(), own))
    assert pieces and opaque == ["rand, which draws from a generator of its own"]


def test_writes_stay_in_their_order() -> None:
    """A write has no user: only its place says what comes behind it."""

    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        result = torch.zeros_like(x)
        result[:n] = x[:n].tanh()
        return result.exp() * 2

    x = torch.randn(6, 4)
    ((graph, inputs),) = captured(function, x, 3, dynamic=True)
    whole, pieces, opaque = split(graph)
    assert opaque and pieces
    torch.testing.assert_close(whole(*[3 if isinstance(i, int | torch.SymInt) else i for i in inputs])[0], function(x, 3))


def test_a_context_is_not_cut() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x.T
            return models.doubled(y) @ x.bfloat16()

    ((graph, _),) = captured(function, torch.randn(4, 4))
    whole, pieces, opaque = split(graph)
    assert whole is graph and not pieces and opaque == ["planish_tests_pieces.doubled"]
