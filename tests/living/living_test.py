#!/usr/bin/env python3
"""Starts jobs that share their process, or their MPI, with others, and checks what comes out.

usage: living_test.py MPIRUN LIVING_JOB
"""
import os
import re
import shutil
import subprocess
import sys
import time

LIMIT_S = 60
STUCK_EXIT_CODE = 75
THREADS = r"refused: .*without MPI_THREAD_MULTIPLE.*call MPI_Init_thread\(\.\.\., MPI_THREAD_MULTIPLE.*OMPI_MPI_THREAD_LEVEL=3"

# scenario: what each rank's output must show (a pattern, how often for each rank)
SCENARIOS = {
    "plain_init": [(THREADS, 1)],
    "single": [(THREADS, 1)],
    "funneled": [(THREADS, 1)],
    "serialized": [(THREADS, 1)],
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

# Variables of a launcher that this test itself may have been started by.
LAUNCHER = re.compile(r"(OMPI_|PMIX_|PMI_|HYDRA_|MPI_LOCAL)")


def environment(**extra):
    # A line of a job may show a variable: none of horo's own must be there.
    own = {name: value for name, value in os.environ.items()
           if not name.startswith("HORO_") and (not LAUNCHER.match(name) or name.startswith(("OMPI_MCA", "OMPI_ALLOW")))}
    return dict(own, **extra)


def run(command, **extra):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment(**extra), timeout=LIMIT_S)
    return done.returncode, done.stdout


def report(name, problems, output):
    print(f"{name}: {'ok' if not problems else 'PROBLEM: ' + '; '.join(problems)}", flush=True)
    if problems:
        print(output, flush=True)
    return not problems


def check_scenario(mpirun, job, scenario, ranks):
    code, output = run([mpirun, "-n", str(ranks), job, scenario])
    problems = [] if code == 0 else [f"exit code {code}"]
    for pattern, times in SCENARIOS[scenario]:
        found = len(re.findall(pattern, output))
        if found != times * ranks:
            problems.append(f"'{pattern}' was found {found} times")
    if "WRONG" in output:
        problems.append("a wrong sum")
    return report(f"{scenario} on {ranks} ranks", problems, output)


def init_lines(output):
    return re.findall(r"(\S.*) waited \S+ in horo::init\(\)(.*)", output)


def check_late_init(mpirun, job, scenario, ranks):
    """The last rank calls init() 8 s late: one of the others names it, and the job goes on."""
    code, output = run([mpirun, "-n", str(ranks), job, scenario], HORO_STALL_WARNING="3s", HORO_TIMEOUT="50s")
    problems = [] if code == 0 and output.count("joined") == ranks else [f"exit code {code}"]
    lines = init_lines(output)
    wanted = rf"for rank {ranks - 1}, which has not called it"
    if len(lines) != 1 or not re.search(wanted, lines[0][1]):
        problems.append(f"not one line with '{wanted}', but {lines}")
    return report(f"{scenario} on {ranks} ranks", problems, output)


def check_end_in_init(mpirun, job, scenario, ranks):
    """The last rank never joins while the others wait in MPI_Init: they end after HORO_TIMEOUT."""
    start = time.monotonic()
    code, output = run([mpirun, "-n", str(ranks), job, scenario], HORO_STALL_WARNING="500ms", HORO_TIMEOUT="4s")
    problems = [] if code == STUCK_EXIT_CODE else [f"exit code {code}"]
    last = rf"for rank {ranks - 1}, which has not called it"
    ends = [line for line in init_lines(output) if "HORO_TIMEOUT is 4s" in line[1] and re.search(last, line[1])]
    # Where mpirun takes long to end the others, another rank ends itself.
    if not ends or len(init_lines(output)) != 1 + len(ends):
        problems.append("not one line and then one that ends the job")
    print(f"ended after {time.monotonic() - start:.1f} s")
    return report(f"{scenario} on {ranks} ranks", problems, output)


def check_never_init(mpirun, job):
    """The last rank never calls init() in an MPI of the program: the error at the deadline names init()."""
    code, output = run([mpirun, "-n", "2", job, "never_init"], HORO_STALL_WARNING="500ms", HORO_TIMEOUT="2s")
    problems = [] if code != 0 else ["it ended well"]
    for wanted in (r"rank 0 \(host \S+, pid \d+\) has waited \S+ in horo::init\(\) for rank 1, which has not called it",
                   r"refused: waited \S+ in horo::init\(\) for ranks that have not called it.*\(HORO_TIMEOUT is 2s\)"):
        if not re.search(wanted, output):
            problems.append(f"'{wanted}' was not found")
    if "joined" in output:
        problems.append("a rank has joined")
    return report("never_init", problems, output)


def check_other_launcher(job):
    """A program for Open MPI, started by MPICH's mpirun."""
    mpirun = shutil.which("mpirun.mpich")
    if mpirun is None:
        print("mpirun.mpich: SKIPPED, it is not installed", flush=True)
        return True
    code, output = run([mpirun, "-n", "2", job, "init"])
    problems = [] if code != 0 else ["it was not refused"]
    wanted = r"one of 2 \(PMI_SIZE=2, by [^)]*(hydra|mpiexec|mpirun)[^)]*\).*knows of 1 process: Open MPI [^(]*\(.*libmpi"
    if len(re.findall(wanted, output)) != 2:
        problems.append("the refusal is not clear")
    return report("started by mpirun.mpich", problems, output)


