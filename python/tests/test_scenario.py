"""Scenarios from files, texts and dicts: one meaning, one set of errors."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pliant
from conftest import SMALL


def toml_value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml_value(of_key)}" for key, of_key in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # JSON's texts, whole numbers, decimals and truths are TOML's.
    return json.dumps(value)


def toml_text(keys):
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())


def with_value(path, value):
    """The small scenario with another value, or without one, at a dotted path."""
    keys = copy.deepcopy(SMALL)
    *tables, last = path.split(".")
    at = keys
    for table in tables:
        at = at.setdefault(table, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return keys


sizes = st.integers(1, 300).map(lambda kilobytes: f"{kilobytes}kB")
groups = st.fixed_dictionaries(
    {
        "kind": st.just("poisson"),
        "size": sizes,
        "load": st.integers(1, 30).map(lambda percent: percent / 100),
        "transport": st.sampled_from(["dctcp", "cubic", "reno", "ledbat++", "dctcp", "cubic", "expresspass"]),
    }
)
scenarios = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "duration": st.integers(50, 400).map(lambda us: f"{us}us"),
        "topology": st.fixed_dictionaries(
            {
                "kind": st.just("star"),
                "hosts": st.integers(2, 6),
                "link": st.fixed_dictionaries(
                    {"rate": st.sampled_from(["1Gbit/s", "10Gbit/s", "40Gbit/s"]), "delay": st.just("1us")}
                ),
            }
        ),
        "traffic": st.dictionaries(st.sampled_from(["a", "b-c", "d"]), groups, min_size=1, max_size=3),
    },
    optional={"sample_interval": st.just("50us"), "packets": st.just({"mss": "1000B", "framing": "ip"})},
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios)
def test_a_dict_and_a_text_are_the_same_run(keys):
    """Random scenarios as a dict and as TOML: the same run, or the same refusal."""

    def outcome(scenario):
        try:
            return pliant.run(scenario).digest
        except pliant.ScenarioError as error:
            return (str(error).partition(": ")[2].removeprefix("scenario: "), error.path, error.suggestion)

    of_text = outcome(pliant.Scenario.from_toml(toml_text(keys), "scenario"))
    of_dict = outcome(pliant.Scenario.from_dict(keys))
    if isinstance(of_text, tuple):
        assert of_text[1:] == of_dict[1:]
    else:
        assert of_text == of_dict


@pytest.mark.parametrize(
    ("path", "value", "suggestion"),
    [
        ("traffic.search.transport", "dcctp", "dctcp"),
        ("traffic.search.laod", 0.3, "load"),
        ("traffic.search.load", "much", None),
        ("traffic.search.load", -1, None),
        ("traffic.search.size", "20kB..10kB", None),
        ("topology.hosts", None, None),
        ("topology.link.rate", 10, None),
        ("topology.kind", "stra", "star"),
        ("duration", None, None),
        ("durration", "1ms", "duration"),
        ("queues", {"plan": "strickt"}, "strict"),
    ],
)
def test_a_mistake_is_told_alike_but_for_the_line(path, value, suggestion, tmp_path):
    """The message of a dict is that of a file, whose line takes the place of the name."""
    keys = with_value(path, value)
    file = tmp_path / "small.toml"
    file.write_text(toml_text(keys))
    with pytest.raises(pliant.ScenarioError) as of_file:
        pliant.Scenario.load(file).check()
    with pytest.raises(pliant.ScenarioError) as of_dict:
        pliant.Scenario.from_dict(keys, "small").check()
    of_file, of_dict = of_file.value, of_dict.value
    assert str(of_file).removeprefix(f"{file}:{of_file.line}: ") == str(of_dict).removeprefix("small: ")
    assert of_file.file == str(file) and of_dict.file is None
    assert isinstance(of_file.line, int) and of_dict.line is None
    assert of_file.path == of_dict.path
    assert path.startswith(of_file.path) or of_file.path.startswith(path)
    assert of_file.suggestion == of_dict.suggestion == suggestion
    assert "\n" not in str(of_dict)


def test_the_command_says_the_same(command, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(toml_text(with_value("traffic.search.transport", "dcctp")))
    said = command("run", file, check=False)
    assert said.returncode == 2
    with pytest.raises(pliant.ScenarioError) as error:
        pliant.run(pliant.Scenario.load(file))
    assert said.stderr.strip() == f"error: {error.value}"


def test_values_that_no_file_has_are_refused_by_path():
    holds_itself = copy.deepcopy(SMALL)
    holds_itself["traffic"]["search"]["tcp"] = holds_itself
    for keys, path in [
        ({**SMALL, "seed": 2**64}, "seed"),
        ({**SMALL, "name": object()}, "name"),
        ({**SMALL, "losses": [{"rate": {1, 2}}]}, "losses.0.rate"),
        ({**SMALL, "topology": {1: 2}}, "topology"),
    ]:
        with pytest.raises(pliant.ScenarioError) as error:
            pliant.Scenario.from_dict(keys)
        assert error.value.path == path
    with pytest.raises(pliant.ScenarioError, match="nested too deep"):
        pliant.Scenario.from_dict(holds_itself)
    with pytest.raises(pliant.ScenarioError, match="table of keys"):
        pliant.Scenario.from_dict([1])


def test_numbers_of_numpy_are_numbers():
    keys = copy.deepcopy(SMALL)
    keys["seed"] = np.int64(3)
    keys["traffic"]["search"]["load"] = np.float64(0.4)
    keys["topology"]["hosts"] = np.uint8(4)
    plain = pliant.Scenario.from_dict({**SMALL, "seed": 3})
    assert pliant.Scenario.from_dict(keys).to_toml() == plain.to_toml()


def test_set_is_an_override_and_changes_nothing_else(small):
    other = small.set("seed", 9).set("search.load", 0.2).set("queues.plan", "strict")
    assert (small.seed, other.seed) == (1, 9)
    assert other.to_dict()["traffic"]["search"]["load"] == 0.2
    with pytest.raises(pliant.ScenarioError, match="set laod: no key of this scenario") as error:
        small.set("laod", 1)
    assert error.value.suggestion == "load"


def test_variants_are_those_that_the_file_names():
    demo = pliant.Scenario.load("demo")
    assert "strict" in " ".join(demo.variants)
    assert demo.variant(demo.variants[1]).to_toml() != demo.to_toml()
    with pytest.raises(pliant.ScenarioError, match="unknown variant"):
        demo.variant("none")


def test_a_scenario_goes_to_another_process(small):
    for other in (pickle.loads(pickle.dumps(small)), copy.deepcopy(small)):
        assert other.to_toml() == small.to_toml()


def test_a_missing_file_is_told_in_one_line(tmp_path):
    with pytest.raises(pliant.ScenarioError) as error:
        pliant.Scenario.load(tmp_path / "none.toml")
    assert "none.toml" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(pliant.PliantError, match="did you mean `demo`"):
        pliant.Scenario.load("demmo")


def test_a_distribution_is_its_sample():
    """Flow sizes of a run are those of the sample, each about as often."""
    sample = np.array([2000, 5000, 5000, 40000])
    keys = copy.deepcopy(SMALL)
    search = keys["traffic"]["search"]
    del search["size"]
    search["workload"] = pliant.distribution(sample)
    flows = pliant.run(pliant.Scenario.from_dict(keys).set("duration", "20ms")).flows.to_pandas()
    sizes = flows[flows["group"] == "search"]["size_bytes"]
    assert len(sizes) > 200 and set(sizes) == {2000, 5000, 40000}
    # Five standard errors of a fraction of one half.
    assert abs((sizes == 5000).mean() - 0.5) < 5 * 0.5 / len(sizes) ** 0.5


def test_a_distribution_of_many_keeps_its_ends():
    sample = np.linspace(100, 1e6, 54321)
    lines = pliant.distribution(sample).splitlines()
    assert len(lines) <= 2001 and lines[1].startswith("100,") and lines[-1] == "1000000,1"


def test_a_distribution_that_cannot_be_is_refused(small):
    for sizes, cdf in [([], None), ([0], None), ([float("nan")], None), ([1, 2], [1.0])]:
        with pytest.raises(pliant.PliantError):
            pliant.distribution(sizes, cdf)
    falling = small.set("traffic.search", {**SMALL["traffic"]["search"]})
    keys = copy.deepcopy(SMALL)
    del keys["traffic"]["search"]["size"]
    keys["traffic"]["search"]["workload"] = pliant.distribution([1, 2], [1.0, 0.5])
    assert falling.check() == small.check()
    with pytest.raises(pliant.ScenarioError) as error:
        pliant.Scenario.from_dict(keys).check()
    assert error.value.path == "traffic.search.workload"
