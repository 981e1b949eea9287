"""Simulates datacenter transports, and runs them on real sockets, for traffic that can give way.

A scenario says which network, queues and traffic there are; a run of it gives tables.

>>> import pliant
>>> s = pliant.Scenario.from_dict({
...     "duration": "5ms",
...     "topology": {"kind": "star", "hosts": 4, "link": {"rate": "10Gbit/s", "delay": "1us"}},
...     "traffic": {"search": {"kind": "poisson", "size": "20kB", "load": 0.4, "transport": "dctcp"}},
... })
>>> r = pliant.run(s)
>>> r.digest == pliant.run(s).digest
True
>>> r.flows.column_names[:3]
['flow', 'group', 'request']

The same seed gives the same events, and so the same digest, from Python, on the command line and on a cluster.
"""

from __future__ import annotations

from ._compare import Comparison, compare
from ._controller import Controller, register_controller
from ._distribution import distribution
from ._errors import PliantError, ScenarioError
from ._pliant import Ack, Congestion, Scenario, Table, __version__
from ._reproduce import Reproduction, figures, reproduce
from ._run import Result, run
from ._sweep import Sweep, sweep

__all__ = [
    "Ack",
    "Comparison",
    "Congestion",
    "Controller",
    "PliantError",
    "Reproduction",
    "Result",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "Table",
    "__version__",
    "compare",
    "distribution",
    "figures",
    "register_controller",
    "reproduce",
    "run",
    "sweep",
]
