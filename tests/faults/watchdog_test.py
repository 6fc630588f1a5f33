#!/usr/bin/env python3
"""Starts jobs in which one rank fails at a random moment, and checks the reports and how the jobs end.

usage: watchdog_test.py [--rounds N] [--seed S] [--faults KIND,...] HORORUN WATCHED_JOB

Each job must end by itself, with a nonzero exit code and a verdict that names the rank. No process and no file in
/dev/shm may be left. A rank that is stopped, and resumed after the report of the stop, must not end its job. Prints the
number of passed jobs and the seed, which repeats a run.
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
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checks import report, run_all
from processes import GRACE_S, MpiFiles, leftovers, shared_memory_files

TIMEOUT_S = 4  # HORO_TIMEOUT
PATIENT_TIMEOUT_S = 60  # HORO_TIMEOUT of a job that must not end
WARNING_S = 1  # HORO_STALL_WARNING
START_AND_END_S = 45  # to start and end a job on a busy machine
STUCK_EXIT_CODE = 75

# A job that takes longer counts as hung. The actual reporting time is tested on simulated clocks
# (StallPolicy.ReportsStallWithinFourIntervals), since a busy machine delays every step.
HANG_S = 25

# The output must contain all patterns of the fault. Only hororun reports a rank whose death mpirun detects.
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
# Verdict on a rank that is alone on its node, where no other rank can inspect its process. If that rank is rank 0, the
# other nodes do not receive each other's status, so each node reports all other ranks.
REMOTE_VERDICT = rf"ranks? {{rank}}\b[^(]*\(host [^)]*\).*(no heartbeat|stopped).*{WAITS}"
# Extra seconds that a job may run after the fault; 0 for the other faults.
ENDS_AFTER_S = {"stop": TIMEOUT_S + 3, "late": TIMEOUT_S, "missing": TIMEOUT_S, "alone": TIMEOUT_S, "stuck": TIMEOUT_S + 5,
                "callback": TIMEOUT_S + 5, "no_finalize": TIMEOUT_S + 5, "stop_late": TIMEOUT_S + 5}
# Faults that leave ranks blocked inside MPI, where no exception can end the wait.
STUCK = ("stuck", "no_finalize", "stop_late")


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


class Job:
    """One job. Its output is collected while it runs."""

    def __init__(self, hororun, program, ranks, per_node, fault, rank, seed):
        timeout_s = PATIENT_TIMEOUT_S if fault == "endless" else TIMEOUT_S
        environment = dict(os.environ, HORO_RANKS_PER_NODE=str(per_node), HORO_TIMEOUT=f"{timeout_s}s",
                           HORO_STALL_WARNING=f"{WARNING_S}s", HORO_ALGORITHM="mpi" if fault == "stuck" else "auto")
        self.before = shared_memory_files()
        self.files = MpiFiles()
        self.ranks = ranks
        self.output = ""
        self.times = []  # (arrival time, line)
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
        """Returns the arrival time of the first line that matches `pattern`, or None."""
        return next((at for at, line in self.times if re.search(pattern, line)), None)

    def started(self):
        """Returns the time at which the last rank reported its start, or None."""
        return max((at for at, line in self.times if re.search(r"rank \d+ pid \d+$", line)), default=None)

    def pids(self):
        return {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d+) pid (\d+)", self.output)}

    def wait_for(self, condition, limit_s):
        deadline = time.monotonic() + limit_s
        while not condition() and time.monotonic() < deadline and self.process.poll() is None:
            time.sleep(0.02)
        return condition()

    def end(self, limit_s):
        """Waits for the end of the job and returns the problems."""
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


def check_fault(job, fault, rank, is_remote):
    # The fault is injected in one of the first steps.
    end_s = ENDS_AFTER_S.get(fault, 0) + HANG_S
    problems = job.end(START_AND_END_S + end_s)
    ended = time.monotonic()
    if job.process.returncode == 0 or (fault in STUCK and job.process.returncode != STUCK_EXIT_CODE):
        problems.append(f"exit code {job.process.returncode}")
    if job.started() is None:
        return problems
    if ended - job.started() > end_s + GRACE_S:
        problems.append(f"ended late, after {ended - job.started():.0f} s")
    for verdict in [REMOTE_VERDICT] if fault in ("stop", "stop_late") and is_remote else VERDICTS[fault]:
        if job.first_time_of(verdict.format(rank=rank)) is None:
            problems.append(f"'{verdict.format(rank=rank)}' was not reported")
    return problems


def check_resumed(job, rank, is_remote):
    """Stops a rank while the job runs and resumes it after the stop was reported."""
    problems = []
    if not job.wait_for(lambda: len(job.pids()) == job.ranks, START_AND_END_S):
        return job.end(1) + ["the job did not start"]
    time.sleep(0.5)
    os.kill(job.pids()[rank], signal.SIGSTOP)
    job.wait_for(lambda: is_stopped(job.pids()[rank]), 5)
    stopped = time.monotonic()
    stop_verdict = REMOTE_VERDICT if is_remote else VERDICTS["stop"][0]
    # The report must include the operation that the others wait for, which may be known a little later.
    if not job.wait_for(lambda: job.first_time_of(stop_verdict.format(rank=rank)), HANG_S):
        problems.append(f"not reported within {HANG_S} s")
    stopped_s = time.monotonic() - stopped
    if job.process.poll() is not None:
        return job.end(1) + problems + ["the job ended while the rank was stopped"]
    os.kill(job.pids()[rank], signal.SIGCONT)
    if not job.wait_for(lambda: re.search(rf"ranks? {rank}\b[^(]*\(host [^)]*\) no longer", job.output),
                        HANG_S):
        problems.append("the resumption was not reported")
    if job.process.poll() is not None:
        problems.append("the job ended")
    job.process.send_signal(signal.SIGTERM)
    problems += job.end(START_AND_END_S)
    # The stop is reported at once, again with the blocked operation, and then as often as any stall.
    reporting_ranks = job.ranks - 1 if is_remote and rank == 0 else 1
    max_reports = (2 + int(stopped_s / (4 * WARNING_S))) * reporting_ranks
    for text, times in ((rf"warning .*rank {rank} \(host [^)]*\).*(no heartbeat|is stopped)", max_reports),
                        ("no longer blocks? ", reporting_ranks)):
        if len(re.findall(text, job.output)) > times:
            problems.append(f"'{text}' was reported more than {times} times")
    return problems


def run_round(arguments, fault, ranks, per_node, rank, seed):
    start = time.monotonic()
    job = Job(arguments.hororun, arguments.job, ranks, per_node, "endless" if fault == "resume" else fault, rank, seed)
    is_remote = is_alone_on_its_node(rank, ranks, per_node)
    problems = check_resumed(job, rank, is_remote) if fault == "resume" else check_fault(job, fault, rank, is_remote)
    nodes = f" on nodes of {per_node}" if per_node else ""
    return report(f"{fault:>8} of rank {rank} of {ranks}{nodes} (seed {seed}): exit {job.process.returncode}, "
                  f"{time.monotonic() - start:.1f} s", problems, job.output)


def random_round(numbers):
    ranks = numbers.choice([2, 3, 4, 8])
    return ranks, numbers.choice([0, 0, 1, 2]), numbers.randrange(ranks), numbers.randrange(1 << 30)


def main():
    parser = argparse.ArgumentParser(description="Injects random faults and checks the reports of the watchdog.")
    kinds = [*VERDICTS, "resume"]
    parser.add_argument("--rounds", type=int, default=3, help="jobs for each kind of fault (default 3)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="seed of all random numbers")
    parser.add_argument("--faults", default=",".join(kinds), help="kinds to test, of " + ", ".join(kinds))
    parser.add_argument("hororun")
    parser.add_argument("job")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    numbers = random.Random(arguments.seed)
    return run_all([partial(run_round, arguments, fault, *random_round(numbers))
                    for fault in arguments.faults.split(",") for _ in range(arguments.rounds)])


if __name__ == "__main__":
    sys.exit(main())
