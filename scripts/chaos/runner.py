"""Runs the job of one round."""
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .expectations import TIMEOUT_S, WARNING_S, expectation_of
from .judge import Outcome

START_LIMIT_S = 90  # until the fault happens, on a busy machine
USER_PATIENCE_S = 4  # until the user stops a job that does not end by itself
MORE_S = 5  # beyond the limit, until the runner kills the job
STEPS = 6
FORWARDED = ("HORO_TIMEOUT", "HORO_STALL_WARNING", "OMP_NUM_THREADS")  # by mpirun, to other hosts


@dataclass(frozen=True)
class Programs:
    hororun: Path
    job: Path

    @staticmethod
    def of(build):
        programs = Programs(build / "bin" / "hororun", build / "tests" / "chaos_job")
        for program in (programs.hororun, programs.job):
            if not program.exists():
                raise FileNotFoundError(f"{program} is not there; build the targets hororun and chaos_job")
        return programs


def job_words(programs, scenario, notes):
    return [str(programs.job), scenario.fault, scenario.place, ",".join(map(str, scenario.victims)),
            str(scenario.lag_ms), str(scenario.delay_ms), str(STEPS), str(notes)]


def mpi_command(programs, scenario, hosts, words, mpirun_words=()):
    """`hosts`: "host0:2,host1:1", or empty for this machine. `mpirun_words`: options of plain mpirun."""
    if scenario.launcher == "hororun":
        return [str(programs.hororun), "-np", str(scenario.ranks), *(["-H", hosts] if hosts else []), *words]
    forwarded = [word for name in FORWARDED for word in ("-x", name)]
    return ["mpirun", *mpirun_words, "-np", str(scenario.ranks), "--oversubscribe", "--bind-to", "none",
            *(["--host", hosts, *forwarded] if hosts else []), *words]


def host_list(scenario):
    """"host0:2,host1:1" in a lab, otherwise empty."""
    if scenario.hosts != "lab":
        return ""
    counts = [min(scenario.per_node, scenario.ranks - first) for first in range(0, scenario.ranks, scenario.per_node)]
    return ",".join(f"host{i}:{count}" for i, count in enumerate(counts))


def job_environment():
    own = {name: value for name, value in os.environ.items() if not name.startswith("HORO_")}
    return dict(own, HORO_TIMEOUT=f"{TIMEOUT_S}s", HORO_STALL_WARNING=f"{WARNING_S}s", OMP_NUM_THREADS="1",
                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def faults_in(notes):
    """(rank, where, time in seconds), in order of time."""
    try:
        lines = notes.read_text().splitlines()
    except OSError:
        return []
    found = [line.split() for line in lines if line.startswith("fault ")]
    return sorted(((int(rank), where, int(at) * 1e-9) for _, rank, where, at in found), key=lambda fault: fault[2])


def first_start_in(notes):
    """When the first rank started, in seconds; None if no rank has."""
    try:
        lines = notes.read_text().splitlines()
    except OSError:
        return None
    return min((int(line.split()[3]) * 1e-9 for line in lines if line.startswith("start ")), default=None)


class Watch:
    """Waits for the end of a job. After its time limit, stops it like a user with SIGTERM, or kills it."""

    def __init__(self, process, notes, expectation):
        self.process = process
        self.notes = notes
        self.expectation = expectation
        self.start = time.monotonic()
        self.is_stopped = False

    def wait(self):
        """(was killed, seconds since the first fault or the start)."""
        while self.process.poll() is None:
            now = time.monotonic()
            injected = faults_in(self.notes)
            begin = injected[0][2] if injected else self.start
            limit = self.expectation.limit_s + MORE_S if injected else START_LIMIT_S
            if injected and self.expectation.is_stopped_by_user and not self.is_stopped \
                    and now > begin + USER_PATIENCE_S:
                self.process.send_signal(signal.SIGTERM)
                self.is_stopped = True
            if now > begin + limit:
                return True, now - begin
            time.sleep(0.03)
        injected = faults_in(self.notes)
        return False, time.monotonic() - (injected[0][2] if injected else self.start)


def run(programs, scenario, sandbox):
    """Runs the job of `scenario` in `sandbox` to its end."""
    environment = dict(job_environment(), **sandbox.environment())
    if scenario.hosts == "pretended":
        environment["HORO_RANKS_PER_NODE"] = str(scenario.per_node)
    command = mpi_command(programs, scenario, host_list(scenario), job_words(programs, scenario, sandbox.notes))
    with open(sandbox.folder / "output", "wb") as output:
        process = subprocess.Popen(sandbox.wrap(command),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env=environment, start_new_session=True, cwd=sandbox.folder)
    was_killed, seconds = Watch(process, sandbox.notes, expectation_of(scenario)).wait()
    end, start = time.monotonic(), first_start_in(sandbox.notes)
    left, code, text = close(process, sandbox, was_killed)
    return Outcome(code, text, seconds, was_killed, faults_in(sandbox.notes), left,
                   end - start if start is not None else 0)


def close(process, sandbox, is_hung):
    """Kills the job if it has not ended. Returns (leftovers, exit code, output)."""
    if not is_hung:
        code = process.wait()
        left = sandbox.left_after_grace(has_failed=code != 0)
        return left, code, (sandbox.folder / "output").read_text(errors="replace")
    running = "".join(f"chaos: still there: {thing}\n" for thing in sandbox.left())
    sandbox.kill_all()
    process.kill()
    code = process.wait()
    return [], code, (sandbox.folder / "output").read_text(errors="replace") + running
