"""Recurrent networks while they are traced: their results' shapes, without the steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._decomp.decompositions as decompositions
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree


@contextmanager
def shapes_of_recurrent_networks() -> Iterator[None]:
    """While this holds, what torch traces of an LSTM, a GRU or a plain RNN are results of the right shape. The operator itself stays one in
    the graph; torch finds its shapes by taking apart all steps of all layers, which takes half a minute for some thousand of them, and until
    2.11 gave an LSTM's last states a dimension too many on a GPU."""
    theirs = decompositions._rnn_helper

    def shapes(
        input: Any, hidden: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any, train: Any, bidirectional: Any, batch_first: Any, layer: Any
    ) -> Any:
        tensors = [t for t in pytree.tree_leaves((input, hidden, params)) if isinstance(t, torch.Tensor)]
        plain = all(isinstance(t, FakeTensor) and t.dtype == input.dtype for t in tensors)
        if not plain or torch.is_autocast_enabled(input.device.type):
            return theirs(input, hidden, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, layer)
        steps = input.transpose(0, 1) if batch_first else input
        first = pytree.tree_leaves(hidden[0])[0]
        width = first.size(-1) * (2 if bidirectional else 1)
        out = steps.new_empty((*steps.shape[:-1], width))
        last = [pytree.tree_map(lambda state: state.new_empty(state.shape), one) for one in hidden]
        return (out.transpose(0, 1) if batch_first else out), last

    decompositions._rnn_helper = shapes
    try:
        yield
    finally:
        decompositions._rnn_helper = theirs
