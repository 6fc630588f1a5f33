#!/usr/bin/env python3
"""Starts jobs that share their process, or their MPI, with others, and checks what comes out.

usage: living_test.py MPIRUN LIVING_JOB
"""
import os
import re
import shutil
import subprocess
import sys

LIMIT_S = 60
THREADS = r"refused: .*without MPI_THREAD_MULTIPLE.*call MPI_Init_thread\(\.\.\., MPI_THREAD_MULTIPLE"

# scenario: what each rank's output must show (a pattern, how often for each rank)
SCENARIOS = {
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


def check_late_init(mpirun, job, scenario, ranks):
    """The last rank comes to init() 8 s late: the others say where they wait, each once, and the job goes on."""
    code, output = run([mpirun, "-n", str(ranks), job, scenario], HORO_STALL_WARNING="3s", HORO_TIMEOUT="50s")
    problems = [] if code == 0 and output.count("joined") == ranks else [f"exit code {code}"]
    for rank in range(ranks):
        wanted = rf"rank {rank} \(host \S+, pid \d+\) has waited \S+ in horo::init\(\) for other ranks: .*have not called it"
        found = len(re.findall(wanted, output))
        if found != (0 if rank == ranks - 1 else 1):
            problems.append(f"rank {rank} has said {found} times that it waits")
    return report(f"{scenario} on {ranks} ranks", problems, output)


def check_never_init(mpirun, job):
    """The last rank never comes: the error at the deadline names init()."""
    code, output = run([mpirun, "-n", "2", job, "never_init"], HORO_STALL_WARNING="500ms", HORO_TIMEOUT="2s")
    problems = [] if code != 0 else ["it ended well"]
    for wanted in (r"rank 0 \(host \S+, pid \d+\) has waited \S+ in horo::init\(\)",
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
    mpirun, job = sys.argv[1:3]
    results = [check_scenario(mpirun, job, scenario, ranks) for scenario in SCENARIOS for ranks in (1, 2)
               if not (scenario == "init_after_failure" and ranks == 1)]
    results += [check_scenario(mpirun, job, scenario, 4) for scenario in ("finalize_first", "fork_return")]
    results += [check_late_init(mpirun, job, scenario, ranks)
                for scenario, ranks in (("late_init", 2), ("late_init", 3), ("late_init_own_mpi", 3))]
    results += [check_never_init(mpirun, job)]
    results += [check_other_launcher(job), check_variables(job), check_nested(mpirun, job)]
    print(f"{sum(results)} of {len(results)} as they should be")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
