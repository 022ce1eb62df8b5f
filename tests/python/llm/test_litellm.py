"""LiteLLM's proxy, with answers that it makes up itself, as a foreign server. Opt-in, because it is large and slow to start:

python -m venv /tmp/litellm && /tmp/litellm/bin/pip install 'litellm[proxy]'
PLANISH_LITELLM=/tmp/litellm/bin/litellm python -m pytest tests/python/llm/test_litellm.py
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish-bin"
KEY = "sk-proxy-0123456789abcdef"
if not os.environ.get("PLANISH_LITELLM"):
    pytest.skip("PLANISH_LITELLM names no litellm", allow_module_level=True)

# What the proxy is told to answer, by the name of the model.
SAYS = {
    "plain": "ready",
    "json": '{"word": "ready"}',
    "model_rate_limited": "litellm.RateLimitError",
    "model_overloaded": "litellm.InternalServerError",
    "model_context": "litellm.ContextWindowExceededError",
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("litellm")
    models = [{"model_name": name, "litellm_params": {"model": "openai/gpt-4o-mini", "api_key": "none", "mock_response": said}} for name, said in SAYS.items()]
    settings = {"model_list": models, "general_settings": {"master_key": KEY}, "router_settings": {"num_retries": 0}}
    (folder / "proxy.yaml").write_text(json.dumps(settings))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [os.environ["PLANISH_LITELLM"], "--config", "proxy.yaml", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{url}/health/liveliness", timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    assert running.poll() is None, (folder / "log").read_text()[-2000:]
                    time.sleep(0.2)
            yield url
        finally:
            running.terminate()
            running.wait()


def test_both_wires_and_all_failures(proxy: str, tmp_path: Path) -> None:
    def entry(name: str, label: str, wire: str) -> str:
        url = proxy if wire == "anthropic" else f"{proxy}/v1"
        return f'[[model]]\nname = "{name}"\nlabel = "{label}"\nwire = "{wire}"\nbase_url = "{url}"\nkey_env = "PROXY_KEY"\n'

    text = "".join(entry(name, name, "openai") for name in SAYS)
    text += entry("no-such-model", "model_unknown", "openai") + entry("plain", "messages", "anthropic")
    (tmp_path / "planish.toml").write_text(text)
    environment = os.environ | {"PROXY_KEY": KEY, "HOME": str(tmp_path)}
    done = subprocess.run([str(BINARY), "doctor", "--models", "--json"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert KEY not in done.stdout + done.stderr
    found: dict[str, dict[str, Any]] = {m["label"]: m for m in json.loads(done.stdout)["models"]}
    for label, report in found.items():
        assert report["reachable"], report
        if label.startswith("model_"):
            assert report["error"]["kind"] == label, report
        else:
            assert report["ok"] and report["answers"] and report["usage"], report
    assert found["json"]["structured"] == "schema"
    assert found["model_unknown"]["listed"] is False
