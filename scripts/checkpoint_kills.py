#!/usr/bin/env python3
"""Kills training runs with SIGKILL at random moments, and checks that they resume with the same result.

  scripts/checkpoint_kills.py --kills 200 --ranks 2

The training writes a checkpoint after every step, so that most kills hit a write. After each kill the same command is started
again with --resume. A run must not lose more than the steps whose checkpoints were being written. When it has completed, its
parameter hash and its test accuracy must be those of a run without interruption; then the next training begins. Exit code 1
after the first difference.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import command_line

REPOSITORY = Path(__file__).resolve().parent.parent
STEP = re.compile(r"epoch (\d+)/\d+  step +(\d+)/(\d+)")
RESUMED = re.compile(r"training resumes after step (\d+)")
# A shown step is at most this far after a complete checkpoint: one is being copied and one written, on each rank.
LOST_STEPS = 3


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--kills", type=command_line.count, default=200, metavar="N", help="default: 200")
    add("--ranks", type=command_line.whole_number(1, command_line.MOST_RANKS), default=2, metavar="R", help="default: 2")
    add("--steps", type=command_line.count, default=120, metavar="N", help="steps of each training; default: 120")
    add("--seed", type=command_line.seed, default=1, metavar="S", help="seed of the moments; default: 1")
    add("--build", type=Path, default=REPOSITORY / "build" / "release", metavar="DIR", help="default: build/release")
    return parser.parse_args()


def ranks_of(mark):
    """The processes of the training program with `mark` on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # the process has ended
        if words[0].endswith(b"/train_mnist") and mark.encode() in words:
            found.append(int(path.parent.name))
    return found


class Training:
    """One training, which is started again after each kill."""

    def __init__(self, arguments, folder):
        self.directory, self.report = os.path.join(folder, "checkpoints"), os.path.join(folder, "report.json")
        self.command = [str(arguments.build / "bin" / "hororun"), "-np", str(arguments.ranks),
                        str(arguments.build / "bin" / "train_mnist"), "--model", "cnn-bn", "--steps", str(arguments.steps),
                        "--global-batch", "32", "--warm-up", "20", "--log-every", "1", "--json", self.report]
        self.checkpoints = ["--checkpoint-dir", self.directory, "--checkpoint-every", "1", "--resume"]
        self.shown = 0  # the largest step that a run has shown

    def undisturbed(self):
        subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL, timeout=600)
        return self.result()

    def result(self):
        with open(self.report) as file:
            report = json.load(file)
        return report["param_hash"], report["test_accuracy"]

    def run(self, steps, seconds):
        """Kills the ranks after `steps` more steps and `seconds`. Returns whether the training has completed before."""
        with subprocess.Popen(self.command + self.checkpoints, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as job:
            resumed, seen = 0, 0
            for line in job.stdout:
                if found := RESUMED.search(line):
                    resumed = int(found.group(1))
                    check(resumed >= self.shown - LOST_STEPS, f"resumed after step {resumed}, but step {self.shown} was done")
                if found := STEP.search(line):
                    epoch, step, per_epoch = map(int, found.groups())
                    self.shown = max(self.shown, (epoch - 1) * per_epoch + step)
                    seen += 1
                    if seen >= steps:
                        break
            time.sleep(seconds)
            killed = ranks_of(self.directory)
            for pid in killed:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            job.stdout.read()
            job.wait(120)
        return not killed or job.returncode == 0


def check(condition, text):
    if not condition:
        raise SystemExit(f"checkpoint_kills.py: {text}")


def main():
    arguments = parse_arguments()
    chance = random.Random(arguments.seed)
    kills = trainings = 0
    with tempfile.TemporaryDirectory() as folder:
        expected = Training(arguments, folder).undisturbed()
    while kills < arguments.kills:
        with tempfile.TemporaryDirectory() as folder:
            training = Training(arguments, folder)
            while not training.run(chance.randint(1, 12), chance.uniform(0, 0.03)):
                kills += 1
            check(training.result() == expected, f"the result is {training.result()} in place of {expected}")
        trainings += 1
        print(f"kills {kills} trainings {trainings} hash {expected[0]}", flush=True)


if __name__ == "__main__":
    main()
