"""The table of operators in docs/results/compatibility.md, made from rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import machine
import marked

BEGIN, END = "<!-- operators: made by bench/compatibility/operators.py from docs/results/compatibility -->", "<!-- end of operators -->"
_WORDS = {"whole": "captured whole", "opaque": "taken as they are (opaque)", "refused": "refused with a sentence", "internal": "an internal error"}

_ABOUT = (
    "Atrex-Bench's operators ([alibaba/atrex-bench](https://github.com/alibaba/atrex-bench)), one small shape each, beside torch {torch}; {period} at "
    "{commits}; {where}. `python bench/compatibility/operators.py CHECKOUT` makes the rows ([{source}](compatibility/{source})) and this table: "
    "`planish import`, then `planish optimize{budget}. Sizes that a CPU has no time for are halved; *shape* names the "
    "collection's, with * where it is smaller here."
)


def section(rows: list[dict[str, Any]], source: str) -> str:
    forms = Counter(row["form"] for row in rows)
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    gained = [row["gain"] for row in rows if row.get("gain")]
    counts = ", ".join(f"{forms[form]} {words}" for form, words in _WORDS.items() if forms[form])
    dates = sorted({row["date"] for row in rows})
    lines = [BEGIN, "", "## Operators of serving", ""]
    period = dates[0] + (f" to {dates[-1]}" if len(dates) > 1 else "")
    lines += [
        _ABOUT.format(
            torch=rows[0]["torch"],
            period=period,
            commits=commits,
            where=machine.in_words(rows),
            source=source,
            budget=f"` with a budget of {rows[0]['budget_s']:g} s" if rows[0]["budget_s"] else " --dry-run`",
        )
    ]
    done = [row for row in rows if row.get("outcome")]
    unproved = sum(not row.get("verified") for row in done)
    lines += ["", f"**{len(rows)} operators: {counts}.** {len(done)} were searched: {len(gained)} gained over eager, {unproved} ended without a proof.", ""]
    lines += ["| operator | shape | taken | gain | said |", "|---|---|---|---|---|"]
    for row in rows:
        gain = f"{row['gain']:.2f}" if row.get("gain") else {"no_improvement": "none"}.get(row.get("outcome", ""), "")
        said = str(row.get("said") or row.get("reason") or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {row['name']} | {row['shape']}{'' if row['as_given'] else '*'} | {row['form']} | {gain} | {said} |")
    return "\n".join([*lines, "", END, ""])


def write(page: Path, rows: list[dict[str, Any]], source: str) -> None:
    marked.put(page, section(rows, source), BEGIN, END, "<!-- models:")  # it stands before the table of models
