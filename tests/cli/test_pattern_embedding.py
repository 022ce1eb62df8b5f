"""`planish patterns embed` and searches by vectors, against scripted servers on the loopback."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from command import Home
from test_models import KEY, server


@pytest.fixture
def home(tmp_path: Path) -> Home:
    folder = tmp_path / "home"
    folder.mkdir()
    return Home(folder)


def vectors(body: dict[str, Any], length: int = 4) -> str:
    """Texts about scans, and the query "rolling", in one direction; all others in another."""
    data = []
    for i, text in enumerate(body["input"]):
        near = "rolling" in text or text.startswith("scan\n")
        data.append({"object": "embedding", "index": i, "embedding": [1.0 if near else 0.1, 0.5 if not near else 0.0] + [0.25] * (length - 2)})
    return json.dumps({"object": "list", "model": "m", "data": data[::-1], "usage": {"prompt_tokens": 7, "total_tokens": 7}})


def configure(home: Home, url: str, more: str = "", before: str = "") -> None:
    (home.path / "planish.toml").write_text(f'{before}\n[embedding]\nname = "m"\nbase_url = "{url}"\nkey_env = "EMBED_KEY"\nprice = 1.0\n{more}')


def ask(home: Home, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out = home.document("patterns", *arguments, env={"EMBED_KEY": KEY})
    assert KEY not in json.dumps(out)
    return code, out


def test_vectors_are_made_once_rank_searches_and_never_hold_the_key(home: Home) -> None:
    before = ask(home, "search", "rolling totals")[1]
    heard: list[str] = []

    def script(path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        heard.append(headers.get("authorization", ""))
        assert path.endswith("/embeddings") and body["model"] == "m" and body["encoding_format"] == "float"
        return 200, {}, vectors(body)

    with server(script) as (url, bodies):
        configure(home, url, "batch = 3\n")
        assert "no text has a vector" in ask(home, "search", "rolling totals")[1]["notes"][0]
        code, made = ask(home, "embed")
        assert code == 0 and made["embedded"] == made["texts"] == made["made"] and made["dimensions"] == 4
        assert made["spent"]["tokens"] == 7 * len(bodies) and max(len(body["input"]) for body in bodies) == 3
        assert ask(home, "embed")[1]["made"] == 0
        asked = len(bodies)
        found = ask(home, "search", "rolling totals")[1]
        assert found["hits"][0]["name"] == "scan" and found["hits"][0]["score_parts"]["meaning"] > 0 and "notes" not in found
        assert ask(home, "search", "rolling totals")[1] == found and len(bodies) == asked + 1
        assert ask(home, "search", "rolling totals", "--no-embedding")[1] == before
        assert set(heard) == {f"Bearer {KEY}"}
        configure(home, url, "dimensions = 5\n")
        assert "the vectors are of the model m" in ask(home, "search", "rolling totals")[1]["notes"][0]
    assert not any(KEY.encode() in data for data in home.store_bytes().values())


def test_an_interrupted_embed_goes_on_and_a_search_needs_no_server(home: Home) -> None:
    def script(_path: str, _headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        return (200, {}, vectors(body)) if len(bodies) != 2 else (401, {}, json.dumps({"error": {"message": f"bad key {KEY}"}}))

    with server(script) as (url, bodies):
        configure(home, url, "batch = 2\n")
        code, out = ask(home, "embed")
        assert code != 0 and out["error"]["kind"] == "model_unauthorized" and len(bodies) == 2
        assert any(cause.startswith("2 of ") for cause in out["error"]["causes"])
        made = ask(home, "embed")[1]
        assert made["embedded"] == made["texts"] == made["made"] + 2
        configure(home, "http://127.0.0.1:9/v1", "timeout = 0.5\n")
    found = ask(home, "search", "scan")[1]
    assert found["hits"] and "searched by words and facts" in found["notes"][0]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda body: json.dumps({"data": []}), "model_bad_reply"),
        (lambda body: "<html>hello</html>", "model_bad_reply"),
        (lambda body: vectors(body).replace("0.25", "NaN"), "model_bad_reply"),
        (lambda body: vectors(body).replace("0.25", "null"), "model_bad_reply"),
        (lambda body: vectors(body, 6), "model_bad_reply"),
    ],
)
def test_answers_that_make_no_sense_are_errors(home: Home, answer: Any, kind: str) -> None:
    with server(lambda _path, _headers, body: (200, {}, answer(body))) as (url, bodies):
        configure(home, url, "dimensions = 4\n")
        code, out = ask(home, "embed")
    assert code != 0 and out["error"]["kind"] == kind and len(bodies) == 2


def test_a_limit_of_spending_holds_and_a_limit_of_requests_is_waited_for(home: Home) -> None:
    def script(_path: str, _headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        return (200, {}, vectors(body)) if len(bodies) > 1 else (429, {"retry-after": "0"}, "{}")

    with server(script) as (url, bodies):
        configure(home, url, before="[spending]\ntokens = 10")
        assert ask(home, "embed")[1]["error"]["kind"] == "spending_cap" and not bodies
        configure(home, url)
        assert ask(home, "embed")[0] == 0


@pytest.mark.parametrize("cap", ["tokens = 20000", "dollars = 0.02"])
def test_a_limit_that_is_reached_midway_keeps_what_was_made(home: Home, cap: str) -> None:
    """At a dollar a million tokens, and 5000 tokens a text, both are four texts."""

    def script(_path: str, _headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        return 200, {}, vectors(body).replace('"prompt_tokens": 7, "total_tokens": 7', '"prompt_tokens": 5000, "total_tokens": 5000')

    with server(script) as (url, bodies):
        configure(home, url, "batch = 1\n", before=f"[spending]\n{cap}")
        code, out = ask(home, "embed")
        assert code != 0 and out["error"]["kind"] == "spending_cap" and len(bodies) == 4
        (said,) = (cause for cause in out["error"]["causes"] if " texts have vectors" in cause)
        assert said.startswith("4 of ") and "20000 tokens, 0.0200 dollars were spent" in said
        configure(home, url)
        made = ask(home, "embed")[1]
        assert made["embedded"] == made["texts"] == made["made"] + 4


def test_the_published_types_judge_requests_and_write_answers(home: Home) -> None:
    openai = pytest.importorskip("openai", reason="pip install openai to let its types judge the requests")
    pydantic = pytest.importorskip("pydantic")

    def script(_path: str, _headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        return 200, {}, openai.types.CreateEmbeddingResponse.model_validate_json(vectors(body, body.get("dimensions", 4))).model_dump_json()

    known = set(openai.types.EmbeddingCreateParams.__annotations__)
    with server(script) as (url, bodies):
        for more in ("", "dimensions = 5\n"):
            configure(home, url, more)
            assert ask(home, "embed")[0] == 0
            assert ask(home, "search", "rolling totals")[1]["hits"][0]["name"] == "scan"
    assert {len(body) for body in bodies} == {3, 4}
    judge = pydantic.TypeAdapter(openai.types.EmbeddingCreateParams)
    for body in bodies:
        judge.validate_python(body)
        assert set(body) <= known
    for wrong in ({"input": 5}, {"encoding_format": "double"}, {"dimensions": "many"}):
        with pytest.raises(pydantic.ValidationError):
            judge.validate_python(bodies[0] | wrong)


@pytest.mark.parametrize("more", ["batch = 0\n", "size = 3\n", 'key = "x"\n', "dimensions = -1\n"])
def test_bad_configuration_is_said(home: Home, more: str) -> None:
    configure(home, "http://127.0.0.1:9/v1", more)
    code, out = ask(home, "list")
    assert code == 2 and out["error"]["kind"] == "models_config" and "[embedding]" in out["error"]["message"]


def test_a_server_that_never_answers_costs_its_time_alone(home: Home) -> None:
    def script(_path: str, _headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        if body["input"] == ["rolling totals"]:
            time.sleep(6)
        return 200, {}, vectors(body)

    with server(script) as (url, _):
        configure(home, url, "timeout = 1\n")
        assert ask(home, "embed")[0] == 0
        began = time.monotonic()
        code, found = ask(home, "search", "rolling totals")
        assert code == 0 and found["hits"] and len(found["notes"]) == 1 and time.monotonic() - began < 5
        assert all(hit["score_parts"].get("meaning", 0) == 0 for hit in found["hits"])


def test_an_index_from_before_vectors_is_taken_along(home: Home) -> None:
    before = ask(home, "search", "rolling totals")[1]
    (index,) = home.path.rglob("patterns.db")
    with sqlite3.connect(index) as database:
        for table in ("embedding", "family_texts", "vectors", "queries"):
            database.execute(f"DROP TABLE {table}")
        database.execute("PRAGMA user_version = 1")
    database.close()
    assert ask(home, "search", "rolling totals")[1] == before
    with server(lambda _path, _headers, body: (200, {}, vectors(body))) as (url, _):
        configure(home, url)
        code, made = ask(home, "embed")
        assert code == 0 and made["embedded"] == made["texts"] > 0
        assert ask(home, "search", "rolling totals")[1]["hits"][0]["score_parts"]["meaning"] > 0
