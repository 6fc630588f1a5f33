#!/usr/bin/env python3
"""Starts jobs in which one rank fails and checks how they end.

usage: fault_test.py HORORUN FAULT_JOB

Each job must end by itself within the limit, with the expected kind of exit code and with a text that names the
rank, and leave no process and no file in /dev/shm behind.
"""
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import leftovers, shared_memory_files

# From when all ranks run to the end of the job. A dead rank is told after 1 to 2 s; the rest is for a busy machine.
LIMIT_S = 30
START_S = 60

# What the output must show, of the rank at fault.
TELLING = {
    "none": [],
    "kill": [r"rank {rank} \(host [^)]*\) ended first: killed by signal 9"],
    "throw": [r"diverged", r"rank {rank} \(host [^)]*\) failed"],
    # The others, which fail because of it, must not have the job ended before it has said why.
    "throw_slowly": [r"diverged", r"rank {rank} \(host [^)]*\) failed"],
    "exit": [r"rank {rank} ended first: exit code 3|rank {rank} \(host [^)]*\) is dead"],
    "normal_exit": [r"rank {rank} \(host [^)]*\) exited without shutting horo down"],
    "thread_exit": [r"rank {rank} \(host [^)]*\) exited without shutting horo down"],
    "terminate": [r"terminate called", r"rank {rank} \(host [^)]*\) (ended first: killed by signal 6|is dead|failed)"],
    "abandon_set": [r"diverged", r"rank {rank} \(host [^)]*\) (failed|has shut down)"],
    "return": [r"rank {rank} \(host [^)]*\).*(has left|has shut down|ended early)"],
    # More than one rank says the same.
    "device": [2 * r"(?:fault_job: rank {rank} \(host [^)]*\) failed in allreduce 'gradients\.0/bucket 0': "
               r"an illegal memory access(?s:.*))"],
    "in_flight": [r"rank {rank} \(host [^)]*\).*(has left|has shut down|ended early)"],
}


def run_to_its_end(command, ranks, ranks_per_node):
    """The exit code, the output, and how long it took from when all ranks ran."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=dict(os.environ, HORO_RANKS_PER_NODE=str(ranks_per_node)))
    # Ends the job, whose launcher ends the ranks.
    alarm = threading.Timer(START_S + LIMIT_S, job.terminate)
    alarm.start()
    output = ""
    started = time.monotonic()
    for line in job.stdout:
        output += line
        if re.match(r"rank \d+ pid \d+$", line):
            started = time.monotonic()
    code = job.wait()
    alarm.cancel()
    return code, output, time.monotonic() - started


def run_job(hororun, job, ranks, fault, rank, ranks_per_node=0):
    before = shared_memory_files()
    code, output, seconds = run_to_its_end([hororun, "-np", str(ranks), job, fault, str(rank)], ranks, ranks_per_node)
    pids = [int(pid) for pid in re.findall(r"rank \d+ pid (\d+)", output)]
    problems = []
    if len(pids) != ranks:
        problems.append(f"{len(pids)} ranks started")
    if (code == 0) != (fault == "none"):
        problems.append(f"exit code {code}")
    if seconds > LIMIT_S:
        problems.append(f"it ended {seconds:.0f} s after its start, more than {LIMIT_S} s")
    problems += [f"'{wanted}' was not found" for wanted in TELLING[fault]
                 if not re.search(wanted.format(rank=rank), output)]
    left = leftovers(pids, before)
    if left:
        problems.append(f"left behind: {left}")
    nodes = f" on nodes of {ranks_per_node}" if ranks_per_node else ""
    print(f"{fault:>7} of rank {rank} of {ranks}{nodes}: exit {code}, {seconds:.1f} s"
          + "".join(f"; PROBLEM: {problem}" for problem in problems), flush=True)
    if problems:
        print(output, flush=True)
    return not problems


def main():
    hororun, job = sys.argv[1:3]
    results = [run_job(hororun, job, ranks, fault, rank)
               for fault in TELLING
               for ranks, rank in ((2, 0), (2, 1), (4, 2))]
    results += [run_job(hororun, job, 4, fault, 2, ranks_per_node=2)
                for fault in ("none", "kill", "throw_slowly", "device")]
    print(f"{sum(results)} of {len(results)} jobs ended as they should")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
