"""Cosine similarity of pairs of embeddings, and a margin loss by pair. 6 MB in, fifteen kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        similarity = torch.nn.functional.cosine_similarity(a, b, dim=-1)
        return torch.where(same, 1 - similarity, torch.clamp(similarity - self.margin, min=0.0))


def get_inputs():
    return [torch.randn(1024, 768), torch.randn(1024, 768), torch.rand(1024) < 0.5]


def get_init_inputs():
    return [0.2]
