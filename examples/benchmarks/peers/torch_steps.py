#!/usr/bin/env python3
"""Training steps of PyTorch, alone and with DistributedDataParallel (DDP), measured as torch_bench measures horo.

scripts/compare_torch.py starts one process per rank, with RANK and WORLD_SIZE set:

  torch_steps.py STORE LAYERS WIDTH BATCH ROUNDS WARM_UP

STORE is a file that does not exist yet, through which the ranks meet. The ways are measured in turn. Rank 0 prints one
JSON object per way: {"way": ..., "milliseconds": [...]}, one number per round, that of the slowest rank.
"""
import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WAYS = {"alone": None, "DDP": {}, "DDP, gradients as bucket views": {"gradient_as_bucket_view": True}}


class Way:
    def __init__(self, options, layers, width, batch, rank):
        torch.manual_seed(1)
        parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        model = torch.nn.Sequential(*parts)
        self.model = model if options is None else DistributedDataParallel(model, **options)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        torch.manual_seed(2 + rank)
        self.inputs = torch.randn(batch, width)
        self.milliseconds = []

    def run(self, is_counted):
        dist.barrier()
        start = time.perf_counter()
        self.optimizer.zero_grad()
        self.model(self.inputs).square().mean().backward()
        self.optimizer.step()
        elapsed = torch.tensor([(time.perf_counter() - start) * 1e3], dtype=torch.float64)
        dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
        if is_counted:
            self.milliseconds.append(round(elapsed.item(), 3))


def main():
    store, *numbers = sys.argv[1:]
    layers, width, batch, rounds, warm_up = map(int, numbers)
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]),
                            timeout=datetime.timedelta(seconds=120))
    ways = {name: Way(options, layers, width, batch, rank) for name, options in WAYS.items()}
    for number in range(-warm_up, rounds):
        for way in ways.values():
            way.run(number >= 0)
    if rank == 0:
        for name, way in ways.items():
            print(json.dumps({"way": name, "milliseconds": way.milliseconds}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
