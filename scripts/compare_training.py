#!/usr/bin/env python3
"""Trains the same models on the same data in horo and in PyTorch on the CPU, in turn, and compares losses and speed.

  scripts/compare_training.py --tasks gpt --data DIR                       # whole training, one round
  scripts/compare_training.py --tasks gpt,mnist,cifar --data DIR --steps 60 --rounds 5    # speed
  scripts/compare_training.py --data DIR --steps 60 --rounds 5 --ranks 2                  # beside DDP with gloo

DIR has the folders tinyshakespeare, mnist and cifar10-subset. A round trains each task once in each program, each in a
job of its own, with --threads threads per rank. The speed of a round is the batch divided by its median step; the ratio is
that of the two speeds of a round. The tables show medians over the rounds with the least and the largest. Losses are those
of the last round. Exposed communication is the time of a step in which a rank waits for gradients after its backward pass.
PyTorch uses channels last for images, and DistributedDataParallel with gloo between ranks.

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
                        help="train for this many steps; 0: for the epochs of the task")
    parser.add_argument("--epochs", type=command_line.count, help="instead of those of the task")
    parser.add_argument("--batch", type=command_line.count, help="instead of that of the task")
    parser.add_argument("--rounds", type=command_line.count, default=1)
    parser.add_argument("--ranks", type=command_line.count, default=1, help="on this machine; they share each batch")
    parser.add_argument("--threads", type=command_line.count, default=1, help="of a rank that compute")
    parser.add_argument("--seed", type=command_line.seed, default=1)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    return parser.parse_args()


def run(command, options, report):
    """Runs a program that writes `report`, and returns it."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    if options.ranks > 1:
        command = ["mpirun", "-np", options.ranks, "--oversubscribe", "--bind-to", "none", *command]
    done = subprocess.run([str(word) for word in command], env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"compare_training.py: {command[0]} ended with code {done.returncode}:\n{done.stdout}")
    return json.loads(report.read_text()), done.stdout


def train_in_horo(task, options, report):
    length = {"steps": options.steps} if options.steps else {"epochs": task.epochs}
    words = {"data": options.data / task.folder, **length, "global-batch": task.batch, "lr": task.lr,
             "warm-up": task.warm_up, "seed": options.seed, "compute-threads": options.threads, "json": report,
             **task.more, **task.horo_only}
    command = [options.bin / task.program]
    for name, value in words.items():
        command += [f"--{name}", value]
    result, output = run(command, options, report)
    step = result["step_ms"]
    return {"losses": result["losses"], "step_ms": step["total"], "exposed_ms": step["exposed_communication"],
            "test_loss": result["test_loss"],
            "test_accuracy": result["test_accuracy"], "output": output}


def train_in_torch(name, task, options, report):
    words = {"task": name, "data": str(options.data / task.folder), "epochs": task.epochs, "steps": options.steps,
             "batch": task.batch, "lr": task.lr, "warm_up": task.warm_up, "seed": options.seed,
             "threads": options.threads, "store": str(report.with_suffix(".store")), **task.more}
    report.with_suffix(".store").unlink(missing_ok=True)
    command = [sys.executable, HERE.parent / "examples/benchmarks/peers/torch_training.py", json.dumps(words), report]
    return run(command, options, report)[0]


def mean_of_last(losses):
    last = losses[-max(1, len(losses) // 20):]
    return statistics.fmean(last)


def spread(values, digits):
    """"median (least to largest)"."""
    median, least, largest = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} ({least:.{digits}f} to {largest:.{digits}f})"


def print_table(columns, rows):
    for cells in [columns, ["---"] * len(columns), *rows]:
        print("| " + " | ".join(cells) + " |")


def quality_row(name, results):
    horo, torch = results["horo"][-1], results["torch"][-1]
    return [name, f"{mean_of_last(horo['losses']):.4f}", f"{mean_of_last(torch['losses']):.4f}",
            f"{horo['test_loss']:.4f}", f"{torch['test_loss']:.4f}",
            f"{100 * horo['test_accuracy']:.2f} %", f"{100 * torch['test_accuracy']:.2f} %"]


def speed_row(name, task, results):
    speeds = {program: [1000 * task.batch / result["step_ms"] for result in results[program]] for program in results}
    exposed = [spread([result["exposed_ms"] for result in results[program]], 2) for program in results]
    ratios = [horo / torch for horo, torch in zip(speeds["horo"], speeds["torch"])]
    return [name, spread(speeds["horo"], 0), spread(speeds["torch"], 0), spread(ratios, 2), *exposed]


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
    print(f"{command_line.counted(options.ranks, 'rank')} with {command_line.counted(options.threads, 'thread')}, "
          f"{command_line.counted(options.rounds, 'round')}; training loss: mean of the last twentieth of the steps\n")
    print_table(["task", "loss horo", "torch", "test loss horo", "torch", "test accuracy horo", "torch"],
                [quality_row(name, results[name]) for name in tasks])
    print()
    print_table(["task", "samples/s horo", "torch", "ratio", "exposed ms horo", "torch"],
                [speed_row(name, task, results[name]) for name, task in tasks.items()])
    if "gpt" in tasks and "sample:" in results["gpt"]["horo"][-1]["output"]:
        print(results["gpt"]["horo"][-1]["output"].partition("sample:")[2])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
