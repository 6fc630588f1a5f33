#!/usr/bin/env python3
"""Starts jobs in which one rank fails and checks how they end.

usage: fault_test.py HORORUN FAULT_JOB [FAULT TIMES]

With FAULT, only this fault is tested: TIMES jobs of two ranks, in which rank 1 fails.

Each job must end by itself within the limit and with the expected exit code. Its output must contain the cause of the
failure and exactly one verdict of hororun, which names the rank. No process and no file in /dev/shm may be left.
"""
import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checks import report, run_all
from processes import MpiFiles, leftovers, shared_memory_files

# Limit from the start of the last rank to the end of the job. A job that takes longer counts as hung. The actual detection
# time is tested on simulated clocks (NodeWatch.ReportsDeathWithinASecondAndTwoIntervals).
LIMIT_S = 30
START_S = 60

# Faults before any rank has joined.
IN_INIT = ("option", "bad_setting", "segv_in_mpi_init", "terminate_in_mpi_init")
# Faults after which the job succeeds.
HEALTHY = ("none", "survived", "shutdown_exit", "shutdown_static")
# Patterns about the failed rank that the output must contain in addition to hororun's verdict.
EXPECTED_OUTPUT = {
    "none": [],
    "shutdown_exit": [],
    "shutdown_static": [],
    "kill": [],
    "throw": [r"diverged"],
    # The secondary failures of the other ranks must not end the job before the failed rank has reported the cause.
    "throw_slowly": [r"diverged"],
    "exit": [],
    "normal_exit": [r"horo: rank {rank} \(host [^)]*\) exited with code 0 without calling Context::shutdown\(\)"],
    "thread_exit": [r"horo: rank {rank} \(host [^)]*\) exited with code 3 without calling Context::shutdown\(\)"],
    "leak": [r"horo: rank {rank} \(host [^)]*\) exited with code 0 without calling Context::shutdown\(\)"],
    "quick_exit": [],
    "terminate": [],
    "callback": [],
    "abandon_set": [r"diverged"],
    "return": [r"rank {rank} \(host [^)]*\).*(has left|has shut down|ended early)"],
    "kill_in_allocate": [],
    "term_in_allocate": [],
    # More than one rank reports the failure.
    "device": [2 * r"(?:fault_job: rank {rank} \(host [^)]*\) failed in allreduce 'gradients\.0/bucket 0': "
               r"an illegal memory access(?s:.*))"],
    "in_flight": [r"rank {rank} \(host [^)]*\).*(has left|has shut down|ended early)"],
    "own_handler": [r"the program's own terminate handler"],
    "throw_before_shutdown": [r"diverged"],
    "throw_before_join": [r"diverged"],
    "segv_in_mpi_init": [r"(?m)^horo: rank {rank} \(host [^)]*\) crashed: signal 11 \(Segmentation fault\); "
                         r"it was in horo::init\(\)$"],
    "terminate_in_mpi_init": [r"(?m)^horo: rank {rank} \(host [^)]*\) called std::terminate\(\) without an exception$"],
}
# Pattern of hororun's verdict after "rank N (host HOST". mpirun does not name every rank that dies.
LEFT = r", pid \d+\) (left while others still worked \(by .*; rank |has ended early)"
EXITED = r", pid \d+\) exited with code {} without calling Context::shutdown\(\)"
FAILED = r", pid \d+\) failed with an exception"
UNCAUGHT = r", pid \d+\) ended with an uncaught exception"
CRASHED = r", pid \d+\) crashed: signal"
VERDICTS = {
    "kill_in_allocate": r", pid \d+\) (was killed by signal 9 \(Killed\)|is dead)",
    "term_in_allocate": r", pid \d+\) (was killed by signal 15 \(Terminated\)|is dead)",
    "kill": r", pid \d+\) (was killed by signal 9 \(Killed\)|is dead)",
    "throw": FAILED,
    "throw_slowly": FAILED,
    "exit": rf"({EXITED.format(3)}|, pid \d+\) is dead)",
    "normal_exit": EXITED.format(0),
    "thread_exit": EXITED.format(3),
    "leak": EXITED.format(0),
    "quick_exit": rf"({EXITED.format(0)}|, pid \d+\) is dead)",
    "terminate": r", pid \d+\) called std::terminate\(\) without an exception",
    "uncaught": rf"{UNCAUGHT} \(.*Diverged\): diverged",
    "uncaught_nested": rf"{UNCAUGHT} \(.*\): step 5; caused by: diverged",
    "uncaught_int": rf"{UNCAUGHT} \(int\): unknown exception",
    "uncaught_noexcept": rf"{UNCAUGHT} \(.*Diverged\): diverged",
    "uncaught_thread": rf"{UNCAUGHT} \(.*Diverged\): diverged",
    "own_handler": rf"{UNCAUGHT} \(.*Diverged\): diverged",
    "abort": rf"{CRASHED} 6 \(Aborted\)",
    "segv": rf"{CRASHED} 11 \(Segmentation fault\); its last operation was (bucket|allreduce) '",
    "overflow": rf"{CRASHED} 11 \(Segmentation fault\)",
    "heap": rf"{CRASHED} (6|11) ",
    "looping_handler": rf"{CRASHED} 11 \(Segmentation fault\), but its process is still running",
    "segv_in_mpi_init": r"[^)]*\) was killed by signal 11 .*it was in horo::init\(\)",
    "terminate_in_mpi_init": r"[^)]*\) was killed by signal 6 .*called std::terminate\(\) without an exception",
    "option": r"[^)]*\) exited with code 2; its last line on standard error is 'fault_job: unknown option --stpes'",
    "bad_setting": r"[^)]*\) failed in horo::init\(\): HORO_TIMEOUT",
    "shutdown_alone": r", pid \d+\) never called 'MPI_Finalize'",
    "not_ready": rf"{FAILED}; its last error: wait\(\) before ready\(\) of 10 of 20 gradients: g0",
    "callback": r"[^)]*\) destroyed its Context in a completion callback",
    "abandon_set": rf"({FAILED}|{LEFT})",
    "return": LEFT,
    "device": r", pid \d+\) failed in allreduce 'gradients\.0/bucket 0': an illegal memory access",
    "in_flight": LEFT,
    "throw_before_shutdown": FAILED,
    "throw_before_join": FAILED,
}


