"""Tasks of KernelBench's form at small sizes, and solutions of all kinds: honest, imprecise, wrong, and those that fail in a way of their own.

`TASKS`: file name → text. `SOLUTIONS`: file name of the task → the solutions' texts by what they are. Nothing here says which verdict is right: that is what
the harness and `planish suite --compat kernelbench` are asked.
"""

from __future__ import annotations

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n"


def _task(forward: str, inputs: str, init: str = "", arguments: str = "", given: str = "[]") -> str:
    constructor = f"    def __init__(self{', ' + arguments if arguments else ''}):\n        super().__init__()\n{init}" if init else ""
    return (
        f"{HEAD}class Model(nn.Module):\n{constructor}\n    def forward(self, {forward}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return {given}\n"
    )


def new(forward: str, init: str = "", arguments: str = "", top: str = "", parameters: str = "x") -> str:
    """A solution whose forward is these lines; `init` are lines of its constructor."""
    body = "\n".join("        " + line for line in forward.splitlines())
    made = ""
    if init:
        lines = "\n".join("        " + line for line in init.splitlines())
        made = f"    def __init__(self{', ' + arguments if arguments else ''}):\n        super().__init__()\n{lines}\n\n"
    return f"{HEAD}{top}\nclass ModelNew(nn.Module):\n{made}    def forward(self, {parameters}):\n{body}\n"


_LINEAR = "        self.linear = nn.Linear(n, m)\n"
_NORM = "        self.norm = nn.BatchNorm1d(n)\n"
TASKS = {
    "1_Scaled_relu.py": _task("x):\n        return torch.relu(x) * 2.0", "torch.randn(64, 128)"),
    "2_Softmax.py": _task("x):\n        return torch.softmax(x, dim=1)", "torch.randn(32, 256)"),
    "3_Linear_gelu.py": _task("x):\n        return F.gelu(self.linear(x))", "torch.randn(16, 64)", _LINEAR, "n, m", "[64, 48]"),
    "4_Batch_norm.py": _task("x):\n        return self.norm(x)", "torch.randn(64, 24)", _NORM, "n", "[24]"),
    "5_Cross_entropy.py": _task("x, y):\n        return F.cross_entropy(x, y)", "torch.randn(64, 10), torch.randint(0, 10, (64,))"),
    "6_Tiny_tanh.py": _task("x):\n        return torch.tanh(x) * 1e-5", "torch.randn(32, 64)"),
    "7_Matmul.py": _task("x, y):\n        return x @ y", "torch.randn(48, 160), torch.randn(160, 32)"),
    "8_Two_outputs.py": _task("x):\n        return x + 1, x * 2", "torch.randn(16, 16)"),
    "9_Masked_mean.py": _task("x, mask):\n        return (x * mask).sum(1) / mask.sum(1).clamp(min=1)", "torch.randn(32, 64), (torch.rand(32, 64) > 0.5)"),
}

