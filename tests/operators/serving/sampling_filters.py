"""Logits before a token is drawn: penalties for what was said before, a temperature, then the most likely k, those within p, and none below a share."""

import torch
from torch import nn

BATCH, VOCABULARY, SAID = 4, 512, 24


class Model(nn.Module):
    def forward(self, logits, said, temperature, k, p, least):
        ones = torch.ones_like(said)
        counts = torch.zeros(BATCH, VOCABULARY + 1, dtype=torch.long, device=logits.device).scatter_add_(1, said, ones)[:, :VOCABULARY]
        seen = counts > 0
        logits = torch.where(seen & (logits > 0), logits / 1.2, torch.where(seen, logits * 1.2, logits))
        logits = logits - 0.1 * counts - 0.3 * seen
        logits = logits / temperature.unsqueeze(1)
        ordered, order = logits.sort(dim=-1, descending=False)
        cut = ordered.gather(1, (VOCABULARY - k).unsqueeze(1))
        ordered = ordered.masked_fill(ordered < cut, float("-inf"))
        shares = ordered.softmax(dim=-1).cumsum(dim=-1)
        drop = shares <= 1 - p.unsqueeze(1)
        drop[:, -1] = False
        ordered = ordered.masked_fill(drop, float("-inf"))
        logits = ordered.scatter(dim=-1, index=order, src=ordered)
        probabilities = logits.softmax(dim=-1)
        low = probabilities < least.unsqueeze(1) * probabilities.amax(dim=-1, keepdim=True)
        return logits.masked_fill(low, float("-inf")).softmax(-1)


def get_inputs():
    return [
        torch.randn(BATCH, VOCABULARY) * 2,
        torch.randint(0, VOCABULARY + 1, (BATCH, SAID)),
        torch.rand(BATCH) + 0.5,
        torch.randint(8, 64, (BATCH,)),
        torch.rand(BATCH) * 0.5 + 0.5,
        torch.rand(BATCH) * 0.05,
    ]
