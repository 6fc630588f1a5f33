#!/usr/bin/env python3
"""Trains one of horo's example models in PyTorch on the CPU, with the recipe of the example program.

  torch_training.py '{"task": "gpt", "data": "input.txt", ...}' report.json

compare_training.py starts it. The models, the initial distributions, the schedule and the augmentation are those of horo;
the random numbers differ. Under mpirun the ranks train with DistributedDataParallel and gloo, each with its part of the
batch; they meet through the file `store`, which must not exist yet. The report has the keys losses, step_ms, exposed_ms, test_loss and test_accuracy; exposed_ms is the time from the
last gradient of backward until all are averaged.
"""
import gzip
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy
import torch
from torch import distributed, nn
from torch.nn import functional


def read(path):
    data = Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def found(folder, pattern):
    return sorted(Path(folder).glob(pattern))


class Text:
    def __init__(self, options):
        path = Path(options["data"])
        text = read(path / "input.txt" if path.is_dir() else path).decode()
        token_of = {symbol: i for i, symbol in enumerate(sorted(set(text)))}
        tokens = torch.tensor([token_of[symbol] for symbol in text])
        first_test = len(tokens) - len(tokens) // 10
        self.classes = len(token_of)
        self.train = self.windows(tokens[:first_test], options)
        self.test = self.windows(tokens[first_test:], options)

    @staticmethod
    def windows(tokens, options):
        window = options["window"]
        starts = range(0, len(tokens) - window, window)
        return (torch.stack([tokens[s:s + window] for s in starts]),
                torch.stack([tokens[s + 1:s + window + 1] for s in starts]))


class Mnist:
    classes = 10

    def __init__(self, options):
        def images(name):
            pixels = numpy.frombuffer(read(found(options["data"], f"{name}-images*")[0]), numpy.uint8, offset=16)
            labels = numpy.frombuffer(read(found(options["data"], f"{name}-labels*")[0]), numpy.uint8, offset=8)
            values = torch.from_numpy(pixels.astype(numpy.float32)).reshape(-1, 1, 28, 28)
            return (values / 255 - 0.1307) / 0.3081, torch.from_numpy(labels.astype(numpy.int64))
        self.train, self.test = images("train"), images("t10k")


class Cifar:
    classes = 10

    def __init__(self, options):
        def images(pattern):
            records = numpy.concatenate([numpy.frombuffer(read(file), numpy.uint8).reshape(-1, 3073)
                                         for file in found(options["data"], pattern)])
            mean = torch.tensor([0.4914, 0.4822, 0.4465]).reshape(3, 1, 1)
            deviation = torch.tensor([0.2470, 0.2435, 0.2616]).reshape(3, 1, 1)
            values = torch.from_numpy(records[:, 1:].astype(numpy.float32)).reshape(-1, 3, 32, 32)
            return (values / 255 - mean) / deviation, torch.from_numpy(records[:, 0].astype(numpy.int64))
        self.train, self.test = images("data_batch*"), images("test_batch*")


