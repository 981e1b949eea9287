"""Training on several machines whose network may lose a bounded part of the gradients.

A bounded all-reduce on messages of ATP, and a communication hook for torch's DistributedDataParallel on it. Each worker
averages its part of the vector and sends the mean to all others (the transpose all-reduce of OptiReduce, NSDI 2025). A
worker's messages need not all arrive: once all but ``bound`` of them have, nobody waits for the rest. What is missing
is made up for, so that the result's expectation is the mean.

    import torch.distributed as dist
    import pliant.torch

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    with pliant.torch.join("10.0.0.1", bound=0.05, key="lab.key") as group:
        pliant.torch.register(model, group)
        ...                                     # train

:class:`Group` alone needs numpy and no torch.
"""

from __future__ import annotations

from .._errors import PliantError

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise PliantError(f"pliant.torch needs numpy: pip install 'pliant[torch]' ({_error})") from None

from ._group import Group
from ._hook import hook, join, register, synchronise
from ._transpose import Arrival

__all__ = ["Arrival", "Group", "hook", "join", "register", "synchronise"]
