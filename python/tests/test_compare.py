"""Comparisons and plots: the command's numbers, and what is drawn of them."""

import json
import sys

import numpy as np
import pytest

import pliant
import pliant.plotly_plots
import pliant.plots

VARY = {"queues.plan": ["shared", "strict"], "search.load": [0.3, 0.4]}


@pytest.fixture(scope="module")
def compared():
    return pliant.compare(pliant.Scenario.load("demo").set("duration", "1ms"), vary=VARY, seeds=3)


def test_a_comparison_is_the_commands(command, compared, tmp_path):
    words = ["--vary", "queues.plan=shared,strict", "--vary", "search.load=0.3,0.4", "--seeds", 3, "--json", "--quiet"]
    said = json.loads(command("compare", "demo", "--set", "duration=1ms", *words).stdout)
    assert compared.labels == said["variants"] and compared.seeds == said["seeds"] == [1, 2, 3]
    assert compared.changes == said["changes"] and len(compared.changes) > 0
    assert compared.answer == said.get("answer")
    assert compared.data["rows"] == said["rows"]


def test_variants_of_the_scenario_and_ranges_as_text(small):
    by_text = pliant.compare(small, vary={"search.load": "0.2:0.4:0.1"}, seeds=1)
    assert by_text.labels == ["search.load=0.2", "search.load=0.3", "search.load=0.4"]
    assert by_text.changes == [] and by_text.answer is None
    demo = pliant.Scenario.load("demo").set("duration", "200us")
    assert pliant.compare(demo, seeds=1).labels == demo.variants


def test_mistakes_of_what_varies_are_told(small):
    for vary, why in [
        ({}, "nothing to compare"),
        ({"search.load": []}, "has no value"),
        ({"search.load": [0.1, 0.1]}, "repeats"),
        ({"search.laod": [0.1]}, "no key of this scenario"),
        ({"search.load": [0.1, "x"]}, "search.load"),
        ({"search.load": 3}, "a list of values"),
        ({"seed": list(range(100))}, "do not fit in a table"),
    ]:
        with pytest.raises(pliant.PliantError, match=why):
            pliant.compare(small, vary=vary, seeds=2)
    with pytest.raises(pliant.PliantError, match="seeds=0"):
        pliant.compare(small, vary={"search.load": [0.1]}, seeds=0)


def test_a_comparison_shows_itself(compared):
    assert "<pre>" in compared._repr_html_() and compared.labels[0] in str(compared)
    frame = compared.to_pandas()
    assert (frame["low"] <= frame["change"]).all() and (frame["change"] <= frame["high"]).all()


def test_changes_are_drawn_as_they_are(compared):
    measure = compared.changes[0]["measure"]
    ax = compared.plot(measure)
    rows = [row for row in compared.changes if row["measure"] == measure]
    drawn = sorted(bar.get_height() for bar in ax.patches)
    assert np.allclose(drawn, sorted(100 * row["change"] for row in rows))
    with pytest.raises(pliant.PliantError, match="there is no measure"):
        compared.plot("speed")


@pytest.fixture(scope="module")
def sampled():
    scenario = pliant.Scenario.load("demo").set("duration", "2ms").set("sample_interval", "50us")
    return pliant.run(scenario)


def test_a_cdf_ends_at_the_part_that_completed(sampled):
    ax = pliant.plots.fct_cdf(sampled)
    flows = sampled.flows.to_pandas()
    for line in ax.get_lines():
        of_group = flows[flows["group"] == line.get_label()]
        completed = of_group["fct_us"].notna().sum()
        assert len(line.get_xdata()) == completed
        assert line.get_ydata()[-1] == pytest.approx(completed / len(of_group))


def test_slowdowns_are_quantiles_of_the_flows(sampled):
    ax = pliant.plots.slowdown_by_size(sampled, quantile=0.5, buckets=1, groups=["search"])
    flows = sampled.flows.to_pandas()
    expected = flows[flows["group"] == "search"]["slowdown"].dropna().median()
    assert ax.get_lines()[0].get_ydata()[0] == pytest.approx(expected)


