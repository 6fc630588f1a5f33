#!/usr/bin/env python3
"""Starts jobs in which one rank goes wrong at a random moment, and checks what is said and how they end.

usage: watchdog_test.py [--rounds N] [--seed S] [--faults KIND,...] HORORUN WATCHED_JOB

Each job must end by itself within its limit, with an exit code that is not 0 and with a verdict that names the
rank, and leave no process and no file in /dev/shm behind. A rank that is stopped, and resumed after that was told,
must not end its job. Prints how many did, and the seed to repeat a run with.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import GRACE_S, MpiFiles, leftovers, shared_memory_files

TIMEOUT_S = 4  # HORO_TIMEOUT
PATIENT_TIMEOUT_S = 60  # the same, of a job that is not to end
WARNING_S = 1  # HORO_STALL_WARNING
START_AND_END_S = 45  # of a job, on a busy machine
TOLD_WITHIN_S = 5
STUCK_EXIT_CODE = 75

# On top of what is promised: on a busy machine with few cores, on which all ranks share them.
MARGIN_S = 20

# What the console must show, all of it. The ranks that mpirun sees die are named by it alone.
RANK = r"rank {rank} \(host [^),]*, pid \d+\)"
PAST = r"(it|ranks? [^;]*) (last finished '|ha(s|ve) finished nothing)"
WAITS = r"ha(s|ve) waited [^;]* for [^;]*'[^']+'"
VERDICTS = {
    "kill": [r"hororun: rank {rank} \(host [^)]*\) (was killed by signal 9|is dead)"],
    "exit": [r"horo: rank {rank} \(host [^)]*\) exited with code 0 without calling Context::shutdown\(\)"],
    "throw": [r"watched_job: diverged", r"rank {rank} \(host [^)]*\) failed"],
    "stop": [rf"{RANK} is stopped .*{WAITS}.*; {PAST}.*; kill -CONT"],
    "late": [rf"{RANK} never (marked|submitted) '[^']+'.*; ranks? .* ha(s|ve) waited .* for it; {PAST}"],
    "mismatch": [r"tensor 'metric'.*rank {rank} \(host [^)]*\).*the shapes differ"],
    "missing": [rf"in another: .*{RANK} in (gradient|bucket) '.*; {PAST}", r"in allreduce 'metric' for "],
    "alone": [rf"in another: .*{RANK} in allreduce 'alone' for .*; {PAST}", r"in allreduce 'metric' for "],
    "stuck": [r"rank {rank} \(host [^)]*\).*stuck in .*'gradients"],
    "callback": [rf"{RANK} has been in the completion callback of 'metric' for",
                 r"rank {rank} \(host [^)]*\) has been in the completion callback of 'metric' .* in allreduce 'next' .*HORO_TIMEOUT"],
    "no_finalize": [rf"{RANK} never called 'MPI_Finalize'.*; ranks? .* ha(s|ve) waited .* for it; {PAST}",
                    r"rank {rank} \(host [^)]*\).*stuck in finalize 'MPI_Finalize'.*exit code 75"],
    "stop_late": [rf"{RANK} is stopped .*{WAITS}.*; {PAST}.*; kill -CONT"],
}
# Of a rank that shares its node with no other: nobody can look at its process. Without rank 0 the nodes do not hear of
# each other either, and each speaks of all others.
VERDICT_FROM_AFAR = rf"ranks? {{rank}}\b[^(]*\(host [^)]*\).*(no sign of life|stopped).*{WAITS}"
# How long the job goes on after its end was due.
ENDS_AFTER_S = {"stop": TIMEOUT_S + 3, "late": TIMEOUT_S, "missing": TIMEOUT_S, "alone": TIMEOUT_S, "stuck": TIMEOUT_S + 5,
                "callback": TIMEOUT_S + 5, "no_finalize": TIMEOUT_S + 5, "stop_late": TIMEOUT_S + 5}
# Inside MPI, where no exception ends a wait.
STUCK = ("stuck", "no_finalize", "stop_late")
# The ranks that fail first decide.
ENDS_LATE = (*STUCK, "callback")


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


class Job:
    """One job, whose output is collected while it runs."""

    def __init__(self, hororun, program, ranks, per_node, fault, rank, seed):
        timeout_s = PATIENT_TIMEOUT_S if fault == "endless" else TIMEOUT_S
        environment = dict(os.environ, HORO_RANKS_PER_NODE=str(per_node), HORO_TIMEOUT=f"{timeout_s}s",
                           HORO_STALL_WARNING=f"{WARNING_S}s", HORO_ALGORITHM="mpi" if fault == "stuck" else "auto")
        self.before = shared_memory_files()
        self.files = MpiFiles()
        self.ranks = ranks
        self.output = ""
        self.times = []  # (when it came, line)
        self.process = subprocess.Popen([hororun, "-np", str(ranks), program, fault, str(rank), str(seed)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.output += line
            if rank := re.search(r"rank \d+ pid (\d+)$", line):
                self.files.add_job_of(int(rank[1]))
            self.times.append((time.monotonic(), line))

    def first_time_of(self, pattern):
        """When a line with `pattern` came; None: none has."""
        return next((at for at, line in self.times if re.search(pattern, line)), None)

    def started(self):
        """When the last rank said that it runs."""
        return max((at for at, line in self.times if re.search(r"rank \d+ pid \d+$", line)), default=None)

    def pids(self):
        return {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d+) pid (\d+)", self.output)}

    def wait_for(self, condition, limit_s):
        deadline = time.monotonic() + limit_s
        while not condition() and time.monotonic() < deadline and self.process.poll() is None:
            time.sleep(0.02)
        return condition()

    def end(self, limit_s):
        """Problems with how it ended."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
            return [f"had not ended after {limit_s} s"]
        finally:
            self.reader.join()
        problems = []
        if len(self.pids()) != self.ranks:
            problems.append(f"{len(self.pids())} ranks started")
        left = leftovers(self.pids().values(), self.before, self.files)
        if left:
            problems.append(f"left behind: {left}")
        return problems


