#!/usr/bin/env python3
"""Starts jobs that share their process or their MPI with other software, and checks the results.

usage: living_test.py MPIRUN LIVING_JOB OTHER_MPI
       living_test.py --mpich MPIRUN LIVING_JOB

The second form runs Open MPI jobs under MPICH's launcher and with MPICH's library. It exits with code 77 if MPICH is
not installed.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checks import report, run_all

LIMIT_S = 60
STUCK_EXIT_CODE = 75
SKIPPED_EXIT_CODE = 77
WRONG_THREAD = r"refused: .*called by a thread that may not call MPI: call it on the thread that initialised MPI"

# Expected output by scenario: patterns, and how often each rank must print them.
SCENARIOS = {
    "plain_init": [(r"allowed", 1)],
    "single": [(r"allowed", 1)],
    "funneled": [(r"allowed", 1)],
    "serialized": [(r"allowed", 1)],
    "funneled_other_thread": [(WRONG_THREAD, 1)],
    "serialized_other_thread": [(r"allowed", 1)],
    "mixed_levels": [(r"allowed", 1)],
    "finalize_at_low_level": [(r"allowed", 1)],
    "own_bootstrap": [(r"allowed", 1), (r"refused: horo::init\(bootstrap\): allgather is empty", 1)],
    "multiple": [(r"allowed", 1)],
    "finalize_first": [(r"before horo is shut down", 1), (r"refused: .*(shut down|MPI_Finalize)", 3), (r"allowed", 1)],
    "finalize_of_horos_mpi": [(r"before horo is shut down", 1), (r"refused: .*(shut down|MPI_Finalize)", 1)],
    "finalize_after": [(r"refused: .*shut down", 1)],
    "second_init": [(r"refused: MPI has been finalised in this process", 1)],
    "two_contexts": [(r"the second goes on", 1)],
    "init_after_failure": [(r"refused: HORO_SPIN", 1), (r"refused: .*HORO_SERVERS=1 on rank 0", 1),
                           (r"the third goes on", 1)],
    "fork_exit": [(r"child ended with 0\b", 1)],
    "fork_return": [(r"child ended with 0\b", 1)],
}

# Variables of the launcher that may have started this test.
LAUNCHER = re.compile(r"(OMPI_|PMIX_|PMI_|HYDRA_|MPI_LOCAL)")


def environment(**extra):
    # The output of a job may contain settings, so the environment must not contain any HORO_ variable.
    own = {name: value for name, value in os.environ.items()
           if not name.startswith("HORO_") and (not LAUNCHER.match(name) or name.startswith(("OMPI_MCA", "OMPI_ALLOW")))}
    return dict(own, **extra)


def run(command, **extra):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment(**extra), timeout=LIMIT_S)
    return done.returncode, done.stdout


def check_scenario(mpirun, job, scenario, ranks):
    code, output = run([mpirun, "-n", str(ranks), job, scenario])
    problems = [] if code == 0 else [f"exit code {code}"]
    for pattern, times in SCENARIOS[scenario]:
        found = len(re.findall(pattern, output))
        if found != times * ranks:
            problems.append(f"'{pattern}' was found {found} times")
    if "WRONG" in output:
        problems.append("wrong sum")
    return report(f"{scenario} on {ranks} ranks", problems, output)


def init_lines(output):
    return re.findall(r"(\S.*) waited [^;]*? in horo::init\(\)(.*)", output)


def check_late_init(mpirun, job, scenario, ranks):
    """The last rank calls init() 8 s late. One of the other ranks must report it, and the job must continue."""
    code, output = run([mpirun, "-n", str(ranks), job, scenario], HORO_STALL_WARNING="3s", HORO_TIMEOUT="50s")
    problems = [] if code == 0 and output.count("joined") == ranks else [f"exit code {code}"]
    lines = init_lines(output)
    expected = rf"for rank {ranks - 1}, which has not called it"
    if len(lines) != 1 or not re.search(expected, lines[0][1]):
        problems.append(f"expected one line with '{expected}', got {lines}")
    return report(f"{scenario} on {ranks} ranks", problems, output)


def check_end_in_init(mpirun, job, scenario, ranks):
    """The last rank never joins while the others wait in MPI_Init. They must end after HORO_TIMEOUT."""
    start = time.monotonic()
    code, output = run([mpirun, "-n", str(ranks), job, scenario], HORO_STALL_WARNING="500ms", HORO_TIMEOUT="4s")
    problems = [] if code == STUCK_EXIT_CODE else [f"exit code {code}"]
    last = rf"for rank {ranks - 1}, which has not called it"
    ends = [line for line in init_lines(output) if "HORO_TIMEOUT is 4 s" in line[1] and re.search(last, line[1])]
    # If mpirun ends the other ranks slowly, another rank may also end itself.
    if not ends or len(init_lines(output)) != 1 + len(ends):
        problems.append("expected one warning and then one line that ends the job")
    return report(f"{scenario} on {ranks} ranks, ended after {time.monotonic() - start:.1f} s", problems, output)


def check_never_init(mpirun, job):
    """The last rank never calls init(), and the program has initialised MPI. The timeout error must name init()."""
    code, output = run([mpirun, "-n", "2", job, "never_init"], HORO_STALL_WARNING="500ms", HORO_TIMEOUT="2s")
    problems = [] if code != 0 else ["the job succeeded"]
    for expected in (
            r"rank 0 \(host \S+, pid \d+\) has waited [^;]*? in horo::init\(\) for rank 1, which has not called it",
            r"refused: waited [^;]*? in horo::init\(\) for ranks that have not called it.*\(HORO_TIMEOUT is 2 s\)"):
        if not re.search(expected, output):
            problems.append(f"'{expected}' was not found")
    if "joined" in output:
        problems.append("a rank has joined")
    return report("never_init", problems, output)


def check_other_launcher(mpich, job):
    """MPICH's mpirun starts a program that is built for Open MPI."""
    code, output = run([mpich, "-n", "2", job, "init"])
    problems = [] if code != 0 else ["horo did not reject it"]
    expected = r"one of 2 \(PMI_SIZE=2, by [^)]*(hydra|mpiexec|mpirun)[^)]*\).*reports 1 process: Open MPI [^(]*\(.*libmpi"
    if len(re.findall(expected, output)) != 2:
        problems.append("the error message was not found")
    return report("started by mpirun.mpich", problems, output)