def crop_and_flip(images):
    padded = functional.pad(images, (4, 4, 4, 4))
    tops, lefts, flips = (torch.randint(most, (len(images),)).tolist() for most in (9, 9, 2))
    parts = []
    for image, top, left, flip in zip(padded, tops, lefts, flips):
        part = image[:, top:top + 32, left:left + 32]
        parts.append(part.flip(2) if flip else part)
    return torch.stack(parts)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.output = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, positions, width = x.shape
        parts = self.qkv(x).reshape(batch, positions, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, positions, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.fc, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.output(functional.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, classes, options):
        super().__init__()
        width, layers = options["width"], options["layers"]
        self.tokens, self.positions = nn.Embedding(classes, width), nn.Embedding(options["window"], width)
        self.blocks = nn.Sequential(*(Block(width, options["heads"]) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02 / (math.sqrt(2 * layers) if name.endswith("output.weight") else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def make_cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.MaxPool2d(2),
                         nn.ReLU(), nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def make_resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for stage, outputs in enumerate([16, 32, 64]):
        for block in range(3):
            layers.append(ResidualBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def initialise_images(model, gain):
    """Uniform weights of variance gain^2 / fan in, a last layer of zeros."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            bound = gain * math.sqrt(3 / parameter[0].numel())
            nn.init.uniform_(parameter, -bound, bound)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module.bias is not None:
            nn.init.zeros_(module.bias)
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    return model


def make_task(options):
    """The data set, the model, and the memory format of the images."""
    if options["task"] == "gpt":
        data = Text(options)
        return data, Gpt(data.classes, options), torch.contiguous_format
    if options["task"] == "mnist":
        return Mnist(options), initialise_images(make_cnn(), 1), torch.channels_last
    return Cifar(options), initialise_images(make_resnet20(), math.sqrt(2)), torch.channels_last


def rate_at(step, steps, options):
    warm_up = options["warm_up"]
    if step < warm_up:
        return options["lr"] * step / warm_up
    if steps <= warm_up:
        return options["lr"]
    return options["lr"] * 0.5 * (1 + math.cos(math.pi * min(1, (step - warm_up) / (steps - warm_up))))


def loss_of(logits, targets, reduction="mean"):
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction=reduction)


def in_memory(inputs, memory):
    return inputs.contiguous(memory_format=memory) if inputs.dim() == 4 else inputs


def evaluate(model, images, labels, memory):
    model.eval()
    loss = correct = 0
    with torch.no_grad():
        for part, targets in zip(images.split(500), labels.split(500)):
            logits = model(in_memory(part, memory))
            loss += loss_of(logits, targets, "sum").item()
            correct += (logits.argmax(-1) == targets).sum().item()
    return loss / labels.numel(), correct / labels.numel()


class LastGradient:
    """Notes when the last gradient of a backward pass is complete."""

    def __init__(self, model):
        self.time = 0
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.note)

    def note(self, _):
        self.time = time.perf_counter()


def mean_over_ranks(values, ranks):
    total = torch.tensor(values, dtype=torch.float64)
    distributed.all_reduce(total)
    return (total / ranks).tolist()


def train(options):
    torch.manual_seed(options["seed"])
    torch.set_num_threads(options["threads"])
    rank, ranks = options["rank"], options["ranks"]
    data, bare_model, memory = make_task(options)
    bare_model = bare_model.to(memory_format=memory)
    model = nn.parallel.DistributedDataParallel(bare_model, gradient_as_bucket_view=True) if ranks > 1 else bare_model
    last_gradient = LastGradient(bare_model)
    if options["task"] == "gpt":
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    inputs, labels = data.train
    batch = options["batch"]
    per_epoch = len(inputs) // batch
    steps = options["steps"] or options["epochs"] * per_epoch
    losses, times, exposed = [], [], []
    model.train()
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(len(inputs))
        start = time.perf_counter()
        chosen = order[step % per_epoch * batch:(step % per_epoch + 1) * batch]
        chosen = chosen[batch * rank // ranks:batch * (rank + 1) // ranks]
        part = inputs[chosen]
        if options["task"] == "cifar":
            part = crop_and_flip(part)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps, options)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(in_memory(part, memory)), labels[chosen])
        loss.backward()
        exposed.append(1000 * (time.perf_counter() - last_gradient.time) if ranks > 1 else 0)
        optimizer.step()
        losses.append(loss.item())
        times.append(1000 * (time.perf_counter() - start))
    if ranks > 1:
        losses = mean_over_ranks(losses, ranks)
    test_loss, test_accuracy = evaluate(bare_model, *data.test, memory)
    return {"losses": losses, "step_ms": float(numpy.median(times)), "exposed_ms": float(numpy.median(exposed)),
            "test_loss": test_loss, "test_accuracy": test_accuracy}


def main():
    rank, ranks = (int(os.environ.get(f"OMPI_COMM_WORLD_{name}", default)) for name, default in (("RANK", 0), ("SIZE", 1)))
    options, report = json.loads(sys.argv[1]), Path(sys.argv[2])
    if ranks > 1:
        distributed.init_process_group("gloo", init_method=f"file://{options['store']}", rank=rank, world_size=ranks)
    result = train({**options, "rank": rank, "ranks": ranks})
    if rank == 0:
        report.write_text(json.dumps(result))
    if ranks > 1:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