def is_alone_on_its_node(rank, ranks, per_node):
    first = rank // per_node * per_node if per_node else 0
    return min(first + (per_node or ranks), ranks) - first == 1


def check_fault(job, fault, rank, is_far):
    # Each fault happens within the first steps.
    end_s = ENDS_AFTER_S.get(fault, 0) + TOLD_WITHIN_S + MARGIN_S
    problems = job.end(START_AND_END_S + end_s)
    ended = time.monotonic()
    if job.process.returncode == 0 or (fault in STUCK and job.process.returncode != STUCK_EXIT_CODE):
        problems.append(f"exit code {job.process.returncode}")
    if job.started() is None:
        return problems
    if ended - job.started() > end_s + GRACE_S:
        problems.append(f"had ended only after {ended - job.started():.0f} s")
    told_s = (end_s if fault in ENDS_LATE else TOLD_WITHIN_S) + MARGIN_S
    for verdict in [VERDICT_FROM_AFAR] if fault in ("stop", "stop_late") and is_far else VERDICTS[fault]:
        told = job.first_time_of(verdict.format(rank=rank))
        if told is None:
            problems.append(f"'{verdict.format(rank=rank)}' was not told")
        elif told - job.started() > told_s:
            problems.append(f"'{verdict.format(rank=rank)}' was told only after {told - job.started():.0f} s")
    return problems


def check_resumed(job, rank, is_far):
    """A rank that is stopped while the job runs, and goes on once that was told."""
    problems = []
    if not job.wait_for(lambda: len(job.pids()) == job.ranks, START_AND_END_S):
        return job.end(1) + ["did not start"]
    time.sleep(0.5)
    os.kill(job.pids()[rank], signal.SIGSTOP)
    job.wait_for(lambda: is_stopped(job.pids()[rank]), 5)
    stopped = time.monotonic()
    told = VERDICT_FROM_AFAR if is_far else VERDICTS["stop"][0]
    # With what the others wait for, which may be known a little later.
    if not job.wait_for(lambda: job.first_time_of(told.format(rank=rank)), TOLD_WITHIN_S + MARGIN_S):
        problems.append(f"not told within {TOLD_WITHIN_S + MARGIN_S} s")
    stopped_s = time.monotonic() - stopped
    if job.process.poll() is not None:
        return job.end(1) + problems + ["the job ended while the rank was stopped"]
    os.kill(job.pids()[rank], signal.SIGCONT)
    if not job.wait_for(lambda: re.search(rf"ranks? {rank}\b[^(]*\(host [^)]*\) no longer", job.output),
                        TOLD_WITHIN_S + MARGIN_S):
        problems.append("that it goes on was not told")
    if job.process.poll() is not None:
        problems.append("the job ended")
    job.process.send_signal(signal.SIGTERM)
    problems += job.end(START_AND_END_S)
    # At once, again with what it keeps, and again as often as any stall.
    speakers = job.ranks - 1 if is_far and rank == 0 else 1
    most = (2 + int(stopped_s / (4 * WARNING_S))) * speakers
    for text, times in ((rf"warning .*rank {rank} \(host [^)]*\).*(no sign of life|is stopped)", most),
                        ("no longer keeps? ", speakers)):
        if len(re.findall(text, job.output)) > times:
            problems.append(f"'{text}' was told more than {times} times")
    return problems


def run_round(arguments, fault, numbers):
    ranks = numbers.choice([2, 3, 4, 8])
    per_node = numbers.choice([0, 0, 1, 2])
    rank = numbers.randrange(ranks)
    seed = numbers.randrange(1 << 30)
    start = time.monotonic()
    job = Job(arguments.hororun, arguments.job, ranks, per_node, "endless" if fault == "resume" else fault, rank, seed)
    is_far = is_alone_on_its_node(rank, ranks, per_node)
    problems = check_resumed(job, rank, is_far) if fault == "resume" else check_fault(job, fault, rank, is_far)
    nodes = f" on nodes of {per_node}" if per_node else ""
    print(f"{fault:>8} of rank {rank} of {ranks}{nodes} (seed {seed}): exit {job.process.returncode}, "
          f"{time.monotonic() - start:.1f} s" + "".join(f"; PROBLEM: {problem}" for problem in problems), flush=True)
    if problems:
        print(job.output, flush=True)
    return not problems


def main():
    parser = argparse.ArgumentParser(description="Random faults, and what the watchdog makes of them.")
    kinds = [*VERDICTS, "resume"]
    parser.add_argument("--rounds", type=int, default=3, help="jobs for each kind of fault (default 3)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of everything that is random")
    parser.add_argument("--faults", default=",".join(kinds), help="which kinds, of " + ", ".join(kinds))
    parser.add_argument("hororun")
    parser.add_argument("job")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    numbers = random.Random(arguments.seed)
    failed = 0
    for fault in arguments.faults.split(","):
        good = sum(run_round(arguments, fault, numbers) for _ in range(arguments.rounds))
        print(f"{fault}: {good} of {arguments.rounds} jobs ended as they should", flush=True)
        failed += arguments.rounds - good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
