"""What torch needs: a communication hook for DistributedDataParallel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .. import net
from .._errors import PliantError
from ._group import Group

if TYPE_CHECKING:
    import torch

# Buckets that are reduced at once.
_MOST_BUCKETS = 4


def _torch() -> Any:
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise PliantError(f"this needs torch: pip install 'pliant[torch]' ({error})") from None
    return torch


class _Hook:
    """Gradients of each bucket are reduced by the group, several buckets at once."""

    def __init__(self, group: Group) -> None:
        self.group, self._torch = group, _torch()
        self._pool = ThreadPoolExecutor(max_workers=_MOST_BUCKETS, thread_name_prefix="bucket")

    def reduce(self, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer, future = bucket.buffer(), self._torch.futures.Future()
        # DDP calls the hook for all buckets in the same order at all workers.
        sequence = self.group.next_sequence()

        def work() -> None:
            try:
                buffer.copy_(_reduced(self._torch, self.group, buffer, sequence=sequence))
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(buffer)

        self._pool.submit(work)
        return future


def hook(group: Group) -> Callable[[Any, Any], Any]:
    """Return a communication hook for ``DistributedDataParallel.register_comm_hook``; its state is not used.

    Gradients are reduced by the group. The process group that the model was made with is not used for them any more.
    """
    made = _Hook(group)
    # torch compares the annotations of a hook, if it has some, with its own classes.
    return lambda state, bucket: made.reduce(bucket)


def _reduced(torch: Any, group: Group, tensor: Any, exact: bool = False, sequence: int | None = None) -> Any:
    if tensor.dtype not in (torch.float32, torch.float64):
        name = str(tensor.dtype).removeprefix("torch.")
        raise PliantError(f"all_reduce takes float32 and float64, not {name}")
    mean, _ = group.reduce(tensor.detach().cpu().numpy(), exact=exact, sequence=sequence)
    return torch.from_numpy(mean)


def register(model: torch.nn.parallel.DistributedDataParallel, group: Group) -> None:
    """Let a model's gradients be reduced by a group."""
    world, rank = model.process_group.size(), model.process_group.rank()
    if (world, rank) != (group.world, group.rank):
        raise PliantError(
            f"the model's worker is {rank} of {world}, the group's {group.rank} of {group.world}: they must be the same"
        )
    model.register_comm_hook(None, hook(group))


def synchronise(model: torch.nn.Module, group: Group) -> None:
    """Give all workers the mean of their parameters, of which nothing is missing.

    With a ``gather_bound`` above 0 workers apply gradients that differ a little, and their parameters drift apart:
    every hundred steps or so, and before parameters are saved, is a good time.
    """
    torch = _torch()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with torch.no_grad():
        for dtype in sorted({parameter.dtype for parameter in parameters}, key=str):
            some = [parameter for parameter in parameters if parameter.dtype == dtype]
            flat = _reduced(torch, group, torch.cat([parameter.reshape(-1) for parameter in some]), exact=True)
            for parameter, part in zip(some, flat.split([parameter.numel() for parameter in some]), strict=True):
                parameter.copy_(part.view_as(parameter))


@contextlib.contextmanager
def join(host: str, **settings: Any) -> Iterator[Group]:
    """Make a group of the workers of torch's default process group, which tells them each other's addresses.

    Args:
        host: The IP address of this worker, at which the others reach it.
        settings: Those of :class:`Group`.
    """
    torch = _torch()
    if not torch.distributed.is_initialized():
        raise PliantError("torch.distributed is not initialised: call init_process_group first")
    node = net.Node(f"{host}:0", listen=True, key=settings.get("key"))
    addresses: list[str] = [""] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(addresses, node.address)
    with Group(torch.distributed.get_rank(), addresses, control=node, **settings) as group:
        yield group


__all__ = ["hook", "join", "register", "synchronise"]
