"""--record and --replay: a run with language models repeats itself to the bit, without models, evaluator or Python."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Home
from scripted_model import KERNEL, TASK, fenced, kernel_for, last_of, model_toml, script, words_of
from test_models import KEY, Reply, server

NOWHERE = {"PLANISH_PYTHON": "/bin/false", "PLANISH_CXX": "/bin/false"}


def moody() -> Any:
    """Answers late, at times with nonsense, at times with an error: nothing that could be guessed."""
    lock, count, dice = threading.Lock(), [0], random.Random(5)

    def say(body: dict[str, Any]) -> str | Reply:
        with lock:
            count[0] += 1
            n, wait = count[0], dice.random() * 0.2
        time.sleep(wait)
        if n % 7 == 3:
            return 500, {}, "{}"
        if n % 5 == 1:
            return "I would rather talk."
        kernel = kernel_for(words_of(body))
        if n % 4 == 2:
            return fenced(kernel.replace("float* out", "flaot* out"))
        if n % 3 == 0 and "The fastest program so far" in last_of(body):
            return f"<<<<<<< SEARCH\nno such line {n}\n=======\n>>>>>>> REPLACE\n"
        return fenced(kernel.replace("float sum = 0;", f"float sum = 0 * {n}.0f;"))

    return script(say)


@dataclass
class Recorded:
    home: Home
    folder: Path
    result: dict[str, Any]
    shown: dict[str, Any]


@pytest.fixture(scope="module")
def recorded(warm: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    home = Home(tmp_path_factory.mktemp("recorded"))
    with server(moody()) as (address, _):
        (home.path / "planish.toml").write_text(model_toml(address, extra='key_env = "RECORD_KEY"'))
        command = (
            "optimize",
            home.task(TASK),
            "--target",
            "cpu",
            "--search-only",
            "--budget",
            "0s",
            "--evals",
            "16",
            "--strategy",
            "swarm",
            "--models",
            "4",
            "--judge",
            "model",
        )
        code, result = home.document(*command, "--record", "tape", env={"RECORD_KEY": KEY, **warm})
    assert code == 0, result
    yield Recorded(home, home.path / "tape", result, home.document("show", result["run"])[1])


def same(document: dict[str, Any]) -> dict[str, Any]:
    """Without what names the run or counts its seconds."""
    out = {k: v for k, v in document.items() if k not in ("run", "seconds", "shipped", "task_path")}
    out["search"] = document["search"] | {"best": [{k: v for k, v in b.items() if k != "seconds"} for b in document["search"]["best"]]}
    return out


def rows(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k != "at_seconds"} for e in shown["evaluations"]]


def test_a_run_with_models_repeats_itself_to_the_bit(recorded: Recorded, tmp_path: Path) -> None:
    """In another home, without a model, a key, Python or a compiler."""
    assert sum(s["proposed"] for s in recorded.result["search"]["coders"]) > 3, recorded.result["search"]
    home = Home(tmp_path)
    (home.path / "planish.toml").write_text((recorded.home.path / "planish.toml").read_text())
    code, again = home.document("optimize", home.task(TASK), "--replay", str(recorded.folder), env=NOWHERE)
    assert code == 0, again
    assert same(again) == same(recorded.result)
    shown = home.document("show", again["run"])[1]
    assert rows(shown) == rows(recorded.shown)
    assert shown["turns"] == recorded.shown["turns"]
    code, derived = home.document("show", again["run"], "--replay")
    assert code == 0 and derived["same"], derived


def test_no_key_is_in_a_recording(recorded: Recorded) -> None:
    for file in recorded.folder.iterdir():
        assert KEY not in file.read_text()


def test_another_program_or_task_is_told_from_the_recorded_one(recorded: Recorded, tmp_path: Path) -> None:
    home = Home(tmp_path)
    config = (recorded.home.path / "planish.toml").read_text()
    (home.path / "planish.toml").write_text(config)
    task = home.task(TASK.replace("1.0)", "2.0)"))
    code, document = home.document("optimize", task, "--replay", str(recorded.folder), env=NOWHERE)
    assert code != 0 and document["error"]["kind"] == "cassette_miss" and document["error"]["hint"], document
    # Another name in the configuration: no answer of that model is there.
    (home.path / "planish.toml").write_text(config.replace('name = "scripted"', 'name = "other"'))
    code, document = home.document("optimize", home.task(TASK), "--replay", str(recorded.folder), env=NOWHERE)
    assert code != 0 and document["error"]["kind"] == "replay_differs" and "no answer of the model other" in document["error"]["message"], document


def test_what_a_recording_cannot_be(recorded: Recorded, tmp_path: Path) -> None:
    home = recorded.home
    task = home.task(TASK)
    for arguments, words in (
        (("--record", "a", "--replay", "tape"), "either records or replays"),
        (("--record", "a", "--resume", recorded.result["run"]), "--resume"),
        (("--record", "a", "--coder", "true"), "--coder"),
    ):
        code, document = home.document("optimize", task, *arguments, env={"RECORD_KEY": KEY})
        assert code == 2 and document["error"]["kind"] == "usage" and words in json.dumps(document["error"]), document
    code, document = home.document("optimize", task, "--record", "tape", env={"RECORD_KEY": KEY})
    assert code != 0 and document["error"]["kind"] == "cassette_exists", document
    code, document = home.document("optimize", task, "--replay", "nowhere")
    assert code != 0 and document["error"]["kind"] == "no_such_file", document
    text = (recorded.folder / "run.jsonl").read_text().splitlines(keepends=True)
    for broken, kind in (
        ("", "cassette_corrupt"),
        ('{"planish_run": 99, "settings": {}}\n', "cassette_version"),
        ("".join([*text[:3], "{nonsense\n"]), "cassette_corrupt"),
        ("".join(line for line in text if '"polls"' not in line), "cassette_corrupt"),
    ):
        folder = tmp_path / f"broken{len(broken)}"
        folder.mkdir()
        (folder / "run.jsonl").write_text(broken)
        (folder / "cassette.jsonl").write_text((recorded.folder / "cassette.jsonl").read_text())
        code, document = home.document("optimize", task, "--replay", str(folder), env=NOWHERE)
        assert code != 0 and document["error"]["kind"] == kind, (broken[:80], document)


def test_a_run_without_models_is_recorded_too(warm: dict[str, str], tmp_path: Path) -> None:
    home = Home(tmp_path)
    command = ("optimize", home.task(TASK), "--target", "cpu", "--search-only", "--budget", "0s", "--evals", "6", "--seed", "3")
    code, result = home.document(*command, "--record", "tape", env=warm)
    assert code == 0, result
    code, again = home.document("optimize", "task.py", "--replay", "tape", env=NOWHERE)
    assert code == 0 and same(again) == same(result), again
    assert KERNEL not in (tmp_path / "tape" / "run.jsonl").read_text()
