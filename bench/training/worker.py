"""A worker of bench/training/run.py: trains a small network on scikit-learn's digits, again and again, by what it is told.

Usage: worker.py RANK KEY ADDRESS ...
A line of stdin is a run: JSON with `by` (gloo or pliant), `bound`, `steps`, `seed`. A line of stdout answers it. Times are
those of whole steps at this worker; accuracy is that of worker 0 on digits that nobody trains on, and its time does not
count.
"""

import json
import os
import platform
import sys
import time

import numpy
import sklearn
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

import pliant
import pliant.torch

BATCH, EVALUATE_EVERY, WIDTHS = 32, 10, (64, 512, 256, 10)


def network(seed):
    torch.manual_seed(seed)
    layers = []
    for number, (inputs, outputs) in enumerate(zip(WIDTHS, WIDTHS[1:], strict=False)):
        layers += [torch.nn.ReLU()] * (number > 0) + [torch.nn.Linear(inputs, outputs)]
    return torch.nn.Sequential(*layers)


def digits(seed):
    """Inputs and answers, to train on and to test by: four of five, and the fifth."""
    data = load_digits()
    order = numpy.random.default_rng(seed).permutation(len(data.target))
    inputs = torch.tensor(data.data[order] / 16, dtype=torch.float32)
    answers = torch.tensor(data.target[order], dtype=torch.int64)
    split = len(order) * 4 // 5
    return (inputs[:split], answers[:split]), (inputs[split:], answers[split:])


def train(told, rank, world, group):
    train_set, test_set = digits(told["seed"])
    model = DistributedDataParallel(network(told["seed"]))
    if group is not None:
        pliant.torch.register(model, group)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw = torch.Generator().manual_seed(told["seed"] * 1000 + rank)
    own = torch.arange(rank, len(train_set[1]), world)
    steps, curve, trained = [], [], 0.0
    dist.barrier()
    for step in range(told["steps"]):
        batch = own[torch.randint(len(own), (BATCH,), generator=draw)]
        begun = time.perf_counter()
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(train_set[0][batch]), train_set[1][batch]).backward()
        optimiser.step()
        steps.append(time.perf_counter() - begun)
        trained += steps[-1]
        if rank == 0 and (step + 1) % EVALUATE_EVERY == 0:
            with torch.no_grad():
                right = model.module(test_set[0]).argmax(dim=1) == test_set[1]
            curve.append([trained, right.float().mean().item()])
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    mean = flat.clone()
    dist.all_reduce(mean)
    apart = (flat - mean / world).norm() / (mean / world).norm()
    dist.all_reduce(apart, dist.ReduceOp.MAX)
    return {"steps": steps, "curve": curve, "apart": apart.item(), "parameters": flat.numel()}


def main():
    rank, key, addresses = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": addresses[0], "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth"}
    dist.init_process_group("gloo", rank=rank, world_size=len(addresses))
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__,
                "scikit-learn": sklearn.__version__, "pliant": pliant.__version__}
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        if told["by"] == "gloo":
            answer = train(told, rank, len(addresses), None)
        else:
            settings = {"bound": told["bound"], "key": key, "seed": told["seed"], "line_rate": told["rate"]}
            with pliant.torch.join(addresses[rank], **settings) as group:
                answer = train(told, rank, len(addresses), group)
                answer["arrived"] = group.arrived
                dist.barrier()
        print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
