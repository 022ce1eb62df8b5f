"""The Jensen-Shannon divergence of two models' predictions, for each row."""

import torch
import torch.nn as nn

ROWS, CLASSES = 16384, 8192  # small: 13, 50


class Model(nn.Module):
    def forward(self, first, second):
        p, q = torch.log_softmax(first, dim=-1), torch.log_softmax(second, dim=-1)
        middle = torch.logaddexp(p, q) - 0.6931471805599453
        return 0.5 * ((p.exp() * (p - middle)).sum(-1) + (q.exp() * (q - middle)).sum(-1))


def get_inputs():
    return [torch.randn(ROWS, CLASSES) * 2, torch.randn(ROWS, CLASSES) * 2]


def get_init_inputs():
    return []
