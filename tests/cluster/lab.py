"""A lab of emulated hosts for one test."""
import os
import subprocess
import sys
import zlib
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "cluster_lab.sh"
SKIPPED = 77  # what CTest takes as "skipped"
START_LIMIT_S = 30
# Of this build alone, and the same each time: what a killed test left is found and removed.
ENVIRONMENT = dict(os.environ, CLUSTER_LAB=f"test-{zlib.crc32(os.getcwd().encode()):08x}")


class Impossible(Exception):
    """This machine cannot have a lab: not root, or something is missing, or the kernel refuses it."""


class Lab:
    """`with Lab(hosts) as lab:` starts it and takes it down again."""

    def __init__(self, hosts, rate="1gbit", name=None):
        """`name`: of a lab beside that of this build; None: that one."""
        self.hosts = hosts
        self.rate = rate
        self.environment = dict(ENVIRONMENT, CLUSTER_LAB=name) if name else ENVIRONMENT

    def __enter__(self):
        self.call("down")
        done = self.call("up", self.hosts, self.rate)
        if done.returncode == 2:
            raise Impossible(done.stderr.strip())
        if done.returncode != 0:
            raise RuntimeError(f"cluster_lab.sh up: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return self

    def __exit__(self, *_):
        self.call("down")

    def call(self, *arguments, limit_s=START_LIMIT_S):
        return subprocess.run([SCRIPT, *map(str, arguments)], env=self.environment, capture_output=True, text=True,
                              timeout=limit_s)

    def start(self, *arguments):
        return subprocess.Popen([SCRIPT, *map(str, arguments)], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def names(self):
        return [f"host{i}" for i in range(self.hosts)]

    def namespace(self, host):
        return f"{self.environment['CLUSTER_LAB']}-{host}"

    def processes(self, host):
        done = subprocess.run(["ip", "netns", "pids", self.namespace(host)], capture_output=True, text=True, check=True)
        return [int(pid) for pid in done.stdout.split()]

    def shared_memory_files(self, host):
        return self.call("exec", host, "ls", "-A", "/dev/shm").stdout.split()

    def sent(self):
        """Bytes that each host has sent over its link."""
        return [int(line.split()[1]) for line in self.call("bytes").stdout.splitlines()]


def run_or_skip(main):
    """Ends the process with main()'s exit code, or with SKIPPED and the reason where no lab can be."""
    try:
        with Lab(1):
            pass
    except Impossible as reason:
        print(f"SKIPPED, no emulated hosts here: {reason}", flush=True)
        sys.exit(SKIPPED)
    sys.exit(main())
