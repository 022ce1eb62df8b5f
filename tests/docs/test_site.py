"""The documents as a site: what `make docs` builds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from snippets import ROOT

MKDOCS = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "docs-venv" / "bin" / "mkdocs"


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    if not MKDOCS.exists():
        pytest.skip("mkdocs is not installed (make setup-docs)")
    command = [str(MKDOCS), "build", "--strict", "--config-file", str(config), "--site-dir", str(site)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})


def test_the_site_is_built_and_links_lead_somewhere_in_it(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path)
    assert done.returncode == 0, done.stderr
    home = (tmp_path / "index.html").read_text()
    assert 'src="results/gains.svg"' in home and (tmp_path / "results" / "gains.svg").exists()
    assert "Settings" in (tmp_path / "api" / "index.html").read_text()
    # Files outside docs/ that pages link to came along.
    assert "masked_softmax.py.txt" in (tmp_path / "gallery" / "index.html").read_text()
    assert (tmp_path / "repository/examples/gpu/masked_softmax.py.txt").read_text() == (ROOT / "examples/gpu/masked_softmax.py").read_text()
    for page in ("index.html", "gallery/index.html", "repository/ARCHITECTURE/index.html", "decisions/index.html"):
        for target in re.findall(r'href="([^"#:?]+)"', (tmp_path / page).read_text()):
            path = (tmp_path / page).parent / target
            assert path.exists(), f"{page}: {target}"


@pytest.mark.parametrize("link", ["[a](gone.md)", "[a](index.md#nowhere)", "[a](/index.md)", "![a](gone.svg)"])
def test_a_dead_link_ends_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{link}\n")
    (tmp_path / "mkdocs.yml").write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nnav: []\nhooks: []\nplugins: []\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1 and "WARNING" in done.stderr, done.stderr
