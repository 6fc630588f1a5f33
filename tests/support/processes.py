"""Processes that a test has started, and what they leave."""
import os
import re
import time
from pathlib import Path

GRACE_S = 5  # for what is just ending


def is_alive(pid):
    """Whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


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


def leftovers(pids, before):
    """What the job of these processes left behind, in words; waits a little for those that are just ending.

    `before`: shared_memory_files() before it began. Of the files since then, those count that no process uses.
    """
    deadline = time.monotonic() + GRACE_S
    while True:
        alive = [pid for pid in pids if is_alive(pid)]
        files = shared_memory_files() - before - mapped_files()
        if not alive and not files:
            return ""
        if time.monotonic() > deadline:
            return f"processes {alive}, files {sorted(files)}"
        time.sleep(0.05)
