"""Logits under a soft cap, their log-sum-exp, and a penalty on it, bfloat16. 8.4 GB."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logits):
        capped = 30.0 * torch.tanh(logits.float() / 30.0)
        z = torch.logsumexp(capped, dim=-1)
        return z, 1e-4 * (z * z).mean()


def get_inputs():
    return [torch.randn(32768, 128256, dtype=torch.bfloat16) * 4]


def get_init_inputs():
    return []
