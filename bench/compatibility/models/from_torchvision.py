"""Models of torchvision, without weights, on small pictures."""

from __future__ import annotations

from functools import partial

import torch
from entry import Entry, Subject

NAMES = ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5", "vgg11", "efficientnet_b0", "regnet_y_400mf", "googlenet")


def made(name: str) -> Subject:
    import torchvision

    return Subject(torchvision.models.get_model(name, weights=None).eval(), ((torch.randn(1, 3, 64, 64),), {}))


ENTRIES = [Entry(f"{name} forward", "torchvision", "forward", partial(made, name)) for name in NAMES]
