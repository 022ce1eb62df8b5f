"""The notebooks run in a kernel of Jupyter, and show their results as tables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from snippets import ROOT, shortened
from test_snippets import BUILD, environment

PYTHON = BUILD / "docs-venv" / "bin" / "python"
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("nbclient is not installed (make setup-docs)")
    document = json.loads(notebook.read_text())
    for cell in document["cells"]:
        assert cell.get("outputs", []) == [], "notebooks are kept without outputs"
        cell["source"] = shortened("".join(cell["source"]))
    (tmp_path / "home").mkdir()
    (tmp_path / "given.ipynb").write_text(json.dumps(document))
    path = environment(tmp_path) | {"PATH": f"{PYTHON.parent}:{environment(tmp_path)['PATH']}"}
    command = [str(PYTHON), "-c", RUN, "given.ipynb", "ran.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = [output for cell in json.loads((tmp_path / "ran.ipynb").read_text())["cells"] for output in cell.get("outputs", [])]
    pages = ["".join(output["data"].get("text/html", "")) for output in outputs if "data" in output]
    assert any("<b>Blend " in page for page in pages), pages
    said = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    assert "Blend" in said and "does not take the example inputs" in said


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