def problems_of_crash(output, fault, rank):
    """A crash must give exactly one line of the rank, without Open MPI's stack trace."""
    problems = ["Open MPI printed the stack"] if "*** Process received signal ***" in output else []
    if not VERDICTS.get(fault, "").startswith((UNCAUGHT, CRASHED)) or fault == "looping_handler":
        return problems
    lines = re.findall(rf"(?m)^horo: rank {rank} \(host [^,)]*{VERDICTS[fault]}", output)
    return problems + ([] if len(lines) == 1 else [f"{len(lines)} lines of the rank about the crash"])


def problems_of_verdict(output, fault, rank):
    verdicts = [line for line in output.splitlines()
                if line.startswith("hororun: ") and not line.startswith("hororun: more: ")]
    if fault in HEALTHY:
        return [f"hororun printed '{line}'" for line in verdicts]
    if len(verdicts) != 1:
        return [f"hororun gave {len(verdicts)} verdicts"]
    pattern = rf"hororun: rank {rank} \(host [^,)]*{VERDICTS[fault]}"
    return [] if re.match(pattern, verdicts[0]) else [f"the verdict is not '{pattern}'"]


def run_to_end(command, ranks, ranks_per_node):
    """Returns the exit code, the output, the seconds since the last rank started, and the job's Open MPI files."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=dict(os.environ, HORO_RANKS_PER_NODE=str(ranks_per_node)))
    # Ends the launcher, which ends the ranks.
    alarm = threading.Timer(START_S + LIMIT_S, job.terminate)
    alarm.start()
    output = ""
    started = time.monotonic()
    files = MpiFiles()
    for line in job.stdout:
        output += line
        if rank := re.match(r"rank \d+ pid (\d+)$", line):
            started = time.monotonic()
            files.add_job_of(int(rank[1]))
    code = job.wait()
    alarm.cancel()
    return code, output, time.monotonic() - started, files


def run_job(hororun, job, ranks, fault, rank, ranks_per_node=0):
    before = shared_memory_files()
    command = [hororun, "-np", str(ranks), job, fault, str(rank)]
    code, output, seconds, files = run_to_end(command, ranks, ranks_per_node)
    pids = [int(pid) for pid in re.findall(r"rank \d+ pid (\d+)", output)]
    problems = []
    if len(pids) != ranks and fault not in IN_INIT:
        problems.append(f"{len(pids)} ranks started")
    if (code == 0) != (fault in HEALTHY):
        problems.append(f"exit code {code}")
    if seconds > LIMIT_S:
        problems.append(f"the job ended {seconds:.0f} s after its start, which exceeds {LIMIT_S} s")
    problems += [f"'{pattern}' was not found" for pattern in EXPECTED_OUTPUT.get(fault, [])
                 if not re.search(pattern.format(rank=rank), output)]
    problems += problems_of_verdict(output, fault, rank) + problems_of_crash(output, fault, rank)
    left = leftovers(pids, before, files)
    if left:
        problems.append(f"left behind: {left}")
    nodes = f" on nodes of {ranks_per_node}" if ranks_per_node else ""
    return report(f"{fault:>7} of rank {rank} of {ranks}{nodes}: exit {code}, {seconds:.1f} s", problems, output)


def run_without_hororun(job, fault):
    """Without hororun, the line of the failed rank is the only report of the cause."""
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", job, fault, "1"]
    code, output, seconds, _ = run_to_end(command, 2, 0)
    problems = [f"exit code {code}"] if code == 0 else []
    problems += [f"'{pattern}' was not found" for pattern in EXPECTED_OUTPUT[fault]
                 if not re.search(pattern.format(rank=1), output)]
    problems += problems_of_crash(output, fault, 1)
    return report(f"{fault} without hororun: exit {code}, {seconds:.1f} s", problems, output)


def main():
    hororun, job = sys.argv[1:3]
    if len(sys.argv) > 3:
        return run_all([partial(run_job, hororun, job, 2, sys.argv[3], 1)] * int(sys.argv[4]))
    jobs = [partial(run_job, hororun, job, ranks, fault, rank)
            for fault in EXPECTED_OUTPUT if not fault.endswith("in_allocate") and fault != "own_handler"
            for ranks, rank in ((2, 0), (2, 1), (4, 2))]
    jobs += [partial(run_job, hororun, job, 4, fault, 2, ranks_per_node=2)
             for fault in ("none", "kill", "throw_slowly", "device")]
    # Which rank ends first varies between the jobs.
    jobs += [partial(run_job, hororun, job, ranks, fault, ranks - 1)
             for fault in ("throw_before_shutdown", "throw_before_join")
             for ranks in (2, 3, 4)]
    jobs += [partial(run_without_hororun, job, fault) for fault in ("segv_in_mpi_init", "terminate_in_mpi_init")]
    # Tests each other way to end a process once.
    jobs += [partial(run_job, hororun, job, 3, fault, 1)
             for fault in ("survived", *VERDICTS) if fault not in EXPECTED_OUTPUT or fault == "own_handler"]
    return run_all(jobs)


if __name__ == "__main__":
    sys.exit(main())
