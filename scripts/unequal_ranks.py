#!/usr/bin/env python3
"""Measures training on ranks of unequal speed: equal parts of the batch against parts that follow the speed.

  scripts/unequal_ranks.py --rounds 5

Starts train_mnist on 2 ranks. A CPU quota gives rank 1 a part of the CPU time of rank 0. With control groups that this user may
write, the quotas are those of the kernel (version 2: cpu.max, version 1: cpu.cfs_quota_us); they need root. Otherwise, or with
--throttle signals, the script stops and continues each rank with SIGSTOP and SIGCONT in a period of 20 ms, which limits its time
just as much. On a machine with other load, choose quotas that each rank gets in any case. The rounds are interleaved: each runs
every kind of parts once. Prints the seconds of all steps, without evaluation, their medians, and the ratio to equal parts.
"""
import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import command_line

REPOSITORY = Path(__file__).resolve().parent.parent
PERIOD_US = 20_000


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    percent = command_line.whole_number(5, 100)
    add("--rounds", type=command_line.count, default=5, metavar="N", help="default: 5")
    add("--fast", type=percent, default=100, metavar="P", help="CPU time of rank 0, in percent of a core; default: 100")
    add("--slow", type=percent, default=50, metavar="P", help="CPU time of rank 1, in percent of a core; default: 50")
    add("--throttle", choices=["auto", "cgroup", "signals"], default="auto", help="how the CPU time is limited; default: auto")
    add("--steps", type=command_line.count, default=300, metavar="N", help="of each training; default: 300")
    add("--global-batch", type=command_line.count, default=96, metavar="N", help="samples per step; default: 96")
    add("--build", type=Path, default=REPOSITORY / "build" / "release", metavar="DIR", help="default: build/release")
    return parser.parse_args()


class Quotas:
    """A control group per rank, with a part of the time of a core."""

    def __init__(self, percents):
        self.folders = []
        v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        root = Path("/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/cpu")
        try:
            for rank, percent in enumerate(percents):
                folder = root / f"horo-unequal-{os.getpid()}-{rank}"
                folder.mkdir()
                self.folders.append(folder)
                quota = PERIOD_US * percent // 100
                if v2:
                    (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
                    (folder / "cpu.weight").write_text("10000")  # before other programs, up to the quota
                else:
                    (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                    (folder / "cpu.cfs_quota_us").write_text(str(quota))
                    (folder / "cpu.shares").write_text("262144")
        except OSError:
            self.close()
            raise

    def command(self, folder, program):
        """A script that runs `program` as a rank, in its control group."""
        groups = " ".join(str(group) for group in self.folders)
        return wrapper(folder, f'set -- {groups} -- "$@"\nshift "$OMPI_COMM_WORLD_RANK"\n'
                               'echo $$ > "$1/cgroup.procs"\nwhile [ "$1" != -- ]; do shift; done\nshift\n', program)

    @contextlib.contextmanager
    def running(self, _):
        yield

    def close(self):
        for folder in self.folders:
            for _ in range(50):  # a group is in use until its last process has ended
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)


class Signals:
    """Stops each rank for a part of each period."""

    def __init__(self, percents):
        self.percents = percents

    def command(self, folder, program):
        return wrapper(folder, f'echo $$ > "{folder}/pid.$OMPI_COMM_WORLD_RANK"\n', program)

    @contextlib.contextmanager
    def running(self, folder):
        done = threading.Event()
        threads = [threading.Thread(target=self._throttle, args=(folder / f"pid.{rank}", percent, done))
                   for rank, percent in enumerate(self.percents) if percent < 100]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()

    @staticmethod
    def _throttle(file, percent, done):
        while not (file.exists() and file.read_text().strip()):
            if done.wait(0.01):
                return
        pid, period = int(file.read_text()), PERIOD_US / 1e6
        try:
            while not done.wait(period * percent / 100):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(period * (100 - percent) / 100)
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # the rank has ended

    def close(self):
        pass


def wrapper(folder, before, program):
    path = folder / "rank.sh"
    path.write_text(f'#!/bin/sh\n{before}exec "{program}" "$@"\n')
    path.chmod(0o755)
    return path


def make_throttle(kind, percents):
    if kind == "signals":
        return Signals(percents)
    try:
        return Quotas(percents)
    except OSError as error:
        if kind == "cgroup":
            sys.exit(f"unequal_ranks.py: control groups of the CPU cannot be made: {error}; use --throttle signals")
        return Signals(percents)


def train(arguments, throttle, weights):
    """Seconds of all steps, and the samples of each rank in a step at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = folder / "report.json"
        command = [arguments.build / "bin" / "hororun", "-np", "2",
                   throttle.command(folder, arguments.build / "bin" / "train_mnist"), "--steps", str(arguments.steps),
                   "--global-batch", str(arguments.global_batch), "--batch-weights", weights, "--json", report]
        with throttle.running(folder):
            done = subprocess.run(command, text=True, capture_output=True, timeout=3600, check=False)
        if done.returncode != 0:
            sys.exit(f"unequal_ranks.py: train_mnist ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        content = json.loads(report.read_text())
    return content["global_batch"] * content["steps"] / content["samples_per_second"], content["batch_shares"]


def main():
    arguments = parse_arguments()
    percents = [arguments.fast, arguments.slow]
    kinds = {"equal": "equal", "auto": "auto", "weights": ",".join(map(str, percents))}
    seconds, shares = {kind: [] for kind in kinds}, {}
    throttle = make_throttle(arguments.throttle, percents)
    print(f"rank 0: {arguments.fast} % of a core, rank 1: {arguments.slow} %, by {type(throttle).__name__.lower()}; "
          f"{command_line.counted(os.cpu_count(), 'core')}, load {os.getloadavg()[0]:.1f}", flush=True)
    try:
        for round_ in range(arguments.rounds):
            for kind, weights in kinds.items():
                time_, shares[kind] = train(arguments, throttle, weights)
                seconds[kind].append(time_)
            print(f"round {round_ + 1}: " + ", ".join(f"{kind} {times[-1]:.2f} s" for kind, times in seconds.items()),
                  flush=True)
    finally:
        throttle.close()
    medians = {kind: statistics.median(times) for kind, times in seconds.items()}
    print("\n| parts | samples of the ranks at the end | seconds | speed to equal parts |\n|---|---|---|---|")
    for kind, median in medians.items():
        name = kind if kind != "weights" else f"weights {kinds[kind]}"
        print(f"| {name} | {shares[kind][0]}, {shares[kind][1]} | {median:.2f} | {medians['equal'] / median:.2f} |")


if __name__ == "__main__":
    main()
