"""The focal loss of many independent classes, a value for each anchor."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ANCHORS, CLASSES = 1048576, 91  # small: 40, 7


class Model(nn.Module):
    def forward(self, logits, target):
        plain = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        away = p * (1 - target) + (1 - p) * target
        weight = 0.25 * target + 0.75 * (1 - target)
        return (weight * away.square() * plain).sum(dim=-1)


def get_inputs():
    return [torch.randn(ANCHORS, CLASSES) * 2, (torch.rand(ANCHORS, CLASSES) < 0.1).float()]


def get_init_inputs():
    return []