_OWN = ("self.linear = nn.Linear(n, m)", "n, m")
_CUDA = """
from torch.utils.cpp_extension import load_inline
module = load_inline(name="broken", cpp_sources="this is no C++", functions=["f"])
"""
SOLUTIONS: dict[str, dict[str, str]] = {
    "1_Scaled_relu.py": {
        "honest": new("return 2.0 * x.clamp(min=0)"),
        "in another order": new("return (x + x.abs())"),
        "a part in a thousand": new("return torch.relu(x) * 2.002"),
        "a part in a million": new("return torch.relu(x) * 2.000002"),
        "half precision": new("return (torch.relu(x.half()) * 2).float()"),
        "zeros": new("return torch.zeros_like(x)"),
        "another shape": new("return torch.relu(x)[:, :64] * 2"),
        "a transposed shape": new("return (torch.relu(x) * 2).t()"),
        "flat": new("return (torch.relu(x) * 2).reshape(-1)"),
        "float64": new("return torch.relu(x).double() * 2"),
        "integers": new("return (torch.relu(x) * 2).long()"),
        "a tuple": new("return (torch.relu(x) * 2,)"),
        "nothing": new("pass"),
        "a number": new("return 1.0"),
        "NaN": new("return torch.relu(x) * 2 + float('nan')"),
        "one wrong element": new("y = torch.relu(x) * 2\ny[-1, -1] += 1\nreturn y"),
        "writes into its input": new("return x.relu_().mul_(2)"),
        "raises a ValueError": new("raise ValueError('no')"),
        "raises at the third call": new("self.n = getattr(self, 'n', 0) + 1\nassert self.n < 3\nreturn torch.relu(x) * 2"),
        "wrong from the third call on": new("self.n = getattr(self, 'n', 0) + 1\nreturn torch.relu(x) * (2 if self.n < 3 else 3)"),
        "no Python": "class ModelNew(:\n",
        "no ModelNew": HEAD + "class Other(nn.Module):\n    pass\n",
        "no module": HEAD + "class ModelNew:\n    def forward(self, x):\n        return torch.relu(x) * 2\n",
        "raises when loaded": HEAD + "raise RuntimeError('at import')\n",
        "imports what is not there": "import no_such_package_at_all\n" + new("return torch.relu(x) * 2"),
        "needs an argument": new("return torch.relu(x) * 2", "self.n = n", "n"),
        "constructor raises a RuntimeError": new("return x", "raise RuntimeError('no')"),
        "constructor raises a KeyError": new("return x", "raise KeyError('no')"),
        "derives from the reference": HEAD + "class ModelNew(Model):\n    pass\n",
        "a factory": HEAD + "def ModelNew():\n    return Model()\n",
        "a broken extension": new("return module.f(x)", top=_CUDA),
        "draws a random number": new("return torch.relu(x) * 2 + torch.rand_like(x) * 1e-6"),
        "answers by the seed": new("torch.manual_seed(0)\nreturn torch.relu(x) * 2 * (1 + 0.5 * (torch.rand(1).item() > 2))"),
        "in evaluation mode": new("return torch.relu(x) * (3 if self.training else 2)", "self.eval()"),
    },
    "2_Softmax.py": {
        "honest": new("e = torch.exp(x - x.amax(1, keepdim=True))\nreturn e / e.sum(1, keepdim=True)"),
        "without the maximum": new("e = torch.exp(x)\nreturn e / e.sum(1, keepdim=True)"),
        "along the other dimension": new("return torch.softmax(x, dim=0)"),
        "uniform": new("return torch.full_like(x, 1 / x.shape[1])"),
        "bfloat16": new("return torch.softmax(x.bfloat16(), dim=1).float()"),
    },
    "3_Linear_gelu.py": {
        "honest": new("return F.gelu(self.linear(x))", *_OWN),
        "other names": new("return F.gelu(F.linear(x, self.w.weight, self.w.bias))", "self.w = nn.Linear(n, m)", "n, m"),
        "tanh": new("return F.gelu(self.linear(x), approximate='tanh')", *_OWN),
        "no bias": new("return F.gelu(F.linear(x, self.linear.weight))", *_OWN),
        "weights drawn in another order": new("return F.gelu(self.linear(x))", "torch.rand(1)\nself.linear = nn.Linear(n, m)", "n, m"),
        "zero weights": new("return F.gelu(x @ self.w.t())", "self.w = nn.Parameter(torch.zeros(m, n))", "n, m"),
    },
    "4_Batch_norm.py": {
        "honest": new("return self.norm(x)", "self.norm = nn.BatchNorm1d(n)", "n"),
        "by hand": new("m, v = x.mean(0), x.var(0, unbiased=False)\nreturn (x - m) / torch.sqrt(v + 1e-5)"  # its two parameters are one and zero
                       , "self.n = n", "n"),
        "biased": new("m, v = x.mean(0), x.var(0)\nreturn (x - m) / torch.sqrt(v + 1e-5)", "self.n = n", "n"),
        "in evaluation mode": new("return self.norm(x)", "self.norm = nn.BatchNorm1d(n)\nself.eval()", "n"),
    },
    "5_Cross_entropy.py": {
        "honest": new("return F.cross_entropy(x, y)", parameters="x, y"),
        "for what the harness makes of the classes": new("return F.cross_entropy(x, y.long())", parameters="x, y"),
    },
    "6_Tiny_tanh.py": {
        "honest": new("return 1e-5 * torch.tanh(x)"),
        "zeros": new("return torch.zeros_like(x)"),
        "the input": new("return x"),
    },
    "7_Matmul.py": {
        "honest": new("return torch.mm(x, y)", parameters="x, y"),
        "half precision": new("return (x.half() @ y.half()).float()", parameters="x, y"),
        "in two parts": new("return x[:, :80] @ y[:80] + x[:, 80:] @ y[80:]", parameters="x, y"),
        "most of it": new("return x[:, :150] @ y[:150]", parameters="x, y"),
        "one argument": new("return x"),
    },
    "8_Two_outputs.py": {
        "honest": new("return x + 1, x * 2"),
        "one of them": new("return x + 1"),
    },
    "9_Masked_mean.py": {
        "honest": new("return (x * mask).sum(1) / mask.sum(1).clamp(min=1)", parameters="x, mask"),
        "for a boolean mask alone": new("return (x[mask].sum() + x.sum(1) * 0) / mask.sum()", parameters="x, mask"),
    },
}  # fmt: skip
