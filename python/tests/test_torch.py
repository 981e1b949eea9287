"""Groups of workers on loopback sockets; with torch, if it is installed, a model on them."""

import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

import pliant
from pliant.torch import Group
from pliant.torch._coding import needed


def free_addresses(count):
    """Addresses on loopback that nobody has at this moment."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def together(work, count=4, settings=({},)):
    """What each worker's function returns, or the error that it ends with."""
    addresses, results = free_addresses(count), [None] * count

    def run(rank):
        try:
            with Group(rank, addresses, **{"patience": 20.0, **settings[rank % len(settings)]}) as group:
                results[rank] = work(rank, group)
        except pliant.PliantError as error:
            results[rank] = error

    workers = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert not worker.is_alive(), "a worker hangs"
    return results


def vector(rank, step, size):
    return np.random.default_rng([rank, step]).integers(-100, 100, size).astype(np.float32)


def test_without_a_bound_the_mean_is_exact():
    """Whole numbers of four workers, several steps and sizes: each has the mean to the bit."""

    def work(rank, group):
        return [group.all_reduce(vector(rank, step, size)) for step, size in enumerate((1, 1000, 40_000))]

    for rank_means in together(work, settings=[{"bound": 0.0}]):
        for step, size in enumerate((1, 1000, 40_000)):
            np.testing.assert_array_equal(rank_means[step], sum(vector(rank, step, size) for rank in range(4)) / 4)


@pytest.mark.parametrize("unbiased", ["rotate", "scale"])
def test_no_less_arrives_than_promised_and_no_more_is_waited_for(unbiased):
    """Each phase of each step brings at least the promised part of each worker's messages. Over all steps some are
    missing: the transport ends a flow once enough has arrived. The error is no larger than the bound predicts."""
    size, steps, bound = 60_000, 5, 0.1

    def work(rank, group):
        return [group.reduce(np.ones(size, np.float32) * rank) for _ in range(steps)]

    missing = 0
    for results in together(work, settings=[{"bound": bound, "unbiased": unbiased}]):
        for mean, arrivals in results:
            assert len(arrivals) == 6 and {arrival.phase for arrival in arrivals} == {"reduce", "gather"}
            for arrival in arrivals:
                assert needed(arrival.messages, bound) <= arrival.arrived <= arrival.messages
                missing += arrival.messages - arrival.arrived
            # Each phase at its bound: 1/9 of the squared length of what is sent, of three in four parts in the second.
            assert np.mean((mean - 1.5) ** 2) < 1.2 * (1 / 9 * 14 / 16 + 1 / 9 * (1.5**2 + 14 / 144))
            assert abs(mean.mean() - 1.5) < 0.1
    assert missing > 0


def test_an_exact_reduction_is_exact_under_any_bound():
    def work(rank, group):
        lossy = group.all_reduce(vector(rank, 0, 5000))
        return lossy, group.all_reduce(vector(rank, 1, 5000), exact=True)

    for _, exact in together(work, settings=[{"bound": 0.2}]):
        np.testing.assert_array_equal(exact, sum(vector(rank, 1, 5000) for rank in range(4)) / 4)


