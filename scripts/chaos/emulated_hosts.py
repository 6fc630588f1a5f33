"""Hosts with a network, /dev/shm and temporary folder of their own: network namespaces, which need root."""
import os
import sys
import threading
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "cluster"))
from lab import SCRIPT, Lab, LabUnavailable

from .sandbox import JobFolder, describe_process, files_below, is_record


class LabSandbox(JobFolder):
    """A job on the hosts of a lab. No other job runs there at the same time."""

    def __init__(self, lab):
        self.lab = lab

    def wrap(self, command):
        return [str(SCRIPT), "exec", "host0", *command]

    def environment(self):
        return {"CLUSTER_LAB": self.lab.environment["CLUSTER_LAB"]}

    def processes(self):
        return [pid for host in self.lab.names() for pid in self.lab.processes(host)]

    def files(self, has_failed=False):
        """(name for reports, path) of each file on the hosts of the job. Omits the records of a failed job."""
        for host in self.lab.names():
            for name in ("shm", "tmp"):
                folder = Path(f"/run/horo-cluster-lab/{self.lab.environment['CLUSTER_LAB']}/{host}/{name}")
                for file in files_below(folder):
                    if name == "shm" or not (has_failed and is_record(file)):
                        yield f"{host}:/{name}/{file}", folder / file

    def left(self, has_failed=True):
        return [describe_process(pid) for pid in self.processes()] + [name for name, _ in self.files(has_failed)]

    def __exit__(self, *_):
        super().__exit__()
        for _, path in sorted(self.files(), reverse=True):  # the contents of a folder before the folder
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


class LabOnDemand:
    """A lab that the first job starts and that runs one job at a time."""

    def __init__(self, hosts, rate):
        self.hosts = hosts
        self.rate = rate
        self.lock = threading.Lock()
        self.lab = None
        self.error_text = ""

    def run(self, work):
        """Returns work(sandbox), or None if this machine cannot have a lab."""
        with self.lock:
            if self.lab is None and not self.error_text:
                self.start()
            if self.lab is None:
                return None
            with LabSandbox(self.lab) as sandbox:
                return work(sandbox)

    def start(self):
        lab = Lab(self.hosts, self.rate, name=f"chaos-{os.getpid()}")
        try:
            self.lab = lab.__enter__()
        except LabUnavailable as error_text:
            self.error_text = str(error_text)

    def stop(self):
        if self.lab is not None:
            self.lab.__exit__()
