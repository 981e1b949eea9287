"""Controllers written in Python: the same run as the built-in law, settings, exceptions, changed code."""

import pytest

import pliant


class Reno(pliant.Controller):
    """RFC 5681 with counted bytes, as the built-in ``reno``."""

    def __init__(self, mss, *, initial_window=10):
        self.mss, self.initial_window = mss, int(initial_window)
        self.window, self.counted = self.initial_window * mss, 0

    def on_ack(self, ack):
        if ack.ece or ack.acked == 0 or ack.in_recovery or not ack.window_limited:
            return
        if self.ssthresh is None or self.window < self.ssthresh:
            self.window += min(ack.acked, self.mss)
            return
        self.counted += ack.acked
        if self.counted >= self.window:
            self.counted = min(self.counted - self.window, self.window)
            self.window += self.mss

    def on_congestion(self, event):
        half = max(event.flight // 2, 2 * self.mss)
        if event.cause != "timeout":
            self.window = self.ssthresh = half
        else:
            if event.first:
                self.ssthresh = half
            self.window = self.mss
        self.counted = 0

    def on_recovered(self, flight):
        self.window = min(self.window, max(flight, self.mss) + self.mss)

    def on_idle(self):
        self.window = min(self.window, self.initial_window * self.mss)


@pytest.fixture
def lossy(small):
    return small.set("search.transport", "reno").set("search.load", 0.9)


def test_reno_in_python_makes_the_run_of_the_built_in(lossy):
    pliant.register_controller("python-reno", Reno)
    built_in = pliant.run(lossy)
    ours = pliant.run(lossy.set("search.transport", "python-reno"))
    assert sum(ours.flows.to_arrow()["retransmitted_packets"].to_pylist()) > 0
    assert ours.digest == built_in.digest


def test_parameters_are_settings(lossy):
    pliant.register_controller("python-reno", Reno)
    ours = lossy.set("search.transport", "python-reno").set("search.tcp.initial_window", 3)
    assert pliant.run(ours).digest == pliant.run(lossy.set("search.tcp.initial_window", 3)).digest
    with pytest.raises(pliant.ScenarioError, match="initial_windw") as error:
        ours.set("traffic.search.tcp.initial_windw", 3).check()
    assert error.value.suggestion == "initial_window"
    with pytest.raises(pliant.ScenarioError, match="a number should be"):
        ours.set("search.tcp.initial_window", "3").check()


def test_an_exception_ends_the_run_and_is_raised(lossy):
    class Fails(Reno):
        def on_congestion(self, event):
            raise ZeroDivisionError("of the controller")

    class Shrinks(Reno):
        def on_congestion(self, event):
            self.window = 0

    pliant.register_controller("fails", Fails)
    pliant.register_controller("shrinks", Shrinks)
    with pytest.raises(ZeroDivisionError, match="of the controller"):
        pliant.run(lossy.set("search.transport", "fails").set("duration", "100s"))
    with pytest.raises(ValueError, match="window is 0: it must be at least 1"):
        pliant.run(lossy.set("search.transport", "shrinks"))
    with pytest.raises(ZeroDivisionError):
        pliant.compare(lossy, vary={"search.transport": ["reno", "fails"]}, seeds=2)
    # The next run has nothing of it.
    pliant.run(lossy)


def test_changed_code_is_another_scenario(lossy, tmp_path):
    def register(step):
        class Changes(Reno):
            def on_idle(self):
                self.window = step * self.mss if step == 4 else self.window

        class Other(Reno):
            pass

        pliant.register_controller("changes", Changes if step == 4 else Other)

    register(4)
    mine = lossy.set("search.transport", "changes")
    text = mine.to_toml()
    register(5)
    assert mine.to_toml() != text
    with pytest.raises(pliant.ScenarioError, match="has other code"):
        pliant.Scenario.from_toml(text).check()


def test_what_is_no_controller_is_refused():
    class NoDefault(Reno):
        def __init__(self, mss, gain):
            super().__init__(mss)

    class NoWindow(pliant.Controller):
        def __init__(self, mss):
            pass

    class OfTcp(Reno):
        def __init__(self, mss, *, min_rto=1.0):
            super().__init__(mss)

    class Ecn(Reno):
        ecn = "on"

    register = pliant.register_controller
    for name, controller, error, why in [
        ("mine", object, TypeError, "not a subclass"),
        ("mine", NoDefault, TypeError, "'gain' needs a number"),
        ("mine", NoWindow, AttributeError, "window"),
        ("mine", OfTcp, ValueError, "`min_rto` is a setting of TCP"),
        ("mine", Ecn, ValueError, 'must be "off"'),
        ("dctcp", Reno, ValueError, "there is a transport `dctcp` already"),
        ("My Own", Reno, ValueError, "lower-case"),
    ]:
        with pytest.raises(error, match=why):
            register(name, controller)
    with pytest.raises(pliant.ScenarioError, match="mine"):
        pliant.Scenario.load("demo").set("traffic.search.transport", "mine").check()