def check_level_variable(mpirun, job):
    """A program that calls MPI_Init gets MPI_THREAD_MULTIPLE."""
    code, output = run([mpirun, "-n", "2", job, "plain_init"], OMPI_MPI_THREAD_LEVEL="3")
    problems = [] if code == 0 and output.count("allowed") == 2 else [f"exit code {code}"]
    return report("OMPI_MPI_THREAD_LEVEL=3", problems, output)


def check_spawned(mpirun, job, ranks):
    """Each parent and each of the two children joins a job of all, and a job of its own group."""
    code, output = run([mpirun, "-n", str(ranks), job, "spawn"])
    problems = [] if code == 0 and "WRONG" not in output else [f"exit code {code}"]
    if output.count("allowed") != 2 * (ranks + 2):
        problems.append(f"{output.count('allowed')} jobs")
    return report(f"{ranks} ranks that spawn two", problems, output)


def check_messages(mpirun, job):
    """HORO_MESSAGES selects what carries messages, and must be the same on all ranks."""
    results = []
    differ = [mpirun, "-n", "1", "-x", "HORO_MESSAGES=mpi", job, "multiple", ":", "-n", "1", job, "multiple"]
    for name, command, setting, expected in (
            ("sockets", [mpirun, "-n", "2", job, "multiple"], "sockets", r"allowed"),
            ("mpi", [mpirun, "-n", "2", job, "multiple"], "mpi", r"allowed"),
            ("mpi at a low level", [mpirun, "-n", "2", job, "plain_init"], "mpi",
             r"refused: HORO_MESSAGES=mpi needs MPI_THREAD_MULTIPLE, and rank 0 initialised"),
            ("different values", differ, None,
             r"refused: .*HORO_MESSAGES=mpi on rank 0, HORO_MESSAGES=auto on rank 1; pass the same")):
        code, output = run(command, **({} if setting is None else {"HORO_MESSAGES": setting}))
        problems = [] if code == 0 else [f"exit code {code}"]
        if len(re.findall(expected, output)) != 2:
            problems.append(f"'{expected}' was not found twice")
        results.append(report(f"HORO_MESSAGES: {name}", problems, output))
    return all(results)


def check_other_library(mpich, library, job):
    """MPICH's library is loaded before Open MPI's. Its handles have another type and must not be used."""
    results = []
    for scenario in ("init", "multiple"):  # horo initialises MPI; the program does
        code, output = run([mpich, "-n", "2", "env", f"LD_PRELOAD={library}", job, scenario])
        problems = [] if "Invalid communicator" not in output else ["horo used a handle"]
        expected = r"horo was built for Open MPI \S+, but the MPI library of this process is MPICH.*?libmpich"
        if len(re.findall(expected, output)) != 2:
            problems.append(f"the error message was not found; exit code {code}")
        results.append(report(f"MPICH's library, {scenario}", problems, output))
    return all(results)


def check_other_name(mpirun, job, library):
    """The MPI library reports the name of another family. horo must reject it before it uses a handle."""
    code, output = run([mpirun, "-n", "2", "-x", f"LD_PRELOAD={library}", job, "multiple"])
    problems = [] if "Invalid communicator" not in output else ["horo used a handle"]
    expected = r"the MPI library of this process is MPICH Version: 4\.0\.2.*: link the program with the MPI that horo was built"
    if len(re.findall(expected, output)) != 2:
        problems.append(f"the error message was not found; exit code {code}")
    return report("other MPI family", problems, output)


