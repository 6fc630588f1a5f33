"""Starts horo and its peers in separate short runs, and reads their results."""
import contextlib
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from peers.detection import HOROVOD, ONECCL
from peers.places import ThisMachine
from peers.summary import CALM_CORES, with_differences

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SOURCES = REPOSITORY / "examples/benchmarks"
END_SECONDS = 10  # time for a launcher to end its ranks after SIGTERM


class RunError(Exception):
    pass


def end(process):
    """Ends a process and its group. A launcher first receives SIGTERM, since a killed launcher cannot end its ranks."""
    for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, None)):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(seconds)


@contextlib.contextmanager
def interrupts_deferred():
    """Delays SIGINT and SIGTERM until the end of the block."""
    received = []
    handlers = {number: signal.signal(number, lambda number, _frame: received.append(number))
                for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


def run_together(commands, timeout):
    """Runs (command, environment) pairs at once and returns the first one's output.

    Raises RunError, with all of them ended, if one fails or they take longer than `timeout` seconds.
    """
    with contextlib.ExitStack() as stack:
        started = []
        deadline = time.monotonic() + timeout

        def problem(process, text):
            output = process.output
            output.seek(0)
            lines = [line.strip() for line in output.read().splitlines() if line.strip("- \t")]
            return RunError(f"{Path(process.args[0]).name} {text}" + (f": {lines[-1]}" if lines else ""))

        for command, environment in commands:
            output = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            with interrupts_deferred():  # An interrupt in between would leave the program running.
                try:
                    process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                               stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
                except OSError as error:
                    raise RunError(f"cannot start {command[0]}: {error.strerror}")
                process.output = output
                stack.callback(end, process)
                started.append(process)
        while any(process.poll() is None for process in started):
            for process in started:
                if process.poll():
                    raise problem(process, f"ended with exit code {process.poll()}")
            if time.monotonic() > deadline:
                raise problem(started[0], f"took more than {timeout} s")
            time.sleep(0.02)
        for process in started:
            if process.returncode:
                raise problem(process, f"ended with exit code {process.returncode}")
        started[0].output.seek(0)
        return started[0].output.read()


def busy_core_seconds():
    """The busy time of all cores since the start of the machine, including time that the host took from a virtual one."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _, _, irq, softirq, stolen = (int(word) for word in words[1:9])
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def own_core_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class ForeignLoad:
    """The number of cores that other programs have kept busy since the creation of this object."""

    def __init__(self):
        self.start = (time.monotonic(), busy_core_seconds(), own_core_seconds())

    def cores(self):
        seconds, busy, own = (now - then for now, then in
                              zip((time.monotonic(), busy_core_seconds(), own_core_seconds()), self.start))
        return max(0.0, (busy - own) / seconds)


def foreign_cores_during(seconds):
    """The number of cores that other programs keep busy in the next `seconds`, in which this process sleeps."""
    load = ForeignLoad()
    time.sleep(seconds)
    return load.cores()


def wait_for_calm(patience_seconds):
    """Waits until other programs leave the cores idle, at most `patience_seconds`."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        if foreign_cores_during(0.5) < CALM_CORES:
            return


def read_lines(output):
    """The times of a peer's program by key."""
    times = {}
    for line in output.splitlines():
        if line.startswith('{"way"'):
            entry = json.loads(line)
            times[str(entry["bytes"]) if entry["way"] == "allreduce" else entry["way"]] = entry["us"]
    if not times:
        raise RunError("the program printed no times")
    return with_differences(times)


def read_horo(report):
    """The times in a report of allreduce_bench or gradient_bench by key; keys with an arena begin with "arena"."""
    rows = {str(row["bytes"]): row for row in report["rows"]} if "rows" in report else {"": report}
    return {**{key: row["horo_us"]["median"] for key, row in rows.items()},
            **{f"arena{key}": row["horo_arena_us"]["median"] for key, row in rows.items()}}


class Runner:
    """Runs setups at a place (places.py). `folder` holds compiled programs and temporary files."""

    def __init__(self, peers, arguments, place, folder):
        self.peers = peers
        self.place = place
        self.bin = Path(arguments.bin)
        self.ranks = arguments.ranks
        self.repeats = str(arguments.repeats)
        self.timeout = arguments.timeout
        self.folder = Path(folder)

    def prepare(self, models):
        """Writes the models' tensors for the peers to read."""
        for model in models:
            command = [str(self.bin / "gradient_bench"), "--model", model, "--list-tensors"]
            self.tensors(model).write_text(run_together([(command, {})], self.timeout))

    def bytes_of(self, model):
        return 4 * sum(int(line) for line in self.tensors(model).read_text().split())

    def compile(self, key):
        """Compiles the MPI peer with the wrapper of this library."""
        peer = self.peers[key]
        library = f"peers/peer_library_{'oneccl' if key == ONECCL else 'mpi'}.cpp"
        sources = [str(SOURCES / name) for name in ("peers/allreduce_peer.cpp", library, "bench_timing.cpp")]
        run_together([([peer.compiler, "-std=c++20", "-O3", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", f"-I{REPOSITORY}", *sources,
                        *peer.compile_arguments, "-o", str(self.mpi_program(key))], peer.environment)], self.timeout)

    def tensors(self, model):
        return self.folder / f"{model}.tensors"

    def mpi_program(self, key):
        return self.folder / f"allreduce_peer.{key}"

    def probe(self):
        """The current memory rates, measured by horo's benchmark with at most one rank per core.

        With more ranks, the rate from core to core would include the time-slicing of ranks on a core.
        """
        ranks = max(2, min(self.ranks, len(os.sched_getaffinity(0))))
        reading = self.horo_report("allreduce_bench", "--max-mib", "0", place=ThisMachine(ranks))
        share = ranks / self.ranks  # of the memory rate, if more ranks share it
        return {**reading, "streaming_copy_gbps": reading["streaming_copy_gbps"] * share}

    def horo_report(self, program, *arguments, place=None, environment=()):
        path = self.folder / "report.json"
        path.unlink(missing_ok=True)
        words = [str(self.bin / program), "--alone", "--rounds", self.repeats, "--json", str(path), *arguments]
        run_together([(place or self.place).horo_job(str(self.bin / "hororun"), words, dict(environment))], self.timeout)
        return json.loads(path.read_text())

    def run(self, setup, case, sizes=()):
        """One run of a setup: {key: microseconds}. `sizes`: of allreduce."""
        sizes = [str(size) for size in sizes]
        if setup.peer == "horo":
            words = ["allreduce_bench", "--sizes", ",".join(sizes)] if case == "allreduce" else ["gradient_bench", "--model", case]
            return read_horo(self.horo_report(*words, environment=setup.environment))
        words = ["sizes", *sizes] if case == "allreduce" else ["tensors", str(self.tensors(case))]
        if setup.peer in ("gloo", "ddp"):
            return read_lines(self.run_torch(setup, ["ddp", words[1]] if setup.peer == "ddp" else words))
        if setup.peer == HOROVOD:
            program = [self.peers[HOROVOD].python, str(SOURCES / "peers/horovod_peer.py"), self.repeats, words[1]]
            return read_lines(self.run_mpi(setup, program))
        return read_lines(self.run_mpi(setup, [str(self.mpi_program(setup.peer)), self.repeats, *words]))

    def run_mpi(self, setup, program):
        return run_together([self.place.mpi_job(self.peers[setup.peer], setup.arguments, program, setup.environment)], self.timeout)

    def run_torch(self, setup, words):
        store = self.folder / "torch_store"
        store.unlink(missing_ok=True)
        command = [self.peers[setup.peer].python, str(SOURCES / "peers/torch_peer.py"), str(store), self.repeats,
                   *words]
        environment = {"WORLD_SIZE": str(self.ranks), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.place.interface}
        return run_together([self.place.process(rank, command, {**environment, "RANK": str(rank)})
                             for rank in range(self.ranks)], self.timeout)
