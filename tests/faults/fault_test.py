#!/usr/bin/env python3
"""Starts jobs in which one rank fails and checks how they end.

usage: fault_test.py HORORUN FAULT_JOB [FAULT TIMES]

FAULT: that one alone, TIMES times, in rank 1 of 2.

Each job must end by itself within the limit, with the expected kind of exit code, with a text that says why and with one
verdict of hororun that names the rank, and leave no process and no file in /dev/shm behind.
"""
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import MpiFiles, leftovers, shared_memory_files

# From when all ranks run to the end of the job. A dead rank is told after 1 to 2 s; the rest is for a busy machine.
LIMIT_S = 30
START_S = 60

# The job ends well.
HEALTHY = ("none", "survived", "shutdown_exit", "shutdown_static")
# What the output must show beside hororun's verdict, of the rank at fault.
TELLING = {
    "none": [],
    "shutdown_exit": [],
    "shutdown_static": [],
    "kill": [],
    "throw": [r"diverged"],
    # The others, which fail because of it, must not have the job ended before it has said why.
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
    # More than one rank says the same.
    "device": [2 * r"(?:fault_job: rank {rank} \(host [^)]*\) failed in allreduce 'gradients\.0/bucket 0': "
               r"an illegal memory access(?s:.*))"],
    "in_flight": [r"rank {rank} \(host [^)]*\).*(has left|has shut down|ended early)"],
    "own_handler": [r"the program's own terminate handler"],
    "throw_before_shutdown": [r"diverged"],
    "throw_before_join": [r"diverged"],
}
# hororun's only verdict, after "rank N (host HOST". mpirun does not name every rank that dies.
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
    "looping_handler": rf"{CRASHED} 11 \(Segmentation fault\), and its process has not ended since",
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
    """A crash is one line of the rank, without Open MPI's stack."""
    problems = ["Open MPI printed the stack"] if "*** Process received signal ***" in output else []
    if not VERDICTS.get(fault, "").startswith((UNCAUGHT, CRASHED)) or fault == "looping_handler":
        return problems
    lines = re.findall(rf"(?m)^horo: rank {rank} \(host [^,)]*{VERDICTS[fault]}", output)
    return problems + ([] if len(lines) == 1 else [f"{len(lines)} lines of the rank about its end"])


def problems_of_verdict(output, fault, rank):
    verdicts = [line for line in output.splitlines()
                if line.startswith("hororun: ") and not line.startswith("hororun: more: ")]
    if fault in HEALTHY:
        return [f"hororun said '{line}'" for line in verdicts]
    if len(verdicts) != 1:
        return [f"hororun gave {len(verdicts)} verdicts"]
    wanted = rf"hororun: rank {rank} \(host [^,)]*{VERDICTS[fault]}"
    return [] if re.match(wanted, verdicts[0]) else [f"the verdict is not '{wanted}'"]


def run_to_its_end(command, ranks, ranks_per_node):
    """The exit code, the output, how long it took from when all ranks ran, and Open MPI's files of the job."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=dict(os.environ, HORO_RANKS_PER_NODE=str(ranks_per_node)))
    # Ends the job, whose launcher ends the ranks.
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
    code, output, seconds, files = run_to_its_end(command, ranks, ranks_per_node)
    pids = [int(pid) for pid in re.findall(r"rank \d+ pid (\d+)", output)]
    problems = []
    if len(pids) != ranks and fault != "bad_setting":
        problems.append(f"{len(pids)} ranks started")
    if (code == 0) != (fault in HEALTHY):
        problems.append(f"exit code {code}")
    if seconds > LIMIT_S:
        problems.append(f"it ended {seconds:.0f} s after its start, more than {LIMIT_S} s")
    problems += [f"'{wanted}' was not found" for wanted in TELLING.get(fault, [])
                 if not re.search(wanted.format(rank=rank), output)]
    problems += problems_of_verdict(output, fault, rank) + problems_of_crash(output, fault, rank)
    left = leftovers(pids, before, files)
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
    if len(sys.argv) > 3:
        results = [run_job(hororun, job, 2, sys.argv[3], 1) for _ in range(int(sys.argv[4]))]
        print(f"{sum(results)} of {len(results)} jobs ended as they should")
        return 0 if all(results) else 1
    results = [run_job(hororun, job, ranks, fault, rank)
               for fault in TELLING if not fault.endswith("in_allocate") and fault != "own_handler"
               for ranks, rank in ((2, 0), (2, 1), (4, 2))]
    results += [run_job(hororun, job, 4, fault, 2, ranks_per_node=2)
                for fault in ("none", "kill", "throw_slowly", "device")]
    # Which rank ends first varies from job to job.
    results += [run_job(hororun, job, ranks, fault, ranks - 1)
                for fault in ("throw_before_shutdown", "throw_before_join")
                for ranks in (2, 3, 4)]
    # By what a rank ends its process, each once.
    results += [run_job(hororun, job, 3, fault, 1)
                for fault in ("survived", *VERDICTS) if fault not in TELLING or fault == "own_handler"]
    print(f"{sum(results)} of {len(results)} jobs ended as they should")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
