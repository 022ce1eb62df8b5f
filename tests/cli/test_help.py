"""--help, words for what options take, completion: nothing here runs a task."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from command import Home, lines
from shells import fish_completes, zsh_completes

VERBS = ("optimize", "verify", "try", "runs", "show", "report", "export", "rm", "suite", "import", "serve", "mcp", "environment", "patterns", "doctor", "cache")
ACTIONS = ("import", "search", "embed", "show", "list", "forget")


def test_verbs_and_options_stand_in_groups(tmp_path: Path) -> None:
    home = Home(tmp_path)
    text = home.run("--help").stdout
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert 4 <= len(headings) <= 7, headings
    assert all(f"\n  {verb} " in text for verb in VERBS)
    search = home.run("optimize", "--help").stdout
    assert len([line for line in search.splitlines() if line.endswith(":") and not line.startswith(" ")]) >= 6
    assert max(len(line) for line in search.split("Examples:")[0].splitlines()) <= 100
    assert "--models 0..32" in search and "INT:" not in search


@pytest.mark.parametrize("verb", [*(v for v in VERBS if v != "cache"), *(f"patterns {action}" for action in ACTIONS)])
def test_every_option_says_what_it_is(tmp_path: Path, verb: str) -> None:
    """Arguments too: behind the name, or on the line below it, stand words and not a default alone."""
    above = Home(tmp_path).run(*verb.split(), "--help").stdout.split("Examples:\n")[0]
    entries = re.findall(r"(?m)^  (?! )(.+(?:\n {26}.+)*)", above)
    assert entries
    for entry in entries:
        words = re.split(r"\s{2,}|\n", entry, maxsplit=1)
        assert len(words) == 2 and re.match(r"[A-Za-z0-9']", words[1].strip()), entry


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("cache", "patterns")])
def test_every_verb_has_examples_that_name_options_it_has(tmp_path: Path, verb: str) -> None:
    text = Home(tmp_path).run(verb, "--help").stdout
    above, examples = text.split("Examples:\n")
    for line in examples.splitlines():
        command = line.split("#")[0].split()
        assert command[:2] == ["planish", verb] or command[0] == "source", line
        assert all(word in above for word in command if word.startswith("--")), line


def test_help_and_version_as_other_tools_have_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for asked, plain in ((["help"], ["--help"]), (["help", "runs"], ["runs", "--help"]), (["version"], ["--version"]), (["-V"], ["--version"])):
        done, wanted = home.run(*asked), home.run(*plain)
        assert done.returncode == 0 and done.stdout == wanted.stdout and len(done.stdout) > 10, asked
    bare = home.run()
    assert bare.returncode == 2 and not bare.stdout and bare.stderr.startswith(home.run("--help").stdout)
    assert lines(bare.stderr, "error: ") == ["error: no verb was named"]
    misspelt = home.run("help", "optimise")
    assert misspelt.returncode == 2 and "did you mean 'optimize'?" in misspelt.stderr


@pytest.mark.parametrize(("verb", "actions"), [("cache", ["size", "clean"]), ("patterns", ["import", "search"])])
def test_a_verb_with_actions_names_them(tmp_path: Path, verb: str, actions: list[str]) -> None:
    done = Home(tmp_path).run(verb)
    assert done.returncode == 2 and lines(done.stderr, "error: ") == [f"error: planish {verb} needs to be told what to do"]
    assert all(action in lines(done.stderr, "hint: ")[0] for action in actions)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["runs", "--limit", "0"], "--limit: '0' is no whole number of 1 or more"),
        (["runs", "--limit", "99999999999"], "--limit: 99999999999 is too large a number"),
        (["optimize", "x", "--models", "64"], "--models: '64' is no whole number from 0 to 32"),
        (["optimize", "x", "--seed", "-1"], "--seed: '-1' is no whole number of 0 or more"),
        (["export", "x", "--form", "fil"], "--form: there is no 'fil'; did you mean 'file'?"),
    ],
)
def test_ranges_and_choices_are_told_in_words(tmp_path: Path, arguments: list[str], error: str) -> None:
    done = Home(tmp_path).run(*arguments)
    assert done.returncode == 2 and error in lines(done.stderr, "error: ")[0]
    assert len(done.stderr) < 400


@pytest.mark.parametrize("verb", [["optimize"], ["verify", "x.py"], ["try"]])
def test_a_syntax_error_is_told_before_torch_is_imported(tmp_path: Path, verb: list[str]) -> None:
    home = Home(tmp_path)
    home.task("x = 1\n", "x.py")
    task = home.task("import torch\nclass Model(:\n    pass\n")
    arguments = [verb[0], task, *verb[1:]]
    # An interpreter that cannot import torch says the same: nobody asked it to.
    began = time.monotonic()
    code, document = home.document(*arguments, "--target", "cpu", env={"PYTHONPATH": "/nonexistent"})
    assert code == 2 and document["error"]["kind"] == "not_python"
    assert "line 2" in document["error"]["message"] and document["error"]["hint"]
    assert time.monotonic() - began < 5


def complete(home: Home, *words: str) -> set[str]:
    """What bash offers for the last word."""
    script = home.run("completion", "bash").stdout
    listed = " ".join(f"'{word}'" for word in ("planish", *words))
    ask = f'{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words)}; _planish; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True, cwd=home.path)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_verbs_options_and_words(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "model.py").write_text("")
    assert set(VERBS) <= complete(home, "")
    assert complete(home, "op") == {"optimize"}
    assert {"--budget", "--baselines"} <= complete(home, "optimize", "--b")
    assert all(word.startswith("--b") for word in complete(home, "optimize", "--b"))
    assert "model.py" in complete(home, "optimize", "mod")
    assert complete(home, "export", "latest", "--form", "") == {"folder", "file", "source", "hub"}
    assert complete(home, "cache", "s") == {"size"}
    assert "latest" in complete(home, "show", "") and {"latest", "model.py"} <= complete(home, "export", "")
    assert complete(home, "optimize", "--resume", "l") == {"latest"}


#: What is typed, and what the last word becomes.
TYPED = [
    ("planish opti", "optimize"),
    ("planish optimize mod", "model.py"),
    ("planish optimize --budg", "--budget"),
    ("planish export latest --form fi", "file"),
    ("planish suite x --format ju", "junit"),
    ("planish cache si", "size"),
    ("planish show lat", "latest"),
    ("planish export lat", "latest"),
    ("planish optimize --resume l", "latest"),
]


@pytest.fixture
def typing(tmp_path: Path, request: pytest.FixtureRequest) -> Home:
    """A home with the script of the shell that the test asks for."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"apt-get install {shell}: its completion is tried in the shell itself")
    home = Home(tmp_path)
    (tmp_path / "script").write_text(home.run("completion", shell).stdout)
    (tmp_path / "model.py").write_text("")
    return home


@pytest.mark.parametrize("typing", ["zsh"], indirect=True)
@pytest.mark.parametrize(("typed", "word"), TYPED)
def test_zsh_completes_the_line(typing: Home, typed: str, word: str) -> None:
    assert zsh_completes(typing, typed) == " ".join([*typed.split()[:-1], word])


@pytest.mark.parametrize("typing", ["fish"], indirect=True)
def test_fish_offers_the_word(typing: Home) -> None:
    for typed, word in TYPED:
        assert fish_completes(typing, typed) == [word], typed
    assert set(VERBS) <= set(fish_completes(typing, "planish "))


@pytest.mark.parametrize("shell_name", ["zsh", "fish"])
def test_scripts_of_other_shells_have_verbs_options_and_words(tmp_path: Path, shell_name: str) -> None:
    script = Home(tmp_path).run("completion", shell_name).stdout
    assert "optimize" in script and "budget" in script and "folder" in script


def test_completion_knows_no_other_shell(tmp_path: Path) -> None:
    done = Home(tmp_path).run("completion", "tcsh")
    assert done.returncode == 2 and "bash, zsh, fish" in done.stderr
