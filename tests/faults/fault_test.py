#!/usr/bin/env python3
"""Starts jobs in which one rank fails and checks how they end.

usage: fault_test.py HORORUN FAULT_JOB

Each job must end by itself within the limit, with the expected kind of exit code, and leave no process
and no file in /dev/shm behind.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import is_alive

LIMIT_S = 10
GRACE_S = 5


def shared_memory_files():
    return set(os.listdir("/dev/shm"))


def leftovers(pids, before):
    """What the job left behind; waits a little for processes that are just ending."""
    deadline = time.monotonic() + GRACE_S
    while True:
        alive = [pid for pid in pids if is_alive(pid)]
        files = shared_memory_files() - before
        if not alive and not files:
            return ""
        if time.monotonic() > deadline:
            return f"processes {alive}, files {sorted(files)}"
        time.sleep(0.05)


def run_job(hororun, job, ranks, fault, rank, ranks_per_node=0):
    before = shared_memory_files()
    command = [hororun, "-np", str(ranks), job, fault, str(rank)]
    start = time.monotonic()
    # The start of a job, on a busy machine, may itself take seconds.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, HORO_RANKS_PER_NODE=str(ranks_per_node)), timeout=LIMIT_S + 50)
    seconds = time.monotonic() - start
    pids = [int(pid) for pid in re.findall(r"rank \d+ pid (\d+)", done.stdout)]
    problems = []
    if len(pids) != ranks:
        problems.append(f"{len(pids)} ranks started")
    if (done.returncode == 0) != (fault == "none"):
        problems.append(f"exit code {done.returncode}")
    telling = {"throw": "diverged", "abandon_set": "diverged", "terminate": "terminate called",
               "normal_exit": f"rank {rank} (host", "thread_exit": f"rank {rank} (host"}.get(fault, "")
    if telling not in done.stdout:
        problems.append("the failing rank's text is missing")
    left = leftovers(pids, before)
    if left:
        problems.append(f"left behind: {left}")
    nodes = f" on nodes of {ranks_per_node}" if ranks_per_node else ""
    print(f"{fault:>7} of rank {rank} of {ranks}{nodes}: exit {done.returncode}, {seconds:.1f} s"
          + "".join(f"; PROBLEM: {problem}" for problem in problems))
    if problems:
        print(done.stdout)
    return not problems


def main():
    hororun, job = sys.argv[1:3]
    # One at a time: the check of /dev/shm must not see another job of this test.
    results = [run_job(hororun, job, ranks, fault, rank)
               for fault in ("none", "kill", "throw", "exit", "normal_exit", "thread_exit", "terminate", "abandon_set",
                             "return", "in_flight")
               for ranks, rank in ((2, 0), (2, 1), (4, 2))]
    results += [run_job(hororun, job, 4, fault, 2, ranks_per_node=2) for fault in ("none", "kill", "throw")]
    print(f"{sum(results)} of {len(results)} jobs ended as they should")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
