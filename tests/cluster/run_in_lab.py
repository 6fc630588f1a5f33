#!/usr/bin/env python3
"""Runs an MPI program on emulated hosts and exits with its exit code.

usage: run_in_lab.py HOSTS RANKS-PER-HOST LIMIT-S PROGRAM [ARGUMENTS]
"""
import subprocess
import sys

from lab import ENVIRONMENT, SCRIPT, Lab, run_or_skip


def main():
    hosts, ranks, limit_s = map(int, sys.argv[1:4])
    with Lab(hosts):
        environment = dict(ENVIRONMENT, LAB_HOSTS=str(hosts), LAB_RANKS=str(ranks))
        return subprocess.run([SCRIPT, "run", str(ranks), *sys.argv[4:]], env=environment, timeout=limit_s).returncode


if __name__ == "__main__":
    run_or_skip(main)
