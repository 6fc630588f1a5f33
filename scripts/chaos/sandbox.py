"""A private TMPDIR and /dev/shm for one job, so that its leftovers can be told from files of other jobs."""
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from shutil import rmtree

GRACE_S = 5  # for processes that are just ending
NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


def processes_in(namespace):
    """The processes, except zombies, of a mount namespace with the name in /proc/PID/ns/mnt."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns" / "mnt") == namespace:
                found.append(int(entry.name))
        except OSError:
            pass  # it has ended, or belongs to another user
    return found


def describe_process(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({state}, {words[:60].strip()})"


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# The files that a failed job keeps for hororun doctor: flight recorders, and notes of hororun about the end
# (flight_directory.cpp).
RECORD = re.compile(r"horo-\d+(/[0-9a-f]{16}(-\d+)?(/(rank\.\d+\.flight|stopped|ended))?)?")


def is_record(name):
    return RECORD.fullmatch(name) is not None


class JobFolder:
    """The folder of one job. A subclass implements processes() and left()."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # short: sockets are made below it
        self.notes = self.folder / "notes"
        return self

    def __exit__(self, *_):
        self.kill_all()
        rmtree(self.folder, ignore_errors=True)

    def left_after_grace(self, has_failed):
        deadline = time.monotonic() + GRACE_S
        while (left := self.left(has_failed)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def kill_all(self):
        for _ in range(100):
            pids = self.processes()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not pids:
                return
            time.sleep(0.05)


class Sandbox(JobFolder):
    """`with Sandbox() as sandbox:`; the end kills everything that still runs in it."""

    def __enter__(self):
        super().__enter__()
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.holder = None
        try:
            self.start_namespace()
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        super().__exit__()
        if self.holder is not None:
            self.holder.communicate()  # it ends when its input ends

    def start_namespace(self):
        """A mount namespace with a /dev/shm of its own, held by a process that ends with this one."""
        holder = subprocess.Popen([*NAMESPACE, "sh", "-c", "mount -t tmpfs chaos /dev/shm && echo ready && exec cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if holder.stdout.readline() != b"ready\n":
            holder.communicate()
            raise OSError("the kernel refuses a private /dev/shm (unshare --mount): run as root")
        self.holder = holder

    def wrap(self, command):
        return ["nsenter", "--target", str(self.holder.pid), "--mount",
                *([] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]), "--", *command]

    def environment(self):
        return {"TMPDIR": str(self.temporary)}

    def shared_memory(self):
        return files_below(Path(f"/proc/{self.holder.pid}/root/dev/shm"))

    def processes(self):
        """Also finds processes that changed their environment, session or parent, because none can leave the namespace."""
        namespace = os.readlink(f"/proc/{self.holder.pid}/ns/mnt")
        return [pid for pid in processes_in(namespace) if pid != self.holder.pid]

    # A socket is a file, or it ends with the processes that hold it.
    def left(self, has_failed=True):
        return [describe_process(pid) for pid in self.processes()] \
            + [f"/dev/shm/{name}" for name in self.shared_memory()] \
            + [f"$TMPDIR/{name}" for name in files_below(self.temporary) if not (has_failed and is_record(name))]
