"""The published types of `openai` and `anthropic` judge the requests that are sent.

Skipped where the packages are not installed: `pip install openai anthropic` beside pytest, and run this file.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

pydantic = pytest.importorskip("pydantic", reason="pip install openai anthropic to let their types judge the requests")

BUILD = Path(os.environ.get("PLANISH_BUILD", Path(__file__).resolve().parents[3] / "build"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Bodies of all the kinds of requests there are, by wire."""
    binary = BUILD / "bin" / "test_llm"
    if not binary.exists():
        pytest.skip("ninja -C build tests first")
    folder = tmp_path_factory.mktemp("samples")
    command = [str(binary), "-tc=samples of requests for their referee"]
    subprocess.run(command, env=os.environ | {"PLANISH_LLM_SAMPLES": str(folder)}, check=True, capture_output=True, timeout=120)
    bodies: dict[str, list[dict[str, Any]]] = {"openai": [], "anthropic": []}
    for path in sorted(folder.iterdir()):
        bodies[path.name.split("-")[0]].append(json.loads(path.read_text()))
    return bodies


def exhaust(value: object) -> None:
    """Iterables are validated as they are read."""
    if isinstance(value, Mapping):
        for item in value.values():
            exhaust(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            exhaust(item)


def judge(kind: Any, body: dict[str, Any]) -> None:
    adapter = pydantic.TypeAdapter(kind)  # its iterators need it to live
    exhaust(adapter.validate_python(body))
    unknown = set(body) - set(get_type_hints(kind))
    assert not unknown, f"the type knows no {unknown}"


def test_chat_completions(samples: dict[str, list[dict[str, Any]]]) -> None:
    types = pytest.importorskip("openai.types.chat.completion_create_params")
    assert len(samples["openai"]) == 24
    for body in samples["openai"]:
        judge(types.CompletionCreateParamsStreaming if body.get("stream") else types.CompletionCreateParamsNonStreaming, body)


def test_messages(samples: dict[str, list[dict[str, Any]]]) -> None:
    types = pytest.importorskip("anthropic.types.message_create_params")
    assert len(samples["anthropic"]) == 24
    for body in samples["anthropic"]:
        judge(types.MessageCreateParamsStreaming if body.get("stream") else types.MessageCreateParamsNonStreaming, body)


def test_the_referee_bites(samples: dict[str, list[dict[str, Any]]]) -> None:
    types = pytest.importorskip("openai.types.chat.completion_create_params")
    body = samples["openai"][0]
    for wrong in ({"messages": [{"role": "poet", "content": "x"}]}, {"max_tokens": "many"}, {"tools": [{"type": "function"}]}):
        with pytest.raises(pydantic.ValidationError):
            judge(types.CompletionCreateParamsStreaming, body | wrong)
    with pytest.raises(AssertionError):
        judge(types.CompletionCreateParamsStreaming, body | {"surprise": 1})
