"""Models of timm by name, without weights, on small pictures."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from entry import Entry, Subject

#: Name and what `create_model` is given; pictures of 64 x 64 unless said otherwise.
MODELS: dict[str, dict[str, Any]] = {
    "resnet10t": {},
    "mobilenetv3_small_050": {},
    "efficientnet_b0": {},
    "vit_tiny_patch16_224": {"img_size": 64, "depth": 3},
    "deit_tiny_patch16_224": {"img_size": 64, "depth": 3},
    "swin_tiny_patch4_window7_224": {"img_size": 56, "window_size": 7, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)},
    "convnext_atto": {},
    "mixer_s32_224": {"img_size": 64},
    "levit_128s": {"size": 224},
    "mobilevit_xxs": {},
    "edgenext_xx_small": {},
    "poolformer_s12": {},
    "regnetx_002": {},
    "xcit_nano_12_p16_224": {"img_size": 64},
    "ghostnet_050": {},
    "densenet121": {"block_config": (2, 2, 2), "growth_rate": 8},
    "coatnet_nano_rw_224": {"img_size": 224},
    "mambaout_femto": {},
    "test_nfnet": {},
    "repvit_m0_9": {},
}


def made(name: str) -> Subject:
    import timm

    options = dict(MODELS[name])
    size = options.pop("size", options.get("img_size", 64))
    return Subject(timm.create_model(name, pretrained=False, **options).eval(), ((torch.randn(1, 3, size, size),), {}))


ENTRIES = [Entry(f"{name} forward", "timm", "forward", partial(made, name), name == "mobilenetv3_small_050") for name in MODELS]
