"""`planish report` and `planish show RUN CANDIDATE`: the page's structure, what it may not contain, and how it looks in a browser where there is one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import re
import shutil
import sqlite3
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command import Home
from optimised_task import Optimised

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Checks nesting while it reads, and keeps what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"{tag} has an attribute twice"
        self.tags.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open or self.open[-1] != "style":
            self.words += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def written(home: Home, run: str, name: str = "report.html") -> tuple[Page, str]:
    done = home.run("report", run, "--out", name)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path == home.path / name
    text = path.read_text()
    return Page(text), text


def test_a_report_has_every_part_and_needs_nothing_else(optimised: Optimised) -> None:
    page, text = written(optimised.home, optimised.result["run"])
    assert len(set(page.ids)) == len(page.ids)
    assert {"summary", "baselines", "accuracy", "funnel", "regions", "learned", "roofline", "all", "candidates", "data"} <= set(page.ids)
    assert optimised.result["run"] in page.words and "small" in page.words
    labels = {"shipped": "what Planish ships", "candidate": "the best that Planish found", "eager": "PyTorch eager", "compile": "torch.compile"}
    for name in optimised.result["times_ms"]:
        assert labels.get(name, name.replace("_", "-").removesuffix("-no-cudagraphs")) in page.words
    # The conclusion comes first, and names the number that every other place names.
    assert text.index('id="baselines"') < text.index('id="summary"') < text.index('id="accuracy"') < text.index('id="funnel"')
    headline = optimised.result["headline"]
    said = f"{headline['speedup']:.2f}x faster than" if headline["speedup"] != 1 else "no gain over"
    assert said in page.words
    listed = next(run for run in optimised.home.document("runs")[1]["runs"] if run["run"] == optimised.result["run"])
    assert (listed["speedup"], listed["against"]) == (headline["speedup"], headline["baseline"])
    assert (f"{headline['speedup']:.2f}x") in optimised.home.run("runs").stdout
    assert said in optimised.home.run("show", optimised.result["run"]).stdout
    bars = [attrs for tag, attrs in page.tags if tag == "div" and attrs.get("class") == "bars"]
    assert len(bars) == 2, "times beside the baselines, and the funnel"
    assert page.count("svg") >= 1 and page.count("circle") >= 1
    # Nothing is fetched: no address in an attribute but those within the page, and a policy that forbids the rest.
    for _, attrs in page.tags:
        assert not {"src", "srcset", "action", "data", "onclick", "onload"} & attrs.keys()
        assert attrs.get("href", "#").startswith("#")
    assert "default-src 'none'" in text and "http://" not in text and "https://" not in text


def test_every_evaluation_is_a_row_with_its_kernel(optimised: Optimised) -> None:
    page, _ = written(optimised.home, optimised.result["run"])
    _, shown = optimised.home.document("show", optimised.result["run"])
    data = json.loads(page.scripts[0])
    rows = [attrs for tag, attrs in page.tags if tag == "tr" and "data-pick" in attrs]
    assert len(rows) == len(data["candidates"]) == len(shown["evaluations"])
    for kept, evaluation in zip(data["candidates"], shown["evaluations"], strict=True):
        assert kept["program"] == evaluation["program"]
        if evaluation["genome"]:
            assert "extern" in data["sources"][kept["source"]]
            assert kept["tests"] and kept["verdict"]


def test_what_tasks_and_models_write_stays_text(optimised: Optimised, tmp_path: Path) -> None:
    evil = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&\'"'
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    home = Home(tmp_path)
    with sqlite3.connect(tmp_path / "data" / "planish" / "store.db") as database:
        database.execute("update runs set task=?, device=?, settings=?", (evil, evil, evil))
        database.execute("update evaluations set genome=genome || ?, outcome=?", (" " + evil, evil))
    database.close()
    page, text = written(home, optimised.result["run"])
    assert evil in page.words
    assert "<img" not in text and len(page.scripts) == 2
    json.loads(page.scripts[0])


def test_a_run_without_a_result_still_reports(optimised: Optimised, tmp_path: Path) -> None:
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    home = Home(tmp_path)
    with sqlite3.connect(tmp_path / "data" / "planish" / "store.db") as database:
        database.execute("update runs set result='', outcome='', state='running', finished=0")
        database.execute("delete from evaluations where genome != ''")
    database.close()
    page, _ = written(home, optimised.result["run"])
    assert "killed" in page.words and "Nothing passed." in page.words


def test_a_page_follows_its_run_until_that_has_ended(optimised: Optimised, tmp_path: Path) -> None:
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    (tmp_path / "locks").mkdir(mode=0o700)
    home, run, env = Home(tmp_path), optimised.result["run"], {"XDG_RUNTIME_DIR": str(tmp_path / "locks")}

    def ends_as(state: str) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "planish" / "store.db")) as database, database:
            database.execute("update runs set state=?", (state,))

    ends_as("running")
    with (tmp_path / "locks" / f"planish-run-{run}.lock").open("w") as lock:  # as the command holds it that works on the run
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = home.start("report", run, "--watch", "--out", "live.html", env=env)
        assert command.stderr is not None and "live.html (open it" in command.stderr.readline()
        page = Page((tmp_path / "live.html").read_text())
        assert [found for name, found in page.tags if name == "meta" and found.get("http-equiv") == "refresh"]
        assert command.poll() is None
        ends_as("finished")
        said, _ = command.communicate(timeout=60)
    assert command.returncode == 0 and said.strip() == str(tmp_path / "live.html")
    assert 'http-equiv="refresh"' not in (tmp_path / "live.html").read_text()


def let_all_pass(database: sqlite3.Connection, objects: Path) -> list[str]:
    """Makes every timed candidate one that passed, whatever else the machine was doing when they were timed; the programs, slowest first."""
    timed = []
    for row, document, program in database.execute("select id, document, program from evaluations where genome != ''").fetchall():
        evaluation = json.loads((objects / document[:2] / document[2:]).read_text())
        if "bench" not in evaluation:
            continue
        evaluation |= {"outcome": "ok", "tier": "bench"}
        text = json.dumps(evaluation)
        name = hashlib.sha256(text.encode()).hexdigest()
        (objects / name[:2]).mkdir(exist_ok=True)
        (objects / name[:2] / name[2:]).write_text(text)
        median = evaluation["bench"]["median_ms"]
        database.execute("update evaluations set document=?, outcome='ok', median_ms=? where id=?", (name, median, row))
        timed.append((median, program))
    return list(dict.fromkeys(program for _, program in sorted(timed, reverse=True)))


def test_parents_make_a_lineage(optimised: Optimised, tmp_path: Path) -> None:
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    home = Home(tmp_path)
    folder = tmp_path / "data" / "planish"
    with sqlite3.connect(folder / "store.db") as database:
        programs = let_all_pass(database, folder / "objects")
    assert len(programs) > 1
    with database:
        database.execute("update evaluations set parent='', proposer=''")
    page, _ = written(home, optimised.result["run"], "before.html")
    assert "did not record parents" in page.words
    with database:
        for parent, child in itertools.pairwise(programs):
            database.execute("update evaluations set parent=?, proposer='agent <7>' where program=?", (parent, child))
    database.close()
    page, _ = written(home, optimised.result["run"], "after.html")
    assert "From its first ancestor" in page.words and "agent <7>" in page.words
    assert "→" in page.words


def test_show_says_what_the_judge_says(optimised: Optimised) -> None:
    home, run = optimised.home, optimised.result["run"]
    _, shown = home.document("show", run)
    candidate = next(e for e in shown["evaluations"] if e["genome"])
    code, document = home.document("show", run, candidate["program"][:20])
    assert code == 0
    assert document["program"] == candidate["program"] and document["evaluation"]["program"] == candidate["program"]
    verdict = document["verdict"]
    assert verdict["kind"] in ("none", "bottleneck", "mismatch") and verdict["evidence"]
    gains = [move["expected_gain"] for move in verdict["moves"]]
    assert gains == sorted(gains, reverse=True)
    assert verdict["message"] in home.run("show", run, candidate["program"][:20]).stdout
    code, error = home.document("show", run, "0" * 63 + "z")
    assert code == 2 and error["error"]["kind"] == "no_such_candidate"


def test_bad_input(optimised: Optimised) -> None:
    code, error = optimised.home.document("report", "no-such-run")
    assert code == 2 and error["error"]["kind"] == "no_such_run"
    (optimised.home.path / "a_file").write_text("")
    code, error = optimised.home.document("report", optimised.result["run"], "--out", "a_file/report.html")
    assert code in (2, 3) and "a_file" in error["error"]["message"] and error["error"]["hint"], error


def test_it_renders(optimised: Optimised, tmp_path: Path) -> None:
    browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no chromium here")
    written(optimised.home, optimised.result["run"])
    picture = tmp_path / "report.png"
    page = optimised.home.path / "report.html"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000"]

    def browse(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([browser, *flags, *arguments], capture_output=True, text=True, timeout=120, check=False)

    for width in (1400, 500):
        done = browse(f"--window-size={width},3000", f"--screenshot={picture}", f"file://{page}")
        assert picture.exists() and picture.stat().st_size > 20_000, done.stderr
        picture.unlink()
    # An address that names a candidate shows its details: the script ran, under the page's own policy.
    done = browse("--dump-dom", f"file://{page}#c1")
    assert re.search(r'id="details"(?! hidden)', done.stdout), done.stderr


PROBE = """
addEventListener("load", function () {
  const shade = text => {
    const [r, g, b] = text.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(shade(a), shade(b)) + 0.05) / (Math.min(shade(a), shade(b)) + 0.05);
  const paper = getComputedStyle(document.body).backgroundColor;
  const beyond = Array.from(document.querySelectorAll("main *")).filter(e => !e.closest(".scroll, .chart, pre, details") &&
    e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  const cut = Array.from(document.querySelectorAll("svg")).flatMap(svg => Array.from(svg.querySelectorAll("text")).filter(t => {
    const a = t.getBoundingClientRect(), b = svg.getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1;
  }));
  const details = document.getElementById("details");
  document.body.dataset.probe = JSON.stringify({
    width: innerWidth, wide: document.documentElement.scrollWidth, paper: shade(paper),
    beyond: beyond.map(e => e.tagName + " " + e.textContent.slice(0, 40)),
    cut: cut.map(t => t.textContent),
    letters: Math.min(...Array.from(document.querySelectorAll("svg text")).map(t => t.getBoundingClientRect().height)),
    contrast: Math.min(...["svg text", "caption", "td", "a", ".legend li", "footer"].map(
      one => document.querySelector(one)).filter(Boolean).map(e => e.ownerSVGElement ? getComputedStyle(e).fill : getComputedStyle(e).color)
      .map(colour => contrast(colour, paper))),
    empty: Array.from(document.querySelectorAll("section")).filter(s => s.textContent.trim().length < 30).map(s => s.id),
    details: [details.hidden ? 0 : details.getBoundingClientRect().height, details.textContent.length, innerHeight - details.getBoundingClientRect().bottom]
  });
});
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 500])
def test_it_can_be_read(optimised: Optimised, tmp_path: Path, width: int, dark: bool) -> None:
    """Nothing beyond the window's edge, no label cut or too small, enough contrast, no empty part; a candidate that the address names is shown."""
    browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no chromium here")
    _, text = written(optimised.home, optimised.result["run"], "probed.html")
    page = tmp_path / "probed.html"
    page.write_text(text.replace("<script>\n", "<script>\n" + PROBE, 1))
    # A picture is of no use here: Chromium paints a page that an address has scrolled blank in it, whatever the page.
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000"]
    flags += [f"--window-size={width},1000", f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom"]
    done = subprocess.run([browser, *flags, f"file://{page}#c1"], capture_output=True, text=True, timeout=120, check=False)
    dumped = next((attrs["data-probe"] for tag, attrs in Page(done.stdout).tags if tag == "body" and attrs.get("data-probe")), None)
    assert dumped, done.stderr
    seen = json.loads(dumped)
    assert (seen["paper"] < 0.1) == dark
    assert seen["wide"] <= seen["width"] and not seen["beyond"], seen
    assert not seen["cut"], seen
    assert seen["letters"] > 9, seen
    assert seen["contrast"] > 4, seen
    assert not seen["empty"], seen
    height, characters, below = seen["details"]
    assert height > 100 and characters > 200 and abs(below) < 1, seen
