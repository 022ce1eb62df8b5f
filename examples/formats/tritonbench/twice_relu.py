import torch


def twice_relu(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return torch.relu(x) * scale


##################################################################################################################################################


def test_twice_relu():
    torch.manual_seed(0)
    results = {}
    results["test_case_1"] = twice_relu(torch.randn(8, 16))
    results["test_case_2"] = twice_relu(torch.randn(33), scale=3.0)
    return results


result_gold = test_twice_relu()
