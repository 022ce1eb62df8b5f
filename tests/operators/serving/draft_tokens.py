"""Which tokens of a draft are kept: each with the probability that the model gives it beside the draft's, up to the first that is not (given draws)."""

import torch
from torch import nn

BATCH, DRAFT, VOCABULARY = 4, 3, 64


class Model(nn.Module):
    def forward(self, wanted, drafted, tokens, draws, bonus):
        place = tokens.unsqueeze(-1)
        of_model = wanted.gather(2, place).squeeze(-1)
        of_draft = drafted.gather(2, place).squeeze(-1)
        kept = draws < torch.minimum(of_model / of_draft, torch.ones_like(of_model))
        kept = kept.long().cumprod(dim=-1).bool()
        count = kept.sum(-1)
        rest = (wanted - drafted).clamp(min=torch.finfo(wanted.dtype).tiny)
        rest = rest / rest.sum(dim=-1, keepdim=True)
        instead = rest.argmax(dim=-1)
        here = torch.arange(DRAFT, device=tokens.device) == count.unsqueeze(-1)
        out = torch.where(kept, tokens, torch.where(here, instead, -1))
        return torch.cat((out, torch.where(kept.all(-1, keepdim=True), bonus, -1)), dim=-1)


def get_inputs():
    return [
        torch.rand(BATCH, DRAFT, VOCABULARY).softmax(-1),
        torch.rand(BATCH, DRAFT, VOCABULARY).softmax(-1),
        torch.randint(0, VOCABULARY, (BATCH, DRAFT)),
        torch.rand(BATCH, DRAFT),
        torch.randint(0, VOCABULARY, (BATCH, 1)),
    ]
