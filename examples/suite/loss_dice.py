"""One minus the overlap of soft masks with true ones, for each class of each image."""

import torch
import torch.nn as nn

BATCH, CLASSES, SIDE = 24, 19, 512  # small: 2, 3, 15


class Model(nn.Module):
    def forward(self, logits, mask):
        p = torch.sigmoid(logits)
        overlap = (p * mask).sum(dim=(2, 3))
        total = p.sum(dim=(2, 3)) + mask.sum(dim=(2, 3))
        return 1 - (2 * overlap + 1) / (total + 1)


def get_inputs():
    return [torch.randn(BATCH, CLASSES, SIDE, SIDE), (torch.rand(BATCH, CLASSES, SIDE, SIDE) < 0.3).float()]


def get_init_inputs():
    return []
