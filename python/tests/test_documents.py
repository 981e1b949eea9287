"""Examples of documents run: docstrings of the compiled module, docs/python.md, the notebooks."""

import doctest
import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

import pliant
from conftest import ROOT
from pliant import _pliant

NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))


def test_docstrings_of_the_module_run():
    runner = doctest.DocTestRunner()
    parser, tried = doctest.DocTestParser(), 0
    for owner in (_pliant.Scenario, _pliant.Table):
        for name in [None, *vars(owner)]:
            of = owner if name is None else getattr(owner, name)
            example = parser.get_doctest(of.__doc__ or "", {"pliant": pliant}, f"{owner.__name__}.{name}", None, 0)
            tried += len(example.examples)
            runner.run(example)
    assert tried >= 8 and runner.summarize().failed == 0


def test_the_guide_runs(tmp_path, monkeypatch):
    """Every block of Python in the guide, in order, but those that need a cluster or a network, which say so."""
    text = (ROOT / "docs/python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ran = [block for block in blocks if not block.startswith("# needs ")]
    assert len(ran) >= 5
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in ran:
        exec(compile(block, "docs/python.md", "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown), "no plot"


def test_there_are_five_notebooks():
    assert len(NOTEBOOKS) == 5
