"""A private TMPDIR and /dev/shm for one job, so that what it leaves is told from what other jobs have."""
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from shutil import rmtree

GRACE_S = 5  # for processes that are just ending
NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


def processes_with(mark):
    """The processes, other than zombies, that have `mark` in their environment or command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes() or mark in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass  # it has ended, or belongs to another user
    return [pid for pid in found if pid != os.getpid()]


def describe_process(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({state}, {words[:60].strip()})"


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def is_record(name):
    """Flight recorders of a failed job are kept for hororun doctor."""
    return name.split("/")[0] == f"horo-{os.geteuid()}"


class JobFolder:
    """The folder of one job, which everything that the job starts has in its command line or environment."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # short: sockets are made below it
        self.notes = self.folder / "notes"
        return self

    def __exit__(self, *_):
        self.kill_all()
        rmtree(self.folder, ignore_errors=True)

    def processes(self):
        return processes_with(str(self.folder).encode())

    def left_after_grace(self):
        deadline = time.monotonic() + GRACE_S
        while (left := self.left()) and time.monotonic() < deadline:
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
    """`with Sandbox() as sandbox:`; everything that still runs in it is killed at the end."""

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
            self.holder.communicate()  # the end of its input ends it

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

    def sockets(self):
        """Names of Unix sockets, abstract ones too."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        return [line.split()[-1] for line in lines if str(self.folder) in line]

    def left(self):
        return [describe_process(pid) for pid in self.processes()] \
            + [f"/dev/shm/{name}" for name in self.shared_memory()] \
            + [f"socket {name}" for name in self.sockets()] \
            + [f"$TMPDIR/{name}" for name in files_below(self.temporary) if not is_record(name)]