def test_shares_add_up_to_one(sampled):
    ax = pliant.plots.share_over_time(sampled)
    total = np.sum([line.get_ydata() for line in ax.get_lines()], axis=0)
    assert np.all((np.abs(total - 1) < 1e-9) | (total == 0))


def test_the_heat_map_has_the_fullest_queue_first(sampled):
    ax = pliant.plots.queue_heat_map(sampled, ports=5)
    image = ax.get_images()[0].get_array()
    per_time = sampled.queue_series.to_pandas().groupby(["port", "at_ps"])["bytes"].sum()
    assert image[0].max() == pytest.approx(per_time.max() / 1e3)
    assert list(image.max(axis=1)) == sorted(image.max(axis=1), reverse=True)


PLOTS = ["fct_cdf", "slowdown_by_size", "share_over_time"]


@pytest.mark.parametrize("name", PLOTS)
def test_plotly_draws_the_curves_of_matplotlib(sampled, name):
    """The same values, names and axes; a CDF holds its value until the next one."""
    ax = getattr(pliant.plots, name)(sampled)
    figure = getattr(pliant.plotly_plots, name)(sampled)
    assert [trace.name for trace in figure.data] == [line.get_label() for line in ax.get_lines()]
    for trace, line in zip(figure.data, ax.get_lines(), strict=True):
        assert np.array_equal(trace.x, line.get_xdata()) and np.array_equal(trace.y, line.get_ydata())
        assert (trace.line.shape == "hv") == (line.get_drawstyle() == "steps-post") == (name == "fct_cdf")
    layout = figure.layout
    assert (layout.xaxis.title.text, layout.yaxis.title.text) == (ax.get_xlabel(), ax.get_ylabel())
    assert layout.xaxis.type == ax.get_xscale()
    figure.to_json()


def test_plotly_draws_the_heat_map_of_matplotlib(sampled):
    ax = pliant.plots.queue_heat_map(sampled, ports=5)
    figure = pliant.plotly_plots.queue_heat_map(sampled, ports=5)
    (heat,) = figure.data
    assert np.array_equal(heat.z, ax.get_images()[0].get_array())
    assert list(figure.layout.yaxis.ticktext) == [label.get_text() for label in ax.get_yticklabels()]
    begin, end = ax.get_xlim()
    assert (heat.x[0], heat.x[-1], len(heat.x)) == (pytest.approx(begin), pytest.approx(end), heat.z.shape[1] + 1)


def test_plots_without_their_data_say_what_to_do(small):
    result = pliant.run(small)
    for by in (pliant.plots, pliant.plotly_plots):
        for plot in (by.share_over_time, by.queue_heat_map):
            with pytest.raises(pliant.PliantError, match="sample_interval"):
                plot(result)
        with pytest.raises(pliant.PliantError, match="no traffic group 'none'"):
            by.fct_cdf(result, groups=["none"])


def test_plotly_that_is_not_installed_is_told_in_one_line(sampled, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"needs the package plotly: `pip install plotly`$"):
        pliant.plotly_plots.fct_cdf(sampled)


def test_a_figure_has_the_commands_verdicts(command, tmp_path):
    cache = tmp_path / "cache"
    reproduced = pliant.reproduce("reflex", "fig05", cache=cache)
    said = command("reproduce", "reflex", "fig05", "--json", "--quiet", "--cache", cache)
    assert reproduced.claims == json.loads(said.stdout) and len(reproduced.claims) > 0
    assert len(reproduced.plots) > 0
    ax = reproduced.plot(0)
    assert len(ax.get_legend().get_texts()) == len(reproduced.plots[0]["series"])
    reproduced.write_page(tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()
    with pytest.raises(pliant.PliantError, match="fig"):
        pliant.reproduce("reflex", "fig99", cache=cache)


def test_every_paper_can_be_reproduced():
    named = {name.split()[0] for name, _ in pliant.figures()}
    assert named >= {"reflex", "lowprio", "flexpass", "atp", "ppush"}
    assert [name for name, _ in pliant.figures("reflex")] == [n for n, _ in pliant.figures() if n.startswith("reflex ")]
