"""Reads the snippets of the documents: fences tagged `python` or `console`, files (```` ```LANGUAGE title="NAME" ````), and what is said of them.

    <!-- snippet: gpu -->               needs a GPU: compiled, not run
    <!-- snippet: sketch -->            shows a form with names that are nobody's: compiled, not run
    <!-- snippet: no search -->         on the page: `planish.optimize` gives everything back as it was
    <!-- snippet: needs transformers -->  a program of its own, skipped where that cannot be imported
    <!-- setup                          code that the page does not show, run in its place
    …
    -->

Python fences of a page are one program, in their order and with the page's own line numbers. Commands (`$ …`) follow, in a folder with the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"^<!-- snippet: (?P<said>[^\n]*?) -->\n|^<!-- setup\n(?P<setup>.*?)^-->|^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```", re.M | re.S)


@dataclass
class Page:
    """The snippets of one document."""

    path: Path
    programs: dict[str, str] = field(default_factory=dict)  # by the package that they need, or ""; lines of the page, those outside of its fences empty
    files: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    sketches: list[str] = field(default_factory=list)  # Python that is compiled alone
    searches: bool = True
    for_gpu: list[str] = field(default_factory=list)  # commands

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else self.path.name


def read_page(path: Path) -> Page:
    text = path.read_text()
    page = Page(path)
    programs: dict[str, list[str]] = {}
    said = ""
    for part in _PART.finditer(text):
        if part["said"] is not None:
            said = part["said"]
            page.searches = page.searches and said != "no search"
            continue
        language, _, title = (part["info"] or "").partition(" ")
        code = part["setup"] or part["text"] or ""
        if part["setup"] is None and (named := re.fullmatch(r'title="([\w./-]+)"', title.strip())):
            page.files[named[1]] = code
        elif part["setup"] is not None or language == "python":
            if said in ("gpu", "sketch"):
                page.sketches.append(code)
            else:
                first = text.count("\n", 0, part.start()) + 1
                lines = programs.setdefault(said.removeprefix("needs ") if said.startswith("needs ") else "", [""] * (text.count("\n") + 1))
                lines[first : first + code.count("\n")] = code.splitlines()
        elif language == "console":
            commands = [line[2:] for line in code.splitlines() if line.startswith("$ ")]
            (page.for_gpu if said == "gpu" else page.commands).extend(commands)
        said = ""
    page.programs = {needed: "\n".join(lines) for needed, lines in programs.items()}
    return page


def pages() -> list[Page]:
    """All documents with snippets: the README and those for users. Records of decisions and results show what was, not what is to be typed."""
    found = [read_page(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "formats").glob("*.md")))]
    return [page for page in found if page.programs or page.files or page.commands or page.sketches or page.for_gpu]


def shortened(text: str) -> str:
    """The same for a test: a search of a second beside eager alone. What is gained is not looked at."""
    text = re.sub(r'budget="\d+s"', 'budget="1s", baselines="none", evals=2', text)
    return re.sub(r"--budget \d+s", "--budget 1s --baselines none --evals 2 --target cpu", text)
