#!/usr/bin/env python3
"""Times training steps in PyTorch on this machine's GPU, for comparison with horo's train_step_bench.

usage: gpu_baseline.py [--json FILE] [--samples N] [--only PART] [--device cpu --divide N]

Each network trains on one batch of random data, eager and compiled. Rows are as those of train_step_bench:
- bfloat16 by autocast with images in channels_last; float32 without TF32 and channels first, eager only
- "checked" steps skip the update on the device if a gradient is not finite, as check_finite of horo does
- a sample is the time of 4 steps and of one synchronisation, divided by 4
- cuDNN chooses deterministic algorithms by its rules, as in horo. Rows of the mode "eager-benchmark" let cuDNN time all its
  algorithms instead (torch.backends.cudnn.benchmark), which the layers of horo do not do.
"adamw-124m" is the fused optimizer alone, on parameters of GPT-2's sizes. The report has the median, minimum and maximum of N
samples (default 21) after 5 steps of warm-up. --device cpu tests the program; --divide N then divides the batches.

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

WARM_UP = 5
STEPS_PER_SAMPLE = 4  # kStepsPerSample of train_step_bench


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


def gpt2_sizes():
    """The parameters of GPT-2's smallest model: 124,439,808 values."""
    width = 768
    layer = [(width,), (width,), (width, 3 * width), (3 * width,), (width, width), (width,), (width,), (width,),
             (width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    return [(50257, width), (1024, width)] + layer * 12 + [(width,)] * 2


class Timer:
    """Times steps on a device."""

    def __init__(self, device, samples):
        self.device = device
        self.samples = samples

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def milliseconds(self, step):
        """The time of a step in each sample."""
        for _ in range(WARM_UP):
            step()
        times = []
        for _ in range(self.samples):
            self.synchronize()
            began = time.perf_counter()
            for _ in range(STEPS_PER_SAMPLE):
                step()
            self.synchronize()
            times.append((time.perf_counter() - began) * 1e3 / STEPS_PER_SAMPLE)
        return times


class Network:
    """A network with its batch and optimizer on a device."""

    def __init__(self, name, precision, compiled, options):
        make, shape, batch = NETWORKS[name]
        self.device, self.precision = options.device, precision
        self.batch = max(2, batch // options.divide)
        torch.manual_seed(0)
        model = make().to(self.device)
        self.inputs = torch.randn(self.batch, *shape, device=self.device)
        if precision == "bfloat16" and len(shape) == 3:
            model, self.inputs = (what.to(memory_format=torch.channels_last) for what in (model, self.inputs))
        self.labels = torch.randint(10, (self.batch,), device=self.device)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
        self.forward = torch.compile(model) if compiled else model
        # A scale of 1 that does not grow: the scaler only checks the gradients. The fused optimizer reads its verdict on the
        # device.
        self.scaler = torch.amp.GradScaler(self.device, init_scale=1.0, growth_interval=2**31 - 1)

    def loss(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bfloat16"):
            return functional.cross_entropy(self.forward(self.inputs), self.labels)

    def step(self):
        self.loss().backward()
        self.optimizer.step()

    def checked_step(self):
        self.scaler.scale(self.loss()).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def use_cudnn(benchmark):
    torch.backends.cudnn.benchmark = benchmark
    torch.backends.cudnn.deterministic = not benchmark


def network_steps(name, precision, mode, options):
    """Steps of one network to time: fields of the row, step, items per step."""
    use_cudnn(mode == "eager-benchmark")
    network = Network(name, precision, mode == "compiled", options)
    for check_finite, step in ((False, network.step), (True, network.checked_step)):
        yield {"check_finite": check_finite}, step, network.batch


def adamw_steps(options):
    parameters = [torch.randn(max(1, shape[0] // options.divide), *shape[1:], device=options.device) for shape in gpt2_sizes()]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    yield {"check_finite": False}, optimizer.step, sum(parameter.numel() for parameter in parameters)


def measured(fields, make_steps, timer):
    """The rows of one case."""
    rows = []
    try:
        for more_fields, step, items in make_steps():
            row = fields | more_fields
            times = timer.milliseconds(step)
            median = statistics.median(times)
            row |= {"median_ms": median, "min_ms": min(times), "max_ms": max(times), "items_per_s": items / median * 1e3}
            mode = row["mode"] + (", checked" if row["check_finite"] else "")
            print(f"{row['case']:22} {row['precision']:8} {mode:24} {median:9.3f} ms ({min(times):.3f} to {max(times):.3f}) "
                  f"{row['items_per_s']:14.0f} items/s", flush=True)
            rows.append(row)
    except Exception as error:  # pylint: disable=broad-except  # the other cases run after a failed case
        rows.append(fields | {"error": f"{type(error).__name__}: {error}"})
        print(f"{fields['case']:22} {fields['precision']:8} {fields['mode']:24} failed: {rows[-1]['error'].splitlines()[0]}", flush=True)
    if timer.device == "cuda":
        torch.cuda.empty_cache()
    return rows


def cases(options):
    """The fields of each case, and its make_steps. Compiled cases are last, because they take longest."""
    def network_case(name, precision, mode):
        return {"case": name, "precision": precision, "mode": mode}, lambda: network_steps(name, precision, mode, options)

    for precision in ("bfloat16", "float32"):
        for name in NETWORKS:
            yield network_case(name, precision, "eager")
    yield {"case": "adamw-124m", "precision": "float32", "mode": "eager"}, lambda: adamw_steps(options)
    for name, (_, shape, _) in NETWORKS.items():
        if len(shape) == 3:
            yield network_case(name, "bfloat16", "eager-benchmark")
    for name in NETWORKS:
        yield network_case(name, "bfloat16", "compiled")


def main():
    parser = command_line.Parser(prog="gpu_baseline.py")
    parser.add_argument("--json", default="")
    parser.add_argument("--samples", type=command_line.count, default=21)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--divide", type=command_line.count, default=1)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu_baseline.py: PyTorch sees no GPU here, nothing was measured")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    report = {"gpu": torch.cuda.get_device_name(0) if options.device == "cuda" else "cpu", "torch": torch.__version__,
              "steps_per_sample": STEPS_PER_SAMPLE, "cudnn_search": "heuristic", "is_deterministic": True, "allow_tf32": False,
              "divide": options.divide, "rows": []}
    print(f"{report['gpu']}, PyTorch {report['torch']}", flush=True)
    timer = Timer(options.device, options.samples)
    for fields, make_steps in cases(options):
        if options.only not in f"{fields['case']} {fields['mode']}":
            continue
        report["rows"] += measured(fields, make_steps, timer)
        if options.json:  # after each case, so that an interrupted run keeps its results
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=2)
    return 1 if any("error" in row for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
