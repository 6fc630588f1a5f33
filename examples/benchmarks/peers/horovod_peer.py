#!/usr/bin/env python3
"""What Horovod does with a step's gradients, measured the way the benchmarks measure horo.

scripts/compare_peers.py starts it with Open MPI's mpirun:

  mpirun -np 2 PYTHON horovod_peer.py ROUNDS FILE

FILE holds element counts in forward order, one per line. Rank 0 prints one JSON object per line: {"way": ...,
"bytes": ..., "us": ...}, a median over ROUNDS: allreduce_async_ of each tensor in backward order, and one
grouped_allreduce_ of all.
"""
import json
import os
import statistics
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch


def values(count, tensor, rank):
    """Differ by rank, tensor and index; their sum over the ranks is exact in float32."""
    return ((torch.arange(count) + tensor) % 127 + 1).float() * (rank + 1)


def each(tensors):
    handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"gradient{index}")
               for index, tensor in reversed(list(enumerate(tensors)))]
    for handle in handles:
        hvd.synchronize(handle)


def grouped(tensors):
    hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="gradients")


def check(way, tensors, factor):
    for index, tensor in enumerate(tensors):
        if not torch.equal(tensor, values(tensor.numel(), index, 0) * factor):
            raise RuntimeError(f"{way}: tensor {index} is wrong")


def sample(run, tensors):
    """Microseconds on the slowest rank. The tensors are written before, as a backward does."""
    for tensor in tensors:
        tensor.zero_()  # stays zero however often it is summed
    hvd.barrier()
    start = time.perf_counter()
    run(tensors)
    us = torch.tensor([(time.perf_counter() - start) * 1e6], dtype=torch.float64)
    return hvd.allreduce(us, op=hvd.Max, name="slowest").item()


def main():
    rounds = int(sys.argv[1])
    counts = [int(line) for line in Path(sys.argv[2]).read_text().split()]
    torch.set_num_threads(1)
    # Both ways give every tensor a name of its own; Horovod's cache should hold them all.
    os.environ.setdefault("HOROVOD_CACHE_CAPACITY", str(2 * len(counts) + 64))
    hvd.init()
    if not hvd.mpi_enabled():
        raise RuntimeError("Horovod does not use MPI here")
    tensors = [torch.empty(count) for count in counts]
    ways = {"each tensor, asynchronously": each, "all tensors, grouped": grouped}
    for way, run in ways.items():
        for index, tensor in enumerate(tensors):
            tensor.copy_(values(tensor.numel(), index, hvd.rank()))
        run(tensors)
        check(way, tensors, hvd.size() * (hvd.size() + 1) // 2)
    samples = {way: [] for way in ways}
    for counted in range(rounds + 1):
        for way, run in ways.items():
            us = sample(run, tensors)
            if counted:
                samples[way].append(us)
    if hvd.rank() == 0:
        for way, us in samples.items():
            print(json.dumps({"way": way, "bytes": 4 * sum(counts), "us": statistics.median(us)}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
