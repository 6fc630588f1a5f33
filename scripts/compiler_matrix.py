#!/usr/bin/env python3
"""Builds horo with several compilers, and programs with what each has built.

  scripts/compiler_matrix.py --compiler gcc-13,g++-13 --compiler clang-19,clang++-19

For each pair of a C and a C++ compiler: configures and builds the preset core (the library, the C interface and hororun) in BUILD/NAME
with warnings as errors, installs it there, compiles a program in C++20, one in C++17 and one in C99 with the installed headers and
libraries, also with warnings as errors, and runs each with hororun on 2 ranks. Prints a table. Exit code 1 if anything fails.

With --installed, horo is not built: the programs use the installation in PREFIX, of another compiler.

The builds need MPI, fmt, spdlog, Boost and zlib. To use the compilers of another system, run the script there, in a container or a chroot.
"""
import argparse
import dataclasses
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import command_line

REPOSITORY = Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-missing-field-initializers"]
# Warnings about names of one source file in another, or in a file that includes both: to save time, each build compiles several
# files as one.
UNITY_WARNINGS = "-Wno-error=shadow"
UNITY_WARNINGS_OF_GCC = "-Wno-error=subobject-linkage"


@dataclasses.dataclass
class Program:
    standard: str
    source: str
    library: str
    output: str  # a regular expression


PROGRAMS = [Program("C++20", "tests/install/consumer/sum_ranks.cpp", "horo", "rank 1 of 2: 3"),
            Program("C++17", "tests/install/consumer/sum_ranks_cxx17.cpp", "horo_c", "rank 1 of 2: 3"),
            Program("C99", "examples/c/linear_regression.c", "horo_c", "y = 3.00 x -1.00")]
CELLS = {True: "good", False: "FAILED", None: "not tried"}


def parse_compiler(text):
    pair = text.split(",")
    if len(pair) != 2 or not all(pair):
        raise argparse.ArgumentTypeError(f"'{text}' is not C,CXX, such as gcc-13,g++-13")
    for program in pair:
        if shutil.which(program) is None:
            raise argparse.ArgumentTypeError(f"there is no program {program}")
    return pair


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--compiler", type=parse_compiler, action="append", required=True, metavar="C,CXX", help="may be given several times")
    add("--build", type=Path, default=REPOSITORY / "build/compilers", metavar="BUILD", help="default: build/compilers")
    add("--installed", type=Path, metavar="PREFIX", help="of an installation with the component c")
    add("--jobs", type=command_line.count, default=2, metavar="N", help="of each build; default: 2")
    add("--flags", default="-O0", metavar="FLAGS", help="of the library, in place of those of a release; default: -O0")
    add("--timeout", type=command_line.seconds, default=60, metavar="SECONDS", help="for one program; default: 60")
    return parser.parse_args()


class Failed(Exception):
    """A step has failed; its text is the output."""


def run(command, timeout=None):
    """Returns the output of a command. Raises Failed if it fails."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY, timeout=timeout,
                              check=False, errors="replace")
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command)}: not complete after {timeout} s") from error
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class Build:
    def __init__(self, compiler, arguments):
        self.c, self.cxx = compiler
        self.arguments = arguments
        self.folder = (arguments.build / Path(self.cxx).name).resolve()
        self.prefix = (arguments.installed or self.folder / "prefix").resolve()
        self.version = run([self.cxx, "--version"]).splitlines()[0]

    def build_and_install(self):
        is_gcc = "Free Software Foundation" in run([self.cxx, "--version"])
        flags = f"{self.arguments.flags} {UNITY_WARNINGS} {UNITY_WARNINGS_OF_GCC if is_gcc else ''}"
        run(["cmake", "--preset", "core", "-B", self.folder, f"-DCMAKE_C_COMPILER={self.c}", f"-DCMAKE_CXX_COMPILER={self.cxx}",
             f"-DCMAKE_CXX_FLAGS_RELEASE={flags}", "-DHORO_WARNINGS_AS_ERRORS=ON", "-DCMAKE_UNITY_BUILD=ON",
             "-DCMAKE_INSTALL_LIBDIR=lib"])
        run(["cmake", "--build", self.folder, "--parallel", self.arguments.jobs, "--", "-k", 0])
        run(["cmake", "--install", self.folder, "--prefix", self.prefix])

    def compile_and_run(self, program):
        compiler = self.c if program.source.endswith(".c") else self.cxx
        executable = self.folder / Path(program.source).stem
        run([compiler, f"-std={program.standard.lower()}", *WARNINGS, program.source, "-o", executable, "-I", self.prefix / "include",
             "-L", self.prefix / "lib", f"-Wl,-rpath,{self.prefix / 'lib'}", f"-l{program.library}"])
        output = run([self.prefix / "bin/hororun", "-np", 2, executable], self.arguments.timeout)
        if not re.search(program.output, output):
            raise Failed(f"{executable} printed:\n{output}")

    def attempt(self, what, step):
        """Returns whether a step succeeds. Prints the output of one that fails."""
        start = time.monotonic()
        try:
            step()
        except Failed as error:
            print(f"{self.version}: {what} FAILED: {str(error)[-4000:]}", flush=True)
            return False
        print(f"{self.version}: {what}: {time.monotonic() - start:.0f} s", flush=True)
        return True

    def results(self):
        """Whether the build and each of the programs succeed. None: not tried."""
        if self.arguments.installed:
            self.folder.mkdir(parents=True, exist_ok=True)
        elif not self.attempt("build", self.build_and_install):
            return [False] + [None] * len(PROGRAMS)
        return [None if self.arguments.installed else True] + [self.attempt(program.standard, lambda program=program: self.compile_and_run(program)) for program in PROGRAMS]


def main():
    arguments = parse_arguments()
    rows = []
    for compiler in arguments.compiler:
        build = Build(compiler, arguments)
        rows.append((build.version, build.results()))
    print(f"\n| Compiler | core, C interface, hororun | {' | '.join(program.standard for program in PROGRAMS)} |")
    print("|---" * (len(PROGRAMS) + 2) + "|")
    for version, results in rows:
        cells = [CELLS[result] for result in results]
        print(f"| {version} | {' | '.join(cells)} |")
    sys.exit(1 if any(False in results for _, results in rows) else 0)


if __name__ == "__main__":
    main()
