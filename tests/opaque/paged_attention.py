"""A decode step over a paged cache."""

import torch
from torch import nn

PAGE = 8


class Model(nn.Module):
    def forward(self, q, pages_k, pages_v, block_tables, seq_lens):
        result = []
        for b in range(q.shape[0]):
            n = int(seq_lens[b])
            k, v = self.rows(pages_k, block_tables[b], n), self.rows(pages_v, block_tables[b], n)
            scores = torch.einsum("hd,nhd->hn", q[b], k) * (q.shape[-1] ** -0.5)
            result.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), v))
        return torch.stack(result)

    def rows(self, pages, table, n):
        return torch.cat([pages[int(p)] for p in table[: -(-n // PAGE)]])[:n]


def get_inputs():
    lengths = torch.randint(1, 33, (5,))
    tables = torch.randperm(24)[:20].view(5, 4)
    return [torch.randn(5, 4, 16), torch.randn(24, PAGE, 4, 16), torch.randn(24, PAGE, 4, 16), tables, lengths]


def get_init_inputs():
    return []


class Padded(Model):
    """All sequences at once, with a mask."""

    def forward(self, q, pages_k, pages_v, block_tables, seq_lens):
        k, v = (pages[block_tables].flatten(1, 2) for pages in (pages_k, pages_v))
        scores = torch.einsum("bhd,bnhd->bhn", q, k) * (q.shape[-1] ** -0.5)
        beyond = torch.arange(k.shape[1]) >= seq_lens[:, None]
        p = scores.masked_fill(beyond[:, None], -torch.inf).softmax(-1)
        return torch.einsum("bhn,bnhd->bhd", p, v.masked_fill(beyond[..., None, None], 0))


class Gathered(Model):
    def rows(self, pages, table, n):
        at = torch.arange(n)
        return pages[table[at // PAGE], at % PAGE]


class OnePageWrong(Gathered):
    def rows(self, pages, table, n):
        return super().rows(pages, torch.cat([table[:1], table[:1], table[2:]]), n)


class OneShort(Gathered):
    def rows(self, pages, table, n):
        return super().rows(pages, table, max(1, n - 1))


class LastRowUnmasked(Padded):
    def forward(self, q, pages_k, pages_v, block_tables, seq_lens):
        return super().forward(q, pages_k, pages_v, block_tables, (seq_lens + 1).clamp_max(32))


class KeysOfValues(Model):
    def forward(self, q, pages_k, pages_v, block_tables, seq_lens):
        pages_k = torch.cat([pages_k[:-1], pages_v[-1:]])
        return super().forward(q, pages_k, pages_v, block_tables, seq_lens)


class Half(Gathered):
    def rows(self, pages, table, n):
        return super().rows(pages, table, n).to(torch.bfloat16).float()


RIGHT = [Padded, Gathered]
WRONG = [OnePageWrong, OneShort, LastRowUnmasked, Half]
