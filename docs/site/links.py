"""Hooks of mkdocs.yml: the README is the home page, and files of the repository that pages link to are part of the site.

Links in the documents lead to files beside them, as a reader of the repository needs it. Here those to files outside docs/ lead to copies:
documents as pages, everything else as text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
#: A link or an image, or code, in which there are none.
LINK = re.compile(r"(?P<code>^```.*?^```|`[^`\n]+`)|(?P<bang>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)", re.M | re.S)
#: Path in the repository of each page that does not lie in docs/, and where in the site each file outside docs/ is.
origins: dict[str, str] = {}
copies: dict[str, str] = {}


def origin_of(uri: str) -> str:
    return origins.get(uri, f"docs/{uri}")


def in_repository(page: str, target: str) -> Path | None:
    """The file that `target` names on a page, by its path from the root. A folder is its README. None for other addresses, and for folders without."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return None
    path = Path(os.path.normpath(Path(page).parent / target))
    path = path / "README.md" if (ROOT / path).is_dir() else path
    return path if (ROOT / path).is_file() else None


def on_files(files: Files, config: Any) -> Files:
    add_copy(files, config, "README.md", "index.md")
    todo = [file.src_uri for file in files.documentation_pages()]
    while todo:
        uri = todo.pop()
        page = origin_of(uri)
        for link in LINK.finditer((ROOT / page).read_text()):
            path = None if link["code"] else in_repository(page, link["target"].partition("#")[0])
            if path is None or path.parts[0] == "docs" or str(path) in copies:
                continue
            place = f"repository/{path}" if path.suffix == ".md" else f"repository/{path}.txt"
            add_copy(files, config, str(path), place)
            if path.suffix == ".md":
                todo.append(place)
    return files


def add_copy(files: Files, config: Any, path: str, place: str) -> None:
    files.append(File.generated(config, place, content=(ROOT / path).read_bytes().decode(errors="replace")))
    origins[place] = path
    copies[path] = place


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    here = page.file.src_uri

    def led(link: re.Match[str]) -> str:
        if link["code"]:
            return link[0]
        target, mark, part = link["target"].partition("#")
        if not target or "://" in target:
            return link[0]
        path = in_repository(origin_of(here), target)
        if path is None:
            folder = ROOT / os.path.normpath(Path(origin_of(here)).parent / target)
            return link["text"] if folder.is_dir() else link[0]  # what is not there is for the strict build to name
        place = copies.get(str(path)) or str(path.relative_to("docs"))
        return f"{link['bang']}[{link['text']}]({os.path.relpath(place, Path(here).parent)}{mark}{part})"

    return LINK.sub(led, markdown)
