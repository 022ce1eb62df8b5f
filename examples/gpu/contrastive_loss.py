"""A symmetric contrastive loss: cross-entropy of every image among the texts and of every text among the images. 4.3 GB."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(2.6593))

    def forward(self, similarity):
        scores = similarity * self.temperature.exp()
        own = torch.arange(similarity.shape[0], device=similarity.device)
        return (F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own)) / 2


def get_inputs():
    return [torch.rand(32768, 32768) * 2 - 1]


def get_init_inputs():
    return []
