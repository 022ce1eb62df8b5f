"""Comments of the sources name files and types that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"//+<?(.*)$", re.M)
FILE = re.compile(r"\b([\w/]+\.(?:h|cuh))\b")
TYPE = re.compile(r"\b((?:[A-Z][a-z0-9]+){2,})\b")

#: Headers of other projects, and words in this spelling that name no type of ours.
FOREIGN_FILES = {"cuda.h", "omp.h", "extension.h"}
FOREIGN_WORDS = {"LeVeque", "NaNs", "SplitMix64", "NumPy", "MainloopSm90", "TmaWarp", "Sm90Gemm", "CollectiveMmaSm90", "ResNet", "FlashAttention"}


def comments_and_code(text: str) -> tuple[list[tuple[int, str]], str]:
    """Each `//` comment with its line, and the text without them."""
    found = [(text.count("\n", 0, m.start()) + 1, m[1]) for m in COMMENT.finditer(text)]
    return found, COMMENT.sub("", text)


def problems(texts: dict[str, str], files: set[str]) -> list[str]:
    """`texts` by path; `files`: names of all files there are."""
    parsed = {path: comments_and_code(text) for path, text in texts.items()}
    known = {word for _, code in parsed.values() for word in WORD.findall(code)} | FOREIGN_WORDS
    found = []
    for path, (comments, _) in parsed.items():
        for line, comment in comments:
            named = [name for name in FILE.findall(comment) if name.rsplit("/", 1)[-1] not in files | FOREIGN_FILES]
            found += [f"{path}:{line}: there is no {name}" for name in named + [name for name in TYPE.findall(comment) if name not in known]]
    return found


def test_comments_name_files_and_types_that_exist() -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    sources = [name for name in listed if name.startswith(("src/", "runtime/", "python/", "tests/", "bench/")) and name.endswith((".h", ".cpp", ".cc", ".cuh"))]
    texts = {name: (ROOT / name).read_text() for name in sources if (ROOT / name).exists()}
    assert len(texts) > 500
    assert problems(texts, {name.rsplit("/", 1)[-1] for name in listed}) == []


def test_a_file_and_a_type_that_are_gone_are_noticed() -> None:
    texts = {"a.h": "/// As in gone.h and there.h, by GoneType and ThereType.\nstruct ThereType {};\n"}
    assert problems(texts, {"a.h", "there.h"}) == ["a.h:1: there is no gone.h", "a.h:1: there is no GoneType"]
