"""A gated delta rule, step by step, each sequence as long as it is."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v, beta, lengths):
        result = torch.zeros_like(v)
        for b in range(q.shape[0]):
            state = torch.zeros(q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
            for t in range(int(lengths[b])):
                key = k[b, t] / k[b, t].norm().clamp_min(1e-6)
                state += torch.outer(key, beta[b, t].sigmoid() * (v[b, t] - key @ state))
                result[b, t] = q[b, t] @ state
        return result


def get_inputs():
    lengths = torch.randint(20, 41, (3,))
    return [torch.randn(3, 40, 8), torch.randn(3, 40, 8), torch.randn(3, 40, 12), torch.randn(3, 40, 1), lengths]


def get_init_inputs():
    return []


class Batched(Model):
    def forward(self, q, k, v, beta, lengths):
        result, state = [], torch.zeros(q.shape[0], q.shape[-1], v.shape[-1])
        k = k / k.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        for t in range(q.shape[1]):
            change = beta[:, t].sigmoid() * (v[:, t] - torch.einsum("bk,bkv->bv", k[:, t], state))
            state = state + torch.einsum("bk,bv->bkv", k[:, t], change)
            result.append(torch.einsum("bk,bkv->bv", q[:, t], state))
        live = torch.arange(q.shape[1]) < lengths[:, None]
        return torch.where(live[..., None], torch.stack(result, 1), 0)


class Transposed(Model):
    def forward(self, q, k, v, beta, lengths):
        result = torch.zeros_like(v)
        gates = torch.sigmoid(beta)
        for b, n in enumerate(lengths.tolist()):
            state = torch.zeros(v.shape[-1], q.shape[-1])
            for t in range(n):
                key = torch.nn.functional.normalize(k[b, t], dim=0, eps=1e-6)
                state = torch.addr(state, gates[b, t] * (v[b, t] - state @ key), key)
                result[b, t] = state @ q[b, t]
        return result


class StateOfBefore(Transposed):
    def forward(self, q, k, v, beta, lengths):
        found = super().forward(q, k, v, beta, lengths)
        return torch.cat([torch.zeros_like(found[:, :1]), found[:, :-1]], 1)


class BeyondTheEnd(Batched):
    def forward(self, q, k, v, beta, lengths):
        return super().forward(q, k, v, beta, (lengths + 1).clamp_max(q.shape[1]))


class NoDecay(Model):
    def forward(self, q, k, v, beta, lengths):
        return super().forward(q, k, v, beta + 0.05, lengths)


class LowState(Model):
    def forward(self, q, k, v, beta, lengths):
        return super().forward(q.bfloat16(), k.bfloat16(), v.bfloat16(), beta.bfloat16(), lengths).float()


RIGHT = [Batched, Transposed]
WRONG = [StateOfBefore, BeyondTheEnd, NoDecay, LowState]
