"""An operator of somebody's own, which takes single precision alone, behind PyTorch's."""

import torch
from torch import nn


@torch.library.custom_op("planish_tests_opaque::scaled_gelu", mutates_args=())
def scaled_gelu(x: torch.Tensor, scale: float) -> torch.Tensor:
    if x.dtype is not torch.float32:
        raise TypeError(f"expected float32, got dtype {x.dtype}")
    return torch.nn.functional.gelu(x) * scale


@scaled_gelu.register_fake
def _(x, scale):
    return torch.empty_like(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        return torch.ops.planish_tests_opaque.scaled_gelu(self.linear(x), 1.5)


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []


class Plain(Model):
    def forward(self, x):
        return nn.functional.gelu(self.linear(x)) * 1.5


class InBlocks(Model):
    def forward(self, x):
        y = sum(x[:, k : k + 8] @ self.linear.weight[:, k : k + 8].t() for k in range(0, 32, 8)) + self.linear.bias
        return nn.functional.gelu(y) * 1.5


class Tanh(Model):
    def forward(self, x):
        return nn.functional.gelu(self.linear(x), approximate="tanh") * 1.5


class NoBias(Model):
    def forward(self, x):
        return nn.functional.gelu(x @ self.linear.weight.t()) * 1.5


class Low(Model):
    def forward(self, x):
        return nn.functional.gelu((x.bfloat16() @ self.linear.weight.bfloat16().t()).float() + self.linear.bias) * 1.5


RIGHT = [Plain, InBlocks]
WRONG = [Tanh, NoBias, Low]
