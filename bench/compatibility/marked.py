"""Parts of a page that programs make anew, each between two lines that mark it."""

from __future__ import annotations

from pathlib import Path


def part_of(text: str, begin: str, end: str) -> tuple[str, str, str] | None:
    """The text before the part, the part with its marks, and the text behind it; None where there is none."""
    if begin not in text:
        return None
    before, rest = text.split(begin, 1)
    part, after = rest.split(end, 1)
    return before, begin + part + end, after.lstrip("\n")


def put(page: Path, part: str, begin: str, end: str, otherwise: str) -> None:
    """Writes the part in place of the one that the page has, or else in front of the first `otherwise`, which the page must have."""
    text = page.read_text()
    if (found := part_of(text, begin, end)) is not None:
        before, _, after = found
    else:
        at = text.index(otherwise) + len(otherwise) - len(otherwise.lstrip("\n"))
        before, after = text[:at], text[at:]
    page.write_text(before + part + "\n" + after)


def kept(page: Path, begin: str, end: str) -> str:
    """The part as it stands on the page, for whoever makes the rest of it anew; empty where there is none."""
    found = part_of(page.read_text(), begin, end) if page.exists() else None
    return "" if found is None else found[1] + "\n\n"
