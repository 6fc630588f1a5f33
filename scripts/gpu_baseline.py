#!/usr/bin/env python3
"""Times training steps in PyTorch on this machine's GPU, for comparison with horo.

usage: gpu_baseline.py [--json FILE] [--steps N] [--only PART]

Each network trains on one batch of random data, eager and compiled, in bfloat16 where autocast uses it, with images in
channels_last. "adamw-124m" is the fused optimizer alone, on parameters of GPT-2's sizes. The report has the median,
minimum and maximum time of N steps (default 20) after 5 warm-up steps. A step ends when the GPU has completed it.

Exit code: 0; 1 if a case failed (its row has the error); 77 without PyTorch or a GPU.
"""
import json
import statistics
import sys
import time

import command_line

if {"-h", "--help"} & set(sys.argv[1:]):  # also without PyTorch
    print(__doc__.strip())
    sys.exit(0)
try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    print(f"gpu_baseline.py: there is no PyTorch here ({error}), nothing was measured")
    sys.exit(77)

DEVICE = "cuda"
WARM_UP = 5


def mlp():
    return nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))


def cnn():
    """The network of train_mnist."""
    return nn.Sequential(nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.MaxPool2d(2),
                         nn.ReLU(), nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))


class Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al. 2016)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return functional.relu(self.path(x) + self.skip(x))


def resnet(widths, blocks):
    """A ResNet for images of 32 x 32. Each stage except the first halves height and width."""
    layers = [nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    inputs = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            layers.append(Residual(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


NETWORKS = {  # name: model, shape of a sample, batch
    "mlp-784-4096-4096-10": (mlp, (784,), 1024),
    "cnn-train_mnist": (cnn, (1, 28, 28), 128),
    "resnet20-cifar": (lambda: resnet((16, 32, 64), 3), (3, 32, 32), 512),
    "resnet18-cifar": (lambda: resnet((64, 128, 256, 512), 2), (3, 32, 32), 512),
}


def gpt2_parameters():
    """GPT-2's smallest model: 124,439,808 values."""
    width = 768
    layer = [(width,), (width,), (width, 3 * width), (3 * width,), (width, width), (width,), (width,), (width,),
             (width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    return [torch.randn(shape, device=DEVICE) for shape in [(50257, width), (1024, width)] + layer * 12 + [(width,)] * 2]


def milliseconds(step, count):
    """The times of each step."""
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def network_step(name, compiled):
    make, shape, batch = NETWORKS[name]
    torch.manual_seed(0)
    model = make().to(DEVICE)
    inputs = torch.randn(batch, *shape, device=DEVICE)
    if len(shape) == 3:
        model, inputs = (what.to(memory_format=torch.channels_last) for what in (model, inputs))
    labels = torch.randint(10, (batch,), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = functional.cross_entropy(forward(inputs), labels)
        loss.backward()
        optimizer.step()

    return step, batch


def adamw_step():
    parameters = gpt2_parameters()
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    return optimizer.step, sum(parameter.numel() for parameter in parameters)


def measured(name, mode, make_step, count):
    """A row of the report; make_step() gives a step and the number of items in it."""
    row = {"case": name, "mode": mode}
    try:
        step, items = make_step()
        times = milliseconds(step, count)
        median = statistics.median(times)
        row |= {"median_ms": median, "min_ms": min(times), "max_ms": max(times), "items_per_s": items / median * 1e3}
        print(f"{name:22} {mode:9} {median:9.3f} ms ({min(times):.3f} to {max(times):.3f}) {row['items_per_s']:14.0f} items/s",
              flush=True)
    except Exception as error:  # pylint: disable=broad-except  # the other cases run after a failed case
        row["error"] = f"{type(error).__name__}: {error}"
        print(f"{name:22} {mode:9} failed: {row['error'].splitlines()[0]}", flush=True)
    torch.cuda.empty_cache()
    return row


def cases():
    """Name, mode and make_step of each case. Eager cases are first, because they need no compilation."""
    for compiled in (False, True):
        for name in NETWORKS:
            yield name, "compiled" if compiled else "eager", lambda name=name, compiled=compiled: network_step(name, compiled)
        if not compiled:
            yield "adamw-124m", "fused", adamw_step


def main():
    parser = command_line.Parser(description="Times training steps in PyTorch on this machine's GPU.")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--steps", type=command_line.count, default=20, help="timed steps per case")
    parser.add_argument("--only", default="", help="only cases whose names contain this")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_baseline.py: PyTorch sees no GPU here, nothing was measured")
        return 77
    torch.backends.cudnn.benchmark = True
    report = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": []}
    print(f"{report['gpu']}, PyTorch {report['torch']}", flush=True)
    for name, mode, make_step in cases():
        if arguments.only not in name:
            continue
        report["rows"].append(measured(name, mode, make_step, arguments.steps))
        if arguments.json:  # after each case, so that an interrupted run keeps its results
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=2)
    return 1 if any("error" in row for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
