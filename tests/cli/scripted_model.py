"""A server in the place of language models: answers chat completions by what it is asked, on the loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from test_models import Reply

#: Few bytes and much arithmetic: no kernel comes near the speed of light here, where a search would end.
TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.clamp(x[:, None] * y[None, :], -1.0, 1.0).sum(1)

def get_inputs():
    return [torch.randn(512), torch.randn(2048)]

def get_init_inputs():
    return []
"""

KERNEL = """//@ kernel cpp -O3
#include <algorithm>
extern "C" void rows(void** args) {
  const float* x = static_cast<const float*>(args[X]);
  const float* y = static_cast<const float*>(args[Y]);
  float* out = static_cast<float*>(args[2]);
  for (int r = 0; r < 512; ++r) {
    float part[32] = {};
    for (int c = 0; c < 2048; c += 32)
      for (int k = 0; k < 32; ++k) part[k] += std::min(std::max(x[r] * y[c + k], -1.0f), 1.0f);
    float sum = 0;
    for (const float one : part) sum += one;
    out[r] = sum;
  }
}
//@ launch rows args=in0, in1, out0
"""


def words_of(body: dict[str, Any]) -> str:
    return "\n".join(str(m["content"]) for m in body["messages"])


def last_of(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def kernel_for(words: str, template: str = KERNEL) -> str:
    """The template with its inputs where this region has them."""
    found = re.search(r"in(\d): f32\[512[,\]]", words)
    assert found is not None, words
    x = int(found[1])
    return template.replace("args[X]", f"args[{x}]").replace("args[Y]", f"args[{1 - x}]")


def fenced(code: str) -> str:
    return f"```cpp\n{code}```"


def spoken(text: str, prompt: int = 900, output: int = 100, cached: int = 0) -> Reply:
    """A stream of one message, as chat completions give it."""
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output, "prompt_tokens_details": {"cached_tokens": cached}}
    chunk = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    events: list[dict[str, Any]] = [
        chunk | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        chunk | {"choices": [], "usage": usage},
    ]
    return 200, {"content-type": "text/event-stream"}, "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"


def asked_for(body: dict[str, Any]) -> str:
    """warm-up, verdict, ideas, plan or code."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("name")
    return str(schema) if schema else "warm-up" if "word ready" in last_of(body) else "code"


def model_toml(address: str, label: str = "scripted", extra: str = "", tokens: int = 10_000_000) -> str:
    return (
        f'[[model]]\nname = "{label}"\nbase_url = "{address}/v1"\nprice = {{ input = 1.0, cached = 0.1, output = 2.0 }}\nparallel = 32\n'
        f"{extra}\n[spending]\ntokens = {tokens}\n"
    )


Say = Callable[[dict[str, Any]], str | Reply]


def script(say: Say) -> Callable[[str, dict[str, str], dict[str, Any]], Reply]:
    """A server's script from a function of the request's body."""

    def answer(path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        said = "ready" if asked_for(body) == "warm-up" else say(body)
        return spoken(said) if isinstance(said, str) else said

    return answer
