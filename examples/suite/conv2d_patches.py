"""Images to rows of patch embeddings: a convolution whose windows do not overlap, and positions added."""

import torch
import torch.nn as nn

BATCH, PATCHES, WIDTH = 256, 14, 768  # small: 2, 3, 24


class Model(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 16, stride=16)
        self.position = nn.Parameter(torch.randn(patches * patches, width) * 0.02)

    def forward(self, image):
        return self.conv(image).flatten(2).transpose(1, 2) + self.position


def get_inputs():
    return [torch.randn(BATCH, 3, 16 * PATCHES, 16 * PATCHES)]


def get_init_inputs():
    return [PATCHES, WIDTH]