def test_steps_of_several_threads_do_not_mix():
    """Four vectors at once, as of buckets: each by the number that it was given."""

    def work(rank, group):
        sequences, means = [group.next_sequence() for _ in range(4)], {}

        def one(sequence):
            means[sequence] = group.reduce(vector(rank, sequence, 700), sequence=sequence)[0]

        threads = [threading.Thread(target=one, args=(sequence,)) for sequence in reversed(sequences)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return means

    for means in together(work, settings=[{"bound": 0.0}]):
        for sequence, mean in means.items():
            np.testing.assert_array_equal(mean, sum(vector(rank, sequence, 700) for rank in range(4)) / 4)


def test_settings_that_cannot_be_are_told_in_one_line():
    two = ["127.0.0.1:1", "127.0.0.1:2"]
    for addresses, rank, options, why in [
        (two, 0, {"bound": 1.0}, "bound must be at least 0 and below 1, not 1.0"),
        (two, 0, {"bound": -0.1}, "bound must be at least 0 and below 1, not -0.1"),
        (two, 0, {"bound": float("nan")}, "bound must be at least 0 and below 1, not nan"),
        (two, 0, {"gather_bound": 2.0}, "gather_bound must be at least 0 and below 1, not 2.0"),
        (two[:1], 0, {}, "a group has at least two workers, not 1"),
        (two, 2, {}, "rank must be 0 to 1, not 2"),
        (two, 0, {"unbiased": "no"}, "unbiased must be rotate or scale, not no"),
        (two, 0, {"message_bytes": 10}, "message_bytes must be 64 to 1048576, not 10"),
        (two, 0, {"patience": 0}, "patience must be above 0 seconds, not 0"),
    ]:
        with pytest.raises(pliant.PliantError) as error:
            Group(rank, addresses, **options)
        assert str(error.value) == why


def test_workers_that_disagree_are_told_in_one_line():
    errors = together(lambda rank, group: None, 2, [{"bound": 0.05}, {"bound": 0.1}])
    assert str(errors[0]) == "bound must be the same for all workers: worker 1 has 0.1, worker 0 has 0.05"
    assert str(errors[1]) == "bound must be the same for all workers: worker 0 has 0.05, worker 1 has 0.1"


def test_a_worker_that_does_not_come_is_told():
    with pytest.raises(pliant.PliantError, match=r"^worker 1 did not come within 1 s$"):
        Group(0, free_addresses(2), patience=1.0)


def test_vectors_that_cannot_be_reduced_are_told():
    """A type that is none of both; sizes that differ between workers; and what the others see of it."""

    def of_type(rank, group):
        with pytest.raises(pliant.PliantError, match="all_reduce takes float32 and float64, not int64"):
            group.all_reduce(np.arange(4))

    assert together(of_type, 2) == [None, None]
    errors = together(lambda rank, group: group.all_reduce(np.zeros(100 + 20 * rank, np.float32)), 2)
    assert any("all workers reduce the same vectors in the same order" in str(error) for error in errors)
    assert all(isinstance(error, pliant.PliantError) and "\n" not in str(error) for error in errors)


def test_a_worker_that_leaves_is_an_error_for_the_others():
    """Of three one ends after the first step, properly or not: the others' second step ends with one line."""
    for fails in (False, True):

        def work(rank, group, fails=fails):
            group.all_reduce(np.ones(3000, np.float32))
            if rank == 1:
                if fails:
                    raise pliant.PliantError("out of memory")
                return
            group.all_reduce(np.ones(3000, np.float32))

        errors = together(work, 3, [{"patience": 60.0}])
        for rank in (0, 2):
            said = str(errors[rank])
            assert isinstance(errors[rank], pliant.PliantError) and "\n" not in said and "worker 1" in said
            assert ("out of memory" in said) == fails


WORKER = """
import sys, numpy as np, pliant
from pliant.torch import Group
try:
    with Group(int(sys.argv[1]), sys.argv[2:], patience=3.0) as group:
        while True:
            group.all_reduce(np.ones(2000, np.float32))
            print("step", flush=True)
except pliant.PliantError as error:
    print(error, flush=True)
"""


def test_a_worker_that_is_killed_is_an_error_for_all():
    """Three processes; one is killed in the middle. The others end with one line that names it, and do not hang."""
    addresses = free_addresses(3)
    words = [sys.executable, "-c", WORKER]
    workers = [
        subprocess.Popen([*words, str(rank), *addresses], stdout=subprocess.PIPE, text=True) for rank in range(3)
    ]
    try:
        assert workers[2].stdout.readline() == "step\n"
        os.kill(workers[2].pid, signal.SIGKILL)
        for worker in workers[:2]:
            said, _ = worker.communicate(timeout=60)
            lines = [line for line in said.splitlines() if line != "step"]
            assert len(lines) == 1 and "worker 2" in lines[0], said
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            worker.stdout.close()


def test_without_torch_one_line_says_what_to_install():
    try:
        import torch  # noqa: F401
    except ImportError:
        from pliant.torch import hook

        with pytest.raises(pliant.PliantError, match=r"this needs torch: pip install 'pliant\[torch\]'"):
            hook(None)


# With torch.

TRAINING = """
import sys
import numpy as np
import torch
import torch.distributed as dist
import pliant, pliant.torch
rank, world, port = map(int, sys.argv[1:4])
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
torch.manual_seed(1)

def made():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 2000), torch.nn.ReLU(), torch.nn.Linear(2000, 3))

def trained(model, steps):
    draw = torch.Generator().manual_seed(rank)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimiser.zero_grad()
        inputs = torch.randn(16, 20, generator=draw)
        torch.nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(dim=1)).backward()
        optimiser.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])

ddp = torch.nn.parallel.DistributedDataParallel
by_gloo = trained(ddp(made()), 20)
with pliant.torch.join("127.0.0.1", bound=0.0) as group:
    model = ddp(made(), bucket_cap_mb=0.02)
    pliant.torch.register(model, group)
    by_group = trained(model, 20)
    assert torch.allclose(by_gloo, by_group, atol=1e-5), (by_gloo - by_group).abs().max()
with pliant.torch.join("127.0.0.1", bound=0.1, seed=5) as group:
    model = ddp(made())
    pliant.torch.register(model, group)
    lossy = trained(model, 20)
    assert (lossy - by_gloo).norm() < 0.5 * by_gloo.norm()
    before = [torch.empty_like(lossy) for _ in range(world)]
    dist.all_gather(before, lossy)
    pliant.torch.synchronise(model, group)
    after = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    assert torch.allclose(after, torch.stack(before).mean(dim=0), atol=1e-6)
    try:
        pliant.torch.register(ddp(made()), type("Group", (), {"world": 9, "rank": rank})())
    except pliant.PliantError as error:
        assert "they must be the same" in str(error)
    half = ddp(made().half())
    pliant.torch.register(half, group)
    try:
        half(torch.randn(4, 20).half()).sum().backward()
    except Exception as error:
        assert "all_reduce takes float32 and float64, not float16" in str(error), error
    else:
        raise SystemExit("half was taken")
dist.destroy_process_group()
print("good", flush=True)
"""


def test_a_model_trains_as_by_gloo():
    """Two workers: without a bound parameters after 20 steps are those of gloo's; with one they are near, and one after
    synchronising. A dtype that is not taken and a group of another size are told."""
    pytest.importorskip("torch")
    port = int(free_addresses(1)[0].rpartition(":")[2])
    words = [sys.executable, "-c", TRAINING]
    workers = [
        subprocess.Popen([*words, str(rank), "2", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for worker in workers:
            said, wrong = worker.communicate(timeout=180)
            assert said.strip() == "good", wrong[-3000:]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
