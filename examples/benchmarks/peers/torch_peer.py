#!/usr/bin/env python3
"""What PyTorch does with gloo, measured the way the benchmarks measure horo.

scripts/compare_peers.py starts one process per rank, with RANK and WORLD_SIZE set:

  torch_peer.py STORE ROUNDS sizes BYTES...    all_reduce of one tensor
  torch_peer.py STORE ROUNDS tensors FILE      all_reduce of a step's gradients
  torch_peer.py STORE ROUNDS ddp FILE          DistributedDataParallel over parameters of these shapes

STORE is a file that does not exist yet, through which the ranks meet. FILE holds element counts in forward order,
one per line. Rank 0 prints one JSON object per line: {"way": ..., "bytes": ..., "us": ...}, a median over ROUNDS.

The model of "ddp" computes nothing: its backward adds a gradient that was made before to that of each parameter, in
backward order; no memory is allocated and nothing is set to zero meanwhile, which is the least that a backward does.
"backward alone" is the same without DDP.
"""
import datetime
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TARGET_US = 20000  # a sample's length, as in allreduce_bench
TIMEOUT = datetime.timedelta(seconds=120)


def values(count, tensor, rank):
    """Differ by rank, tensor and index; their sum over the ranks is exact in float32."""
    return ((torch.arange(count) + tensor) % 127 + 1).float() * (rank + 1)


def check(tensor, index, way, factor):
    if not torch.equal(tensor, values(tensor.numel(), index, 0) * factor):
        raise RuntimeError(f"{way}: tensor {index} is wrong")


def largest(value):
    slowest = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def sample(run, iterations, buffers=()):
    """Microseconds per run on the slowest rank. The buffers are written before, as a backward does."""
    for buffer in buffers:
        buffer.zero_()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(iterations):
        run()
    return largest((time.perf_counter() - start) * 1e6 / iterations)


def measure_in_turn(ways, rounds, iterations, buffers=()):
    """The median for each way; the first round warms up and is not counted."""
    samples = {way: [] for way in ways}
    for counted in range(rounds + 1):
        for way, run in ways.items():
            us = sample(run, iterations, buffers)
            if counted:
                samples[way].append(us)
    return {way: statistics.median(us) for way, us in samples.items()}


def report(way, size, us):
    if dist.get_rank() == 0:
        print(json.dumps({"way": way, "bytes": size, "us": us}), flush=True)


def measure_size(size, rounds, rank, factor):
    x = values(size // 4, 0, rank)
    dist.all_reduce(x)
    check(x, 0, "all_reduce", factor)
    x.zero_()  # stays zero however often it is summed

    def run():
        dist.all_reduce(x)

    run()
    iterations = max(1, min(1000, round(TARGET_US / sample(run, 2))))
    report("allreduce", size, measure_in_turn({"": run}, rounds, iterations, [x])[""])


def measure_tensors(counts, rounds, rank, factor):
    tensors = [torch.empty(count) for count in counts]
    flat = torch.empty(sum(counts))

    def each():
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in reversed(tensors)]:
            work.wait()

    ways = {"one call per tensor": each, "one flat buffer": lambda: dist.all_reduce(flat)}
    for way, run in ways.items():
        for index, tensor in enumerate(tensors):
            tensor.copy_(values(tensor.numel(), index, rank))
        flat.copy_(values(flat.numel(), 0, rank))
        run()
        for index, tensor in enumerate([flat] if run is not each else tensors):
            check(tensor, index, way, factor)
    for tensor in [*tensors, flat]:
        tensor.zero_()
    for way, us in measure_in_turn(ways, rounds, 1, [*tensors, flat]).items():
        report(way, flat.numel() * 4, us)


class Use(torch.autograd.Function):
    """Passes x on; its backward says that `gradient` is that of the parameter."""

    @staticmethod
    def forward(ctx, x, parameter, gradient):
        ctx.gradient = gradient
        return x.clone()

    @staticmethod
    def backward(ctx, of_output):
        return of_output, ctx.gradient, None


class Model(torch.nn.Module):
    def __init__(self, counts, rank):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(count)) for count in counts])
        self.made = [values(count, index, rank) for index, count in enumerate(counts)]

    def forward(self, x):
        for weight, gradient in zip(self.weights, self.made):
            x = Use.apply(x, weight, gradient)
        return x


def measure_ddp(counts, rounds, rank, ranks, factor):
    """Each way has a model of its own, alone in memory, so that large sets fit."""
    ways = {"backward alone": None, "DDP": {}, "DDP, gradients as bucket views": {"gradient_as_bucket_view": True}}
    for way, options in ways.items():
        model = Model(counts, rank)
        network = model if options is None else DistributedDataParallel(model, **options)
        x = torch.ones(1, requires_grad=True)

        def step():
            network(x).backward()

        for _ in range(2):  # DDP rebuilds its buckets after the first
            step()
        network.zero_grad(set_to_none=False)
        step()
        for index, weight in enumerate(model.weights):
            check(weight.grad, index, way, rank + 1 if options is None else factor / ranks)
        report(way, sum(counts) * 4, measure_in_turn({way: step}, rounds, 1)[way])
        del model, network, step


def main():
    store, rounds, job, *words = sys.argv[1:]
    rounds, rank, ranks = int(rounds), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    factor = ranks * (ranks + 1) / 2
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=TIMEOUT)
    if job == "sizes":
        for word in words:
            measure_size(int(word), rounds, rank, factor)
    else:
        counts = [int(line) for line in Path(words[0]).read_text().split()]
        if job == "tensors":
            measure_tensors(counts, rounds, rank, factor)
        else:
            measure_ddp(counts, rounds, rank, ranks, factor)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
