"""`planish doctor --models` against scripted servers on the loopback, and where keys do not get."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from command import Home

KEY = "sk-doctor-0123456789abcdefghij"
Reply = tuple[int, dict[str, str], str]
Script = Callable[[str, dict[str, str], dict[str, Any]], Reply]


def listener(heard: list[str]) -> Script:
    """Of a server that nobody should reach: the paths that were asked for."""

    def script(path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        heard.append(path)
        return 200, {}, "{}"

    return script


@contextmanager
def server(script: Script, connections: set[Any] | None = None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address and the bodies that it was sent. `connections` gets the addresses they came from."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
            bodies.append(body)
            if connections is not None:
                connections.add(self.client_address)
            status, headers, text = script(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            for name, value in ({"content-type": "application/json", "content-length": str(len(text.encode()))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}", bodies
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def configure(home: Home, text: str) -> None:
    (home.path / "planish.toml").write_text(text)


def model(url: str, **fields: str) -> str:
    return "[[model]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in ({"name": "m", "base_url": url, "key_env": "DOCTOR_KEY"} | fields).items())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def chat(path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
    """A server that can everything."""
    if headers.get("authorization") != f"Bearer {KEY}":
        return 401, {}, json.dumps({"error": {"message": f"Incorrect key: {headers.get('authorization')}", "code": "invalid_api_key"}})
    if path.endswith("/models"):
        return 200, {}, json.dumps({"data": [{"id": "m"}]})
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    if "tools" in body:
        call = {"id": "1", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
        return 200, {}, json.dumps({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}], "usage": usage})
    text = '{"word": "ready"}' if "response_format" in body else "ready"
    pieces: list[dict[str, Any]] = [{"choices": [{"delta": {"content": c}}]} for c in text]
    pieces += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
    return 200, {"content-type": "text/event-stream"}, "".join(f"data: {json.dumps(p)}\n\n" for p in pieces) + "data: [DONE]\n\n"


def test_a_model_that_works(home: Home) -> None:
    connections: set[Any] = set()
    with server(chat, connections) as (url, bodies):
        configure(home, model(f"{url}/v1") + "price = { input = 1.0, output = 2.0 }\n[spending]\ndollars = 1.0\n")
        code, document = home.document("doctor", "--models", env={"DOCTOR_KEY": KEY})
        text = home.run("doctor", "--models", env={"DOCTOR_KEY": KEY}).stdout
    assert code == 0
    (found,) = document["models"]
    assert found["ok"] and found["listed"] and found["streams"] and found["tools"]
    assert found["structured"] == "schema"
    assert document["spent"] == {"tokens": 75, "nanodollars": 3 * (20 * 1000 + 5 * 2000)}
    assert "1 of 1 models ready" in text
    assert all(b.get("model") == "m" for b in bodies if b)
    assert KEY not in json.dumps(document) + text
    assert len(connections) == 2  # one a command: streams that were read to their end leave it open


def test_what_keeps_a_model_from_being_used_is_said(home: Home) -> None:
    """One model a kind of failure; none shows a key, also where the server echoes it."""

    def status(code: int, text: str) -> Script:
        return lambda *_: (code, {}, text)

    wrong = "sk-wrong-abcdefgh98765432"
    with (
        server(chat) as (refuses, _),
        server(status(404, json.dumps({"error": {"message": "no such model"}}))) as (unknown, _),
        server(status(200, "<html>Sign in</html>")) as (html, _),
        server(status(529, "{}")) as (overloaded, _),
    ):
        urls = {"model_unauthorized": refuses, "model_unknown": unknown, "model_bad_reply": html, "model_overloaded": overloaded}
        urls["model_unreachable"] = "http://127.0.0.1:1"
        configure(home, "".join(model(f"{u}/v1", label=k) for k, u in urls.items()) + model(refuses, label="no_model_key", key_env="NOT_SET"))
        done = home.run("doctor", "--models", "--json", env={"DOCTOR_KEY": wrong})
        text = home.run("doctor", "--models", env={"DOCTOR_KEY": wrong})
    assert done.returncode == text.returncode == 3
    for found in json.loads(done.stdout)["models"]:
        assert found["error"]["kind"] == found["label"], found
        assert not found["ok"]
    assert "NOT_SET is not set" in text.stdout
    for said in (done.stdout, done.stderr, text.stdout, text.stderr):
        assert "abcdefgh9876" not in said
    assert "[key]" in done.stdout


def test_the_cap_holds_for_the_doctor_too(home: Home) -> None:
    with server(chat) as (url, bodies):
        configure(home, model(f"{url}/v1") + "[spending]\ntokens = 100\n")
        code, document = home.document("doctor", "--models", env={"DOCTOR_KEY": KEY})
    assert code == 3
    assert document["models"][0]["error"]["kind"] == "spending_cap"
    assert document["spent"]["tokens"] == 0
    assert not any(bodies)


def test_configurations_that_are_wrong(home: Home) -> None:
    done = home.run("doctor", "--models")
    assert done.returncode == 2
    assert "names no model" in done.stderr
    configure(home, '[[model]]\nname = "m"\nbase_url = "http://localhost"\nkey = "sk-abcdefgh12345678"\n')
    # Every verb says so: none may start children before it is known which variables hold keys.
    for arguments in (["doctor", "--models"], ["runs"]):
        done = home.run(*arguments)
        assert done.returncode == 2
        assert "no field `key`" in done.stderr and "key_env" in done.stderr
        assert "abcdefgh" not in done.stderr
    code, document = home.document("runs")
    assert (code, document["error"]["kind"]) == (2, "models_config")


def test_settings_of_verbs_and_models_share_a_file(home: Home) -> None:
    """The reader of settings skips the models, and the models' reader the settings."""
    models = 'roles = [\n  "coder",\n  "judge",\n]\nprice = { input = 1, output = 2 }\n'
    configure(home, "[spending]\ndollars = 2.5\n\n[runs]\nlimit = 7\n\n" + model("http://127.0.0.1:1/v1") + models)
    assert home.run("runs").returncode == 0
    code, document = home.document("doctor", "--models", env={"DOCTOR_KEY": KEY})
    assert (code, document["models"][0]["roles"]) == (3, ["coder", "judge"])


