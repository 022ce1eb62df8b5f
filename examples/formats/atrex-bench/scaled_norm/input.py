import torch


def _make_inputs(token_count: int, hidden_size: int) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(token_count, hidden_size), "weight": torch.rand(hidden_size) + 0.5}
