"""LSTM states in their own shapes: until 2.11, what torch traces on a GPU gives those of a layer a dimension too many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch._decomp.decompositions as decompositions


@contextmanager
def states_of_one_shape() -> Iterator[None]:
    """While this holds, a traced LSTM's last states have the shapes of its first ones, as eager's have. (torch's decomposition, from which
    traced shapes come, squeezed the batch instead of the time: (layers, 1, batch, size), which all that reads them inherited.)"""
    theirs = decompositions.one_layer_lstm

    def one_layer(inp: Any, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        out, states = theirs(inp, hidden, *args, **kwargs)
        return out, tuple(state.reshape(first.shape) for state, first in zip(states, hidden, strict=True))

    decompositions.one_layer_lstm = one_layer
    try:
        yield
    finally:
        decompositions.one_layer_lstm = theirs