def check_level_variable(mpirun, job):
    """The remedy that the error names for a program whose source is not at hand."""
    code, output = run([mpirun, "-n", "2", job, "plain_init"], OMPI_MPI_THREAD_LEVEL="3")
    problems = [] if code == 0 and output.count("allowed") == 2 else [f"exit code {code}"]
    return report("OMPI_MPI_THREAD_LEVEL=3", problems, output)


def check_other_library(job):
    """A process in which MPICH's library comes before Open MPI's: its handles are others."""
    mpirun, compiler = shutil.which("mpirun.mpich"), shutil.which("mpicc.mpich")
    if mpirun is None or compiler is None:
        print("MPICH's library: SKIPPED, MPICH is not installed", flush=True)
        return True
    folders = re.findall(r"-L(\S+)", run([compiler, "-show"])[1]) + ["/usr/lib", "/usr/lib/x86_64-linux-gnu"]
    library = next((path for path in (os.path.join(folder, "libmpich.so") for folder in folders)
                    if os.path.exists(path)), None)
    if library is None:
        print("MPICH's library: SKIPPED, libmpich.so was not found", flush=True)
        return True
    results = []
    for scenario in ("init", "multiple"):  # horo initialises MPI; the program does
        code, output = run([mpirun, "-n", "2", "env", f"LD_PRELOAD={library}", job, scenario])
        problems = [] if "Invalid communicator" not in output else ["a handle was used"]
        wanted = r"horo was built for Open MPI \S+, but the MPI library of this process is MPICH.*?libmpich"
        if len(re.findall(wanted, output)) != 2:
            problems.append(f"the refusal is not clear; exit code {code}")
        results.append(report(f"MPICH's library, {scenario}", problems, output))
    return all(results)


def check_other_name(mpirun, job, library):
    """MPI calls itself one of another family: the refusal comes before a handle is used."""
    code, output = run([mpirun, "-n", "2", "-x", f"LD_PRELOAD={library}", job, "multiple"])
    problems = [] if "Invalid communicator" not in output else ["a handle was used"]
    if output.count("but the MPI library of this process is MPICH Version: 4.0.2") != 2:
        problems.append(f"the refusal is not clear; exit code {code}")
    return report("another MPI's name", problems, output)


def check_openmp(mpirun, job):
    """Two ranks whose processes may use all cores: each gets a half, and as many threads."""
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        print("OpenMP: SKIPPED, it takes two cores", flush=True)
        return True
    results = []
    for variables, threads, processors in (({}, cores // 2, cores // 2),
                                           ({"OMP_NUM_THREADS": str(cores)}, cores, cores),
                                           ({"HORO_BIND": "none"}, cores, cores)):
        code, output = run(["env", "-u", "OMP_NUM_THREADS"] + [f"{n}={v}" for n, v in variables.items()]
                           + [mpirun, "-n", "2", "--bind-to", "none", job, "openmp"])
        problems = [] if code == 0 else [f"exit code {code}"]
        wanted = f"OpenMP has {threads} threads on {processors} processors"
        if output.count(wanted) != 2:
            problems.append(f"'{wanted}' was found {output.count(wanted)} times")
        results.append(report(f"OpenMP with {variables}", problems, output))
    return all(results)


def check_variables(job):
    """Sizes set by hand, as a process sees them that a launcher of another MPI has started."""
    code, output = run([job, "init"], PMI_SIZE="4", PMI_RANK="0")
    problems = [] if code == 1 and "one of 4 (PMI_SIZE=4" in output else [f"exit code {code}"]
    alone, text = run([job, "init"], PMI_SIZE="1", PMI_RANK="0")
    problems += [] if alone == 0 and "rank 0 of 1" in text else [f"PMI_SIZE=1 gave exit code {alone}"]
    step, warned = run([job, "init"], SLURM_STEP_NUM_TASKS="4", SLURM_STEP_ID="0")
    problems += [] if step == 0 and "srun started 4 tasks without MPI" in warned else ["srun's step"]
    return report("variables", problems, output + text + warned)


def check_nested(mpirun, job):
    """Ranks of MPICH that each start a job of Open MPI."""
    outer = shutil.which("mpirun.mpich")
    if outer is None:
        print("nested: SKIPPED, mpirun.mpich is not installed", flush=True)
        return True
    problems = []
    outputs = ""
    for ranks in (1, 2):
        code, output = run([outer, "-n", "2", mpirun, "-n", str(ranks), job, "init"])
        outputs += output
        if code != 0 or output.count(f"rank {ranks - 1} of {ranks}") != 2:
            problems.append(f"two jobs of {ranks}: exit code {code}")
    return report("nested", problems, outputs)


def main():
    mpirun, job, other_mpi = sys.argv[1:4]
    results = [check_scenario(mpirun, job, scenario, ranks) for scenario in SCENARIOS for ranks in (1, 2)
               if not (scenario == "init_after_failure" and ranks == 1)]
    results += [check_scenario(mpirun, job, scenario, 4) for scenario in ("finalize_first", "fork_return")]
    results += [check_late_init(mpirun, job, scenario, ranks)
                for scenario, ranks in (("late_init", 2), ("late_init", 8), ("late_init_own_mpi", 3))]
    results += [check_end_in_init(mpirun, job, scenario, ranks)
                for scenario, ranks in (("exit_before_init", 2), ("exit_before_init", 4), ("loop_before_init", 2))]
    results += [check_never_init(mpirun, job)]
    results += [check_level_variable(mpirun, job), check_other_library(job), check_other_name(mpirun, job, other_mpi), check_openmp(mpirun, job),
                check_other_launcher(job), check_variables(job), check_nested(mpirun, job)]
    print(f"{sum(results)} of {len(results)} as they should be")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
