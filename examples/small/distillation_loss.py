"""Divergence of a student's predictions from its teacher's at a temperature, and the student's own confidence. 8 MB in, nine kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, student, teacher):
        learned = torch.log_softmax(student / self.temperature, dim=-1)
        wanted = torch.log_softmax(teacher / self.temperature, dim=-1)
        return (wanted.exp() * (wanted - learned)).sum(dim=-1) * self.temperature**2


def get_inputs():
    return [torch.randn(1024, 1000) * 2, torch.randn(1024, 1000) * 2]


def get_init_inputs():
    return [4.0]
