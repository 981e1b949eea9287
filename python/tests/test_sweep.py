"""Sweeps on this machine: the command's folder, its key, one dataset."""

import pytest

import pliant
from conftest import SMALL

VARY = {"queues.plan": ["shared", "strict"], "search.load": [0.2, 0.3]}


def contents(folder):
    """Every file of a sweep by its path, but what the command writes of all points.

    A summary tells how long its run took, and checksums have a line of it: both count by their names alone.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    apart = (folder / "report.html", folder / "plotly-basic.min.js")
    here = {str(path.relative_to(folder)): path for path in files if path not in apart}
    by_name = ("summary.json", "checksums.txt")
    return {name: b"" if path.name in by_name else path.read_bytes() for name, path in here.items()}


def test_the_command_has_the_same_folder_and_goes_on_in_it(command, small, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(small.to_toml())
    words = ["--vary", "queues.plan=shared,strict", "--vary", "search.load=0.2,0.3", "--seeds", 2, "--quiet"]
    command("sweep", file, *words, "--out", tmp_path / "command")
    scenario = pliant.Scenario.load(file)
    swept = pliant.sweep(scenario, vary=VARY, seeds=2, out=tmp_path / "python")
    ours = contents(tmp_path / "python")
    dataset = {name for name in ours if name.startswith("dataset/")}
    assert {name: ours[name] for name in ours if name not in dataset} == contents(tmp_path / "command")
    assert len(dataset) == len(swept) == 8
    again = command("sweep", file, *words, "--out", tmp_path / "python")
    assert "(0 now, 8 before)" in again.stdout
    written = (tmp_path / "command/points").stat().st_mtime_ns
    pliant.sweep(scenario, vary=VARY, seeds=2, out=tmp_path / "command")
    assert (tmp_path / "command/points").stat().st_mtime_ns == written, "nothing ran"


def test_a_sweep_over_seeds_names_each_once(small, tmp_path):
    swept = pliant.sweep(small, vary={"search.load": [0.2], "seed": [3, 5]}, out=tmp_path)
    folders = [f"search.load=0.2/seed={seed}" for seed in (3, 5)]
    assert [point.folder.name for point in swept.points] == [folder.replace("/", ",") for folder in folders]
    assert all((swept.dataset / folder / "flows.parquet").is_file() for folder in folders)
    assert set(swept.flows().to_table().column("seed").to_pylist()) == {3, 5}
    assert list(swept.to_pandas().columns)[:3] == ["search.load", "seed", "digest"]
    with pytest.raises(pliant.PliantError, match="each point has a seed of its own"):
        pliant.sweep(small, vary={"seed": [3, 5]}, seeds=2)


def test_the_dataset_has_the_flows_of_every_point(small):
    swept = pliant.sweep(small, vary=VARY, seeds=2)
    flows = swept.flows().to_table().to_pandas()
    assert set(flows["queues.plan"]) == {"shared", "strict"} and set(flows["seed"]) == {1, 2}
    for point in swept.points:
        rows = flows[(flows["seed"] == point.seed) & (flows["queues.plan"] == point.values["queues.plan"])]
        rows = rows[rows["search.load"] == float(point.values["search.load"])]
        again = small.set("seed", point.seed)
        for key, value in point.values.items():
            again = again.set(key, value if key == "queues.plan" else float(value))
        assert len(rows) == len(pliant.run(again).flows) > 0
    table = swept.to_pandas()
    assert len(table.query("flow_size == 'all'")) == 8 * 2


def test_points_of_another_grid_are_refused(small, tmp_path):
    pliant.sweep(small, vary={"search.load": [0.1]}, out=tmp_path / "out")
    with pytest.raises(pliant.PliantError, match="another grid"):
        pliant.sweep(small, vary={"search.load": [0.2]}, out=tmp_path / "out")
    pliant.sweep(small, vary={"search.load": [0.2]}, out=tmp_path / "out", force=True)


def test_values_that_are_no_names_of_folders(small, tmp_path):
    """A value with slashes and quotes is one folder of the dataset, and comes back as it was."""
    keys = {**SMALL, "description": "a"}
    scenario = pliant.Scenario.from_dict(keys).set("duration", "100us")
    values = ["a/b", "../c", "d e=f"]
    swept = pliant.sweep(scenario, vary={"description": values}, out=tmp_path / "out")
    assert set(swept.flows().to_table()["description"].to_pylist()) == set(values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