def test_no_child_gets_a_key(home: Home) -> None:
    """The doctor starts a compiler and a Python: here, a script that shows its environment and its parent's."""
    compiler = home.path / "g++"
    compiler.write_text('#!/bin/sh\n(env; tr "\\0" "\\n" < /proc/$PPID/environ) > "$HOME/seen"\necho g++ 1\n')
    compiler.chmod(0o755)
    seen = home.path / "seen"
    environment = {"DOCTOR_KEY": KEY, "PLANISH_CXX": str(compiler), "PLANISH_PYTHON": str(compiler)}
    home.run("doctor", env=environment)
    assert KEY in seen.read_text()  # without a configuration nobody knows that it is one
    seen.unlink()
    configure(home, model("http://127.0.0.1:1/v1"))
    home.run("doctor", env=environment)
    assert "PLANISH_CXX" in seen.read_text()
    assert KEY not in seen.read_text()


def test_a_file_that_was_only_found_chooses_no_host_for_prompts_and_keys(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.task("x = 1\n")
    far = "https://models.invalid/v1"
    configure(home, model(far))
    (tmp_path / "pyproject.toml").write_text("[tool.planish]\n" + model(far).replace("[[model]]", "[[tool.planish.model]]"))
    asking = (["doctor", "--models"], ["optimize", "task.py", "--models", "1", "--target", "cpu"])
    for file in ("planish.toml", "pyproject.toml"):
        for words in asking:
            code, document = home.document(*words, env={"DOCTOR_KEY": "a-secret-of-mine"})
            error = document["error"]
            assert code == 2 and error["kind"] == "models_config", error
            assert error["message"].startswith(f"{file} was found in the current folder and sends prompts and keys to models.invalid ")
            assert f"--config {file}" in error["hint"]
        (tmp_path / "planish.toml").unlink(missing_ok=True)
    configure(home, f'[embedding]\nname = "m"\nbase_url = "{far}"\n')
    assert "models.invalid ([embedding])" in home.run("patterns", "embed").stderr
    for host in ("127.evil.invalid", "localhost.invalid", "192.168.0.7"):
        configure(home, model(f"http://{host}:8000/v1"))
        assert f"keys to {host} " in home.run("doctor", "--models").stderr
    assert home.run("runs").returncode == 0, "who asks no model is not stopped"


def test_a_file_that_somebody_named_or_owns_chooses_any_host(tmp_path: Path) -> None:
    home = Home(tmp_path)
    configure(home, model("https://models.invalid/v1"))  # DOCTOR_KEY is not set: nothing is sent
    named = home.run("--config", "planish.toml", "doctor", "--models")
    own = tmp_path / "config" / "planish" / "planish.toml"
    own.parent.mkdir(parents=True)
    (tmp_path / "planish.toml").rename(own)
    for done in (named, home.run("doctor", "--models")):
        assert done.returncode == 3 and "DOCTOR_KEY" in done.stdout, done.stderr
    configure(home, model("http://[::1]:9/v1"))
    assert "was found in the current folder" not in home.run("doctor", "--models").stderr
