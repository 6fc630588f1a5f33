"""Processes that a test has started, and what they leave."""
import os
import time

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


def leftovers(pids, before):
    """What the job left behind; waits a little for processes that are just ending."""
    deadline = time.monotonic() + GRACE_S
    while True:
        alive = [pid for pid in pids if is_alive(pid)]
        files = shared_memory_files() - before
        if not alive and not files:
            return ""
        if time.monotonic() > deadline:
            return f"processes {alive}, files {sorted(files)}"
        time.sleep(0.05)
