"""Models of torchaudio, without weights, on short signals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from entry import Entry, Subject

_CONFORMER = {"input_dim": 16, "num_heads": 4, "ffn_dim": 32, "num_layers": 2, "depthwise_conv_kernel_size": 7}
MODELS: dict[str, tuple[dict[str, Any], Callable[[], tuple[Any, ...]]]] = {
    "Conformer": (_CONFORMER, lambda: (torch.randn(1, 20, 16), torch.tensor([20]))),
    "ConvTasNet": (
        {"enc_num_feats": 32, "msk_num_feats": 16, "msk_num_hidden_feats": 32, "msk_num_layers": 2, "msk_num_stacks": 1},
        lambda: (torch.randn(1, 1, 800),),
    ),
    "DeepSpeech": ({"n_feature": 16, "n_hidden": 32}, lambda: (torch.randn(1, 1, 20, 16),)),
    "Wav2Letter": ({"num_classes": 8}, lambda: (torch.randn(1, 1, 3200),)),
}


def made(name: str) -> Subject:
    import torchaudio

    sizes, inputs = MODELS[name]
    return Subject(getattr(torchaudio.models, name)(**sizes).eval(), (inputs(), {}))


ENTRIES = [Entry(f"{name} forward", "torchaudio", "forward", partial(made, name)) for name in MODELS]