def check_other_version(mpirun, job, library):
    """The MPI library is another major version of the family. horo must warn once and run."""
    code, output = run([mpirun, "-n", "2", "-x", f"LD_PRELOAD={library}", "-x", "TEST_MPI_VERSION=Open MPI v99.1.0, package: x",
                        job, "multiple"])
    problems = [] if code == 0 else [f"exit code {code}"]
    if output.count("and the MPI library of this process is Open MPI v99.1.0 (") != 1:
        problems.append("there is not exactly one warning")
    return report("other Open MPI version", problems, output)


def check_openmp(mpirun, job):
    """Two ranks may use all cores. Each must be bound to one half and get as many OpenMP threads."""
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        print("OpenMP: SKIPPED, needs two cores", flush=True)
        return True
    results = []
    for variables, threads, processors in (({}, cores // 2, cores // 2),
                                           ({"OMP_NUM_THREADS": str(cores)}, cores, cores),
                                           ({"HORO_BIND": "none"}, cores, cores)):
        code, output = run(["env", "-u", "OMP_NUM_THREADS"] + [f"{n}={v}" for n, v in variables.items()]
                           + [mpirun, "-n", "2", "--bind-to", "none", job, "openmp"])
        problems = [] if code == 0 else [f"exit code {code}"]
        expected = f"OpenMP has {threads} threads on {processors} processors"
        if output.count(expected) != 2:
            problems.append(f"'{expected}' was found {output.count(expected)} times")
        results.append(report(f"OpenMP with {variables}", problems, output))
    return all(results)


def check_variables(job):
    """Sets the job size variables of other launchers by hand."""
    code, output = run([job, "init"], PMI_SIZE="4", PMI_RANK="0")
    problems = [] if code == 1 and "one of 4 (PMI_SIZE=4" in output else [f"exit code {code}"]
    alone, text = run([job, "init"], PMI_SIZE="1", PMI_RANK="0")
    problems += [] if alone == 0 and "rank 0 of 1" in text else [f"PMI_SIZE=1 gave exit code {alone}"]
    step, warned = run([job, "init"], SLURM_STEP_NUM_TASKS="4", SLURM_STEP_ID="0")
    problems += [] if step == 0 and "srun started 4 tasks without MPI" in warned else ["srun's step"]
    return report("variables", problems, output + text + warned)


def check_nested(mpich, mpirun, job):
    """Each rank of an MPICH job starts an Open MPI job."""
    problems = []
    outputs = ""
    for ranks in (1, 2):
        code, output = run([mpich, "-n", "2", mpirun, "-n", str(ranks), job, "init"])
        outputs += output
        if code != 0 or output.count(f"rank {ranks - 1} of {ranks}") != 2:
            problems.append(f"two jobs of {ranks}: exit code {code}")
    return report("nested", problems, outputs)


def checks_with_mpich(mpirun, job):
    mpich = shutil.which("mpirun.mpich")
    library = next(iter(sorted(glob.glob("/usr/lib/*/libmpich.so*"))), None)
    if mpich is None or library is None:
        print("SKIPPED: MPICH is not installed (Debian's package mpich)")
        return None
    return [partial(check_other_launcher, mpich, job), partial(check_other_library, mpich, library, job),
            partial(check_nested, mpich, mpirun, job)]


def checks_with_open_mpi(mpirun, job, other_mpi):
    checks = [partial(check_scenario, mpirun, job, scenario, ranks) for scenario in SCENARIOS for ranks in (1, 2)
              if not (scenario == "init_after_failure" and ranks == 1)]
    checks += [partial(check_scenario, mpirun, job, scenario, 4) for scenario in ("finalize_first", "fork_return")]
    checks += [partial(check_late_init, mpirun, job, scenario, ranks)
               for scenario, ranks in (("late_init", 2), ("late_init", 8), ("late_init_own_mpi", 3))]
    checks += [partial(check_end_in_init, mpirun, job, scenario, ranks)
               for scenario, ranks in (("exit_before_init", 2), ("exit_before_init", 4), ("loop_before_init", 2))]
    checks += [partial(check_never_init, mpirun, job), partial(check_level_variable, mpirun, job),
               partial(check_messages, mpirun, job), *(partial(check_spawned, mpirun, job, ranks) for ranks in (1, 2)),
               partial(check_other_name, mpirun, job, other_mpi), partial(check_other_version, mpirun, job, other_mpi),
               partial(check_openmp, mpirun, job),
               partial(check_variables, job)]
    return checks


def main():
    checks = checks_with_mpich(*sys.argv[2:]) if sys.argv[1] == "--mpich" else checks_with_open_mpi(*sys.argv[1:])
    return SKIPPED_EXIT_CODE if checks is None else run_all(checks)


if __name__ == "__main__":
    sys.exit(main())
