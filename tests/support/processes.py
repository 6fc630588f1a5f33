"""Processes that a test has started, and what they leave."""
import os
import re
import time
from pathlib import Path

GRACE_S = 5  # for what is just beginning or ending
FORKED_ONLY = 0x40  # flag of /proc/PID/stat (the kernel's PF_FORKNOEXEC)


def is_alive(pid):
    """Whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def has_executed(pid):
    """Whether the process runs a program of its own: between fork and exec its words and environment are its parent's.

    True of a process that has ended.
    """
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return True
    has_environment = int(fields[48]) != 0  # env_end, which exec sets after it has reset the flag
    return fields[0] in "ZX" or (has_environment and not int(fields[6]) & FORKED_ONLY)


def is_segment(name):
    """Whether a file of /dev/shm is Open MPI's."""
    return name.startswith("vader_segment.")


class MpiFiles:
    """What Open MPI keeps in files for the jobs of some processes, and for no other job."""

    def __init__(self, pids=()):
        self.segments = set()  # what the names of a job's files in /dev/shm contain
        self.directories = set()
        for pid in pids:
            self.add_job_of(pid)

    def add_job_of(self, pid):
        """Reads the job from the environment of a process; does nothing if the process has ended.

        Waits for a process that was forked and is about to execute its program.
        """
        deadline = time.monotonic() + GRACE_S
        while not has_executed(pid) and time.monotonic() < deadline:
            time.sleep(0.001)
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return
        values = dict(entry.split("=", 1) for entry in environment if "=" in entry)
        if "PMIX_NAMESPACE" in values:
            self.segments.add(f".{os.geteuid()}.{int(values['PMIX_NAMESPACE']):x}.")
            self.directories.add(Path(values["OMPI_MCA_orte_jobfam_session_dir"]))

    def left(self):
        """Those that exist."""
        files = [name for name in os.listdir("/dev/shm")
                 if is_segment(name) and any(part in name for part in self.segments)]
        return files + [str(path) for path in self.directories if path.exists()]


def shared_memory_files():
    return set(os.listdir("/dev/shm"))


def mapped_files():
    """The files of /dev/shm that living processes use, those of other jobs among them."""
    files = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            files.update(re.findall(r"/dev/shm/(\S+)", maps.read_text()))
        except OSError:
            pass  # it has ended, or is somebody else's
    return files


def leftovers(pids, before, mpi_files):
    """What the job of these processes left behind, in words; waits a little for those that are just ending.

    `before`: shared_memory_files() before it began. Of the files since then, those count that no process uses. Open
    MPI's files carry the number of their job: only those of `mpi_files` (MpiFiles) count.
    """
    deadline = time.monotonic() + GRACE_S
    while True:
        alive = [pid for pid in pids if is_alive(pid)]
        new_files = {name for name in shared_memory_files() - before if not is_segment(name)}
        files = new_files - mapped_files() | set(mpi_files.left())
        if not alive and not files:
            return ""
        if time.monotonic() > deadline:
            return f"processes {alive}, files {sorted(files)}"
        time.sleep(0.05)
