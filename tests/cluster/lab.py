"""Starts emulated hosts (a lab) for one test with scripts/cluster_lab.sh."""
import os
import subprocess
import sys
import zlib
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "cluster_lab.sh"
SKIPPED = 77  # CTest reports this exit code as "skipped"
START_LIMIT_S = 30
# The name is constant and unique to this build. The next test therefore removes the lab that a killed test left.
ENVIRONMENT = dict(os.environ, CLUSTER_LAB=f"test-{zlib.crc32(os.getcwd().encode()):08x}")


class LabUnavailable(Exception):
    """This machine cannot run a lab: no root, a missing tool, or a kernel that does not permit it."""


class Lab:
    """A context manager: `with Lab(hosts) as lab:` starts a lab and removes it at the end."""

    def __init__(self, hosts, rate="1gbit", name=None):
        """`name`: the name of an additional lab; None: the lab of this build."""
        self.hosts = hosts
        self.rate = rate
        self.environment = dict(ENVIRONMENT, CLUSTER_LAB=name) if name else ENVIRONMENT

    def __enter__(self):
        self.call("down")
        done = self.call("up", self.hosts, self.rate)
        if done.returncode == 2:
            raise LabUnavailable(done.stderr.strip())
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
        """Returns the bytes that each host has sent over its link."""
        return [int(line.split()[1]) for line in self.call("bytes").stdout.splitlines()]


def run_or_skip(main):
    """Exits with the exit code of main(). If no lab is available, prints the reason and exits with SKIPPED."""
    try:
        with Lab(1):
            pass
    except LabUnavailable as reason:
        print(f"SKIPPED, no emulated hosts here: {reason}", flush=True)
        sys.exit(SKIPPED)
    sys.exit(main())
