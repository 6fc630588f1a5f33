#!/usr/bin/env python3
"""Trains the same models on the same data in horo and in PyTorch on the CPU, in turn, and compares losses and speed.

  scripts/compare_training.py --tasks gpt --data DIR                       # whole training, one round
  scripts/compare_training.py --tasks gpt,mnist,cifar --data DIR --steps 60 --rounds 5    # speed

DIR has the folders tinyshakespeare, mnist and cifar10-subset. A round trains each task once in each program, each in a
process of its own, with --threads threads. Speed is the batch divided by the median step of a round, and the table shows
the median over the rounds. Losses are those of the last round. PyTorch uses channels last for images.

The script needs PyTorch in its own Python: python3 -m venv DIR && DIR/bin/pip install torch numpy.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import command_line

HERE = Path(__file__).resolve().parent


@dataclass
class Task:
    program: str
    folder: str
    batch: int
    epochs: int
    lr: float
    warm_up: int
    more: dict = field(default_factory=dict)  # of the model, the same in both programs
    horo_only: dict = field(default_factory=dict)


TASKS = {
    "gpt": Task("train_gpt", "tinyshakespeare", 32, 3, 1e-3, 100,
                {"window": 64, "layers": 4, "heads": 4, "width": 128}, {"sample": 400}),
    "mnist": Task("train_mnist", "mnist", 128, 5, 0.05, 200, {}, {"model": "cnn"}),
    "cifar": Task("train_cifar", "cifar10-subset", 128, 30, 0.1, 100, {}, {"model": "resnet20"}),
}


def list_of_tasks(text):
    names = text.split(",")
    for name in names:
        if name not in TASKS:
            raise argparse.ArgumentTypeError(f"'{name}' is not a task; choose from {', '.join(TASKS)}")
    return names


def parse_options():
    parser = command_line.Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"), help="folder of horo's programs")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--tasks", type=list_of_tasks, default=list(TASKS), metavar="TASK,...",
                        help=f"which of {', '.join(TASKS)}")
    parser.add_argument("--steps", type=command_line.whole_number(0, 1_000_000), default=0,
                        help="stop after this many steps; 0: after the epochs of the task")
    parser.add_argument("--epochs", type=command_line.count, help="instead of those of the task")
    parser.add_argument("--batch", type=command_line.count, help="instead of that of the task")
    parser.add_argument("--rounds", type=command_line.count, default=1)
    parser.add_argument("--threads", type=command_line.count, default=1, help="that compute, in each program")
    parser.add_argument("--seed", type=command_line.seed, default=1)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    return parser.parse_args()


def run(command, threads, report):
    """Runs a program that writes `report`, and returns it."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(word) for word in command], env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"compare_training.py: {command[0]} ended with code {done.returncode}:\n{done.stdout}")
    return json.loads(report.read_text()), done.stdout


def train_in_horo(task, options, report):
    words = {"data": options.data / task.folder, "epochs": task.epochs, "max-steps": options.steps,
             "global-batch": task.batch, "lr": task.lr, "warm-up": task.warm_up, "seed": options.seed,
             "compute-threads": options.threads, "json": report, **task.more, **task.horo_only}
    command = [options.bin / task.program]
    for name, value in words.items():
        command += [f"--{name}", value]
    result, output = run(command, options.threads, report)
    return {"losses": result["losses"], "step_ms": result["step_ms"]["total"], "test_loss": result["test_loss"],
            "test_accuracy": result["test_accuracy"], "output": output}


def train_in_torch(name, task, options, report):
    words = {"task": name, "data": str(options.data / task.folder), "epochs": task.epochs, "max_steps": options.steps,
             "batch": task.batch, "lr": task.lr, "warm_up": task.warm_up, "seed": options.seed,
             "threads": options.threads, **task.more}
    command = [sys.executable, HERE.parent / "examples/benchmarks/peers/torch_training.py", json.dumps(words), report]
    return run(command, options.threads, report)[0]


def mean_of_last(losses):
    last = losses[-max(1, len(losses) // 20):]
    return statistics.fmean(last)


def row(name, task, results):
    def speed(program):
        return task.batch / statistics.median(result["step_ms"] for result in results[program]) * 1000
    horo, torch = results["horo"][-1], results["torch"][-1]
    cells = [name, f"{mean_of_last(horo['losses']):.4f}", f"{mean_of_last(torch['losses']):.4f}",
             f"{horo['test_loss']:.4f}", f"{torch['test_loss']:.4f}",
             f"{100 * horo['test_accuracy']:.2f} %", f"{100 * torch['test_accuracy']:.2f} %",
             f"{speed('horo'):.0f}", f"{speed('torch'):.0f}", f"{speed('horo') / speed('torch'):.2f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    options = parse_options()
    results = {name: {"horo": [], "torch": []} for name in options.tasks}
    tasks = {name: TASKS[name] for name in options.tasks}
    for task in tasks.values():
        task.epochs, task.batch = options.epochs or task.epochs, options.batch or task.batch
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        for _ in range(options.rounds):
            for name, task in tasks.items():
                results[name]["horo"].append(train_in_horo(task, options, report))
                results[name]["torch"].append(train_in_torch(name, task, options, report))
    print(f"{command_line.counted(options.threads, 'thread')}, {command_line.counted(options.rounds, 'round')}; "
          "training loss: mean of the last twentieth of the steps")
    print("| task | loss horo | torch | test loss horo | torch | test accuracy horo | torch | samples/s horo | torch | "
          "ratio |\n|---|---|---|---|---|---|---|---|---|---|")
    for name, task in tasks.items():
        print(row(name, task, results[name]))
    if "gpt" in tasks and "sample:" in results["gpt"]["horo"][-1]["output"]:
        print(results["gpt"]["horo"][-1]["output"].partition("sample:")[2])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
