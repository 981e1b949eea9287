"""Examples of documents run: docstrings of the compiled module, docs/python.md, the notebooks."""

import doctest
import json
import os
import re
import runpy
import sys

import nbformat
import pytest
from nbclient import NotebookClient

import pliant
from conftest import ROOT
from pliant import _pliant

# Run by hand, with its outputs kept: it needs torch, which the tests' environment is too small for.
BY_HAND = ROOT / "docs/notebooks/torch.ipynb"
NOTEBOOKS = sorted(set(ROOT.glob("docs/notebooks/*.ipynb")) - {BY_HAND})


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


@pytest.mark.parametrize("page, least", [("docs/python.md", 5), ("docs/torch.md", 1)])
def test_a_guide_runs(page, least, tmp_path, monkeypatch):
    """Every block of Python in the guide, in order, but those that need a cluster or a network, which say so."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ran = [block for block in blocks if not block.startswith("# needs ")]
    assert len(ran) >= least
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in ran:
        exec(compile(block, page, "exec"), names)


def test_the_page_of_torch_is_of_its_record(monkeypatch):
    """The tables are what the benchmark writes of the record, and the record is of the settings that the page names."""
    # The program adds the folder of benchmarks.
    monkeypatch.setattr(sys, "path", list(sys.path))
    bench = runpy.run_path(str(ROOT / "bench/training/run.py"))
    record = json.loads((ROOT / "docs/torch.json").read_text())
    page = (ROOT / "docs/torch.md").read_text()
    begin, end = bench["MARKS"]
    assert page[page.index(begin) : page.index(end) + len(end)] == bench["section"](record)
    assert f"network of {record['parameters']:,} parameters" in page
    assert f"links of {record['rate_mbit']} Mbit/s" in page
    assert len(bench["rows_of"](record)) == 15
    assert {"python", "torch", "pliant"} <= record["versions"].keys() and record["kernel"] and record["seed"] == 1


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


def test_there_are_six_notebooks():
    """Five run here. The sixth was run by hand to its end: each cell has its number, and none an error."""
    assert len(NOTEBOOKS) == 5
    cells = [cell for cell in nbformat.read(BY_HAND, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs and all(output.output_type != "error" for output in outputs)
