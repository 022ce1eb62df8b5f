import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return {"y": x * scale * weight, "scale": scale}
