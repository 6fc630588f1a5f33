#!/usr/bin/env python3
"""Trains a perceptron on MNIST with small and large batches, in three experiments, and draws their losses.

  scripts/large_batch.py --data DIR --json results.json --pictures docs/results

1. ranks: the same global batch on one rank, and as half the batch on each of two ranks.
2. warm-up: 8 ranks, a batch 16 times as large with a learning rate 16 times as high (linear scaling), with and without
   warm-up, against the small batch.
3. optimizers: a batch of 8192, with SGD at the linearly scaled and at the best of some lower rates, LARS and LAMB.

DIR has the four files of MNIST. The pictures are large_batch_warm_up.svg and large_batch_optimizers.svg.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import command_line
import svg_chart

LARGE = ["--global-batch", 8192, "--epochs", 8, "--warm-up", 14]
SMALL = ["--global-batch", 64, "--epochs", 3, "--lr", 0.02]
SCALED = ["--global-batch", 1024, "--epochs", 3, "--lr", 0.02, "--linear-scaling", 64]
POLYNOMIAL = ["--schedule", "polynomial", "--lr-power", 2]
# The number of ranks and the options of each run.
EXPERIMENTS = {
    "ranks": {"1 rank, batch 128": (1, ["--global-batch", 128, "--epochs", 1, "--warm-up", 100]),
              "2 ranks, batch 64 each": (2, ["--global-batch", 128, "--epochs", 1, "--warm-up", 100])},
    "warm-up": {"batch 64": (2, [*SMALL, "--warm-up", 0]),
                "batch 1024, no warm-up": (8, [*SCALED, "--warm-up", 0]),
                "batch 1024, warm-up": (8, [*SCALED, "--warm-up", 60])},
    "optimizers": {"SGD, scaled: 2.56": (4, [*LARGE, "--lr", 0.02, "--linear-scaling", 64]),
                   "SGD 0.6": (4, [*LARGE, "--lr", 0.6]),
                   "SGD 0.3": (4, [*LARGE, "--lr", 0.3]),
                   "SGD 0.15": (4, [*LARGE, "--lr", 0.15]),
                   "LARS 25": (4, [*LARGE, "--optimizer", "lars", "--lr", 25, *POLYNOMIAL]),
                   "LAMB 0.05": (4, [*LARGE, "--optimizer", "lamb", "--lr", 0.05])},
}


def parse_options():
    parser = command_line.Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"), help="folder of horo's programs")
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of MNIST")
    parser.add_argument("--experiments", default=",".join(EXPERIMENTS), help="which of them, separated by commas")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--pictures", type=Path, help="write the pictures to this folder")
    options = parser.parse_args()
    for name in options.experiments.split(","):
        if name not in EXPERIMENTS:
            parser.error(f"--experiments: '{name}' is none of {', '.join(EXPERIMENTS)}")
    return options


def train(options, ranks, more, folder):
    report = Path(folder) / "report.json"
    command = [options.bin / "hororun", "-np", ranks, options.bin / "train_mnist", "--data", options.data, "--model", "mlp",
               "--json", report, *more]
    done = subprocess.run([str(word) for word in command], env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"large_batch.py: exit code {done.returncode}:\n{done.stdout}")
    result = json.loads(report.read_text())
    return {key: result[key] for key in ("ranks", "global_batch", "steps", "losses", "test_loss", "test_accuracy")}


def run_experiment(options, runs, folder):
    results = {}
    print("| run | ranks | batch | steps | test loss | test accuracy | highest loss of a step |")
    print("|---|---|---|---|---|---|---|")
    for name, (ranks, more) in runs.items():
        one = results[name] = train(options, ranks, more, folder)
        print(f"| {name} | {one['ranks']} | {one['global_batch']} | {one['steps']} | {one['test_loss']:.4f} | "
              f"{100 * one['test_accuracy']:.2f} % | {max(one['losses']):.2f} |", flush=True)
    return results


def largest_difference(one, other):
    """Returns the largest relative difference of the losses of a step."""
    return max(abs(a - b) / abs(a) for a, b in zip(one["losses"], other["losses"]))


def draw(folder, results):
    """Writes the pictures. The x axis is the epoch, so that batches of different sizes can be compared."""
    def curves(experiment, points, epochs):
        series = {}
        for name, one in results[experiment].items():
            run = max(1, one["steps"] // points)
            series[name] = [(step * epochs / one["steps"], loss) for step, loss in svg_chart.smooth(one["losses"], run)]
        return series
    if "warm-up" in results:
        svg_chart.write(folder / "large_batch_warm_up.svg", [
            svg_chart.Lines("Linear scaling on 8 ranks", "epoch", "training loss", curves("warm-up", 58, 3), top=2.4)])
    if "optimizers" in results:
        svg_chart.write(folder / "large_batch_optimizers.svg", [
            svg_chart.Lines("Batch 8192", "epoch", "training loss", curves("optimizers", 56, 8), top=4)])


def main():
    options = parse_options()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.experiments.split(","):
            print(f"\n{name}", flush=True)
            results[name] = run_experiment(options, EXPERIMENTS[name], folder)
            if name == "ranks":
                print(f"largest relative difference of a loss: {largest_difference(*results[name].values()):.1e}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.pictures:
        draw(options.pictures, results)


if __name__ == "__main__":
    main()
