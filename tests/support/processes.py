"""Inspects processes that a test has started, and finds what they leave behind."""
import os
import re
import time
from pathlib import Path

GRACE_S = 5  # for processes that are starting or ending
FORKED_ONLY = 0x40  # flag of /proc/PID/stat (the kernel's PF_FORKNOEXEC)


def is_alive(pid):
    """Returns whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def has_executed(pid):
    """Returns whether the process has called exec. Before that, its arguments and environment are its parent's.

    Also returns True for a process that has ended, and for one that never calls exec (launcher/rank/rank_cleaner.h).
    """
    try:
        with open(f"/proc/{pid}/stat") as stat:
            name, rest = stat.read().rsplit(")", 1)
    except OSError:
        return True
    if name.endswith("(hororun-clean"):
        return True
    fields = rest.split()
    has_environment = int(fields[48]) != 0  # env_end; exec sets it after it has cleared the flag
    return fields[0] in "ZX" or (has_environment and not int(fields[6]) & FORKED_ONLY)


def is_segment(name):
    """Returns whether a file in /dev/shm belongs to Open MPI."""
    return name.startswith("vader_segment.")


class MpiFiles:
    """The files of Open MPI for the jobs of some processes. Files of other jobs are not included."""

    def __init__(self, pids=()):
        self.segments = set()  # substrings of the names of the jobs' files in /dev/shm
        self.directories = set()
        for pid in pids:
            self.add_job_of(pid)

    def add_job_of(self, pid):
        """Reads the job from the environment of a process. Does nothing if the process has ended.

        Waits until a forked process has called exec.
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
        """Returns the files that still exist."""
        files = [name for name in os.listdir("/dev/shm")
                 if is_segment(name) and any(part in name for part in self.segments)]
        return files + [str(path) for path in self.directories if path.exists()]


def shared_memory_files():
    return set(os.listdir("/dev/shm"))


def mapped_files():
    """Returns the files in /dev/shm that running processes of any job have mapped."""
    files = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            files.update(re.findall(r"/dev/shm/(\S+)", maps.read_text()))
        except OSError:
            pass  # the process has ended or belongs to another user
    return files


def leftovers(pids, before, mpi_files):
    """Describes the processes and files that a job left behind; "" if there are none. Waits up to GRACE_S for them.

    `pids`: the processes of the job. `before`: the result of shared_memory_files() before the job. A file counts if it is
    newer and no process uses it. A file of Open MPI counts only if `mpi_files` (MpiFiles) contains it; an older one has the name
    of an earlier job, because Open MPI derives the names from process numbers, which the kernel uses again.
    """
    deadline = time.monotonic() + GRACE_S
    while True:
        alive = [pid for pid in pids if is_alive(pid)]
        new_files = {name for name in shared_memory_files() - before if not is_segment(name)}
        files = new_files - mapped_files() | set(mpi_files.left()) - before
        if not alive and not files:
            return ""
        if time.monotonic() > deadline:
            return f"processes {alive}, files {sorted(files)}"
        time.sleep(0.05)
