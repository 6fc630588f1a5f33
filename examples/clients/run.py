#!/usr/bin/env python3
"""Makes three programs of other projects data-parallel with horo, and compares their losses with those of the original.

  examples/clients/run.py --horo $HOME/horo fann examl
  examples/clients/run.py --horo $HOME/horo --python venv/bin/python libtorch

The sources come from source packages of Debian, through apt-get and the system's own list of servers. Each program is built twice:
as it is, and with its patch of this folder. The original runs on one rank, the patched one on 1, 2 and 4 ranks. Exit code 1 if
losses differ by more than the rounding of sums in another order; 77 if a program was skipped because something is absent.
"""
import argparse
import gzip
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import command_line  # noqa: E402

SKIPPED = 77


class Absent(Exception):
    """Something that a program needs is not there."""


class Failure(Exception):
    """A command failed, or losses differ."""


def run(command, folder, action, seconds=900, **environment):
    """Runs a command to its end and returns its output."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=folder, env={**os.environ, **environment}, timeout=seconds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{action}: not complete after {error.timeout} s") from error
    if done.returncode != 0:
        log = Path(folder) / "failed.log"
        log.write_text(done.stdout)
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise Failure(f"{action} failed: {last} (all output: {log})")
    return done.stdout


def need(program, package):
    if shutil.which(program) is None:
        raise Absent(f"there is no {program}; install the package {package}")


class Apt:
    """Fetches packages with apt-get. Lists and packages are kept in `folder`; the system's are not changed."""

    def __init__(self, folder):
        self.folder = folder
        self.lists_are_new = False

    def apt_get(self, *words):
        state = self.folder / "state"
        options = {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": state / "sources", "Dir::State::Lists": state / "lists",
                   "Dir::Cache": state / "cache", "APT::Sandbox::User": "root", "Acquire::Languages": "none"}
        settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return run(["apt-get", "-qq", *settings, *words], self.folder, "apt-get " + " ".join(words), seconds=300)

    def make_lists(self):
        """Lists the source packages of the servers that the system has for its packages."""
        state = self.folder / "state"
        for name in ("sources", "lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True, exist_ok=True)
        system = Path("/etc/apt")
        for file in [system / "sources.list", *(system / "sources.list.d").glob("*")]:
            if file.suffix == ".list" and file.is_file():
                text = re.sub(r"^deb(?=\s)", "deb-src", file.read_text(), flags=re.MULTILINE)
            elif file.suffix == ".sources":
                text = re.sub(r"^Types:.*$", "Types: deb-src", file.read_text(), flags=re.MULTILINE)
            else:
                continue
            (state / "sources" / file.name).write_text(text)
        self.apt_get("update")
        self.lists_are_new = True

    def source(self, package):
        """Returns the archive of the upstream sources of a package."""
        found = sorted(self.folder.glob(f"{package}_*.orig.tar.*"))
        if not found:
            need("apt-get", "apt")
            try:
                if not self.lists_are_new:
                    self.make_lists()
                self.apt_get("source", "--download-only", "--tar-only", package)
            except Failure as error:
                raise Absent(f"no package server has the sources of {package}, or none answers: {error}") from error
            found = sorted(self.folder.glob(f"{package}_*.orig.tar.*"))
        return found[-1]

    def files_of(self, package):
        """Returns a folder with the files of a binary package, which need not be installed."""
        folder = self.folder / package
        if not folder.exists():
            need("dpkg-deb", "dpkg")
            try:
                run(["apt-get", "-qq", "download", package], self.folder, f"apt-get download {package}", seconds=300)
            except Failure as error:
                raise Absent(f"{error}; run apt-get update") from error
            run(["dpkg-deb", "-x", *sorted(self.folder.glob(f"{package}_*.deb")), folder], self.folder, f"unpacking {package}")
        return folder


class Program:
    """A program of another project. Classes below say how to build and to run it."""

    package, version, members = "", "", []
    preparation, patch = None, ""  # `preparation` is applied to the original, too
    tolerance = 0.0                # of the losses, relative

    def __init__(self, arguments, apt):
        self.arguments, self.apt = arguments, apt
        self.folder = arguments.work / type(self).__name__.lower()

    def require(self):
        """Throws Absent if the machine lacks something."""

    def build(self, source):
        """Builds in a folder of sources."""

    def command(self, source):
        """Returns the command of one rank, its folder, and its environment."""

    def losses(self, output):
        """Returns the losses that a run has printed."""

    def unpack(self, name, patches):
        """Unpacks the sources and applies patches."""
        archive = self.apt.source(self.package)
        version = re.sub(rf"{re.escape(self.package)}_(.*?)\.orig.*", r"\1", archive.name)
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted = [f"*/{member}" for member in self.members]
        run(["tar", "-xf", archive, "-C", folder, "--strip-components=1", "--wildcards", *wanted], self.folder, f"unpacking {archive.name}")
        for file in patches:
            run(["patch", "-p1", "--fuzz=0", "-i", HERE / file], folder, f"{file}, which is for {self.package} {self.version}, on version {version}")
        return folder

    def time_of(self, name, words, folder, environment):
        """Returns the losses of a run and its seconds."""
        start = time.monotonic()
        output = run(words, folder, name, OMP_NUM_THREADS="1", **environment)
        seconds = time.monotonic() - start
        losses = self.losses(output)
        if not losses:
            raise Failure(f"{name} printed no losses")
        return losses, seconds

    def compare(self):
        need("patch", "patch")
        self.require()
        preparation = [self.preparation] if self.preparation else []
        original = self.unpack("original", preparation)
        patched = self.unpack("patched", [*preparation, self.patch])
        start = time.monotonic()
        for source in (original, patched):
            self.build(source)
        added, removed = lines_of(HERE / self.patch)
        title = type(self).__name__.lower()
        print(f"{title}: {self.package} {self.version}: {added} lines added, {removed} removed; built twice in {time.monotonic() - start:.0f} s",
              flush=True)

        expected, seconds = self.time_of(f"{title}, the original", *self.command(original))
        print(f"  original  {len(expected)} losses, {expected[0]:.8g} to {expected[-1]:.8g}, {seconds:.1f} s", flush=True)
        hororun = self.arguments.horo / "bin" / "hororun"
        for ranks in self.arguments.ranks:
            words, folder, environment = self.command(patched)
            name = f"{title} on {command_line.counted(ranks, 'rank')}"
            losses, seconds = self.time_of(name, [hororun, "-np", ranks, *words], folder, environment)
            difference = greatest_difference(expected, losses, name)
            print(f"  {command_line.counted(ranks, 'rank'):8}  greatest relative difference {difference:.1e}, {seconds:.1f} s", flush=True)
            if difference > self.tolerance:
                raise Failure(f"{name}: losses differ by {difference:.1e}, more than {self.tolerance:.0e}")


class Fann(Program):
    """A C library of neural networks and its example for a data set of mushrooms."""

    package, version, members = "libfann", "2.2.0+ds", ["src", "examples/mushroom.c", "datasets/mushroom.*"]
    preparation, patch, tolerance = "fann_losses.patch", "fann.patch", 1e-3

    def require(self):
        need("gcc", "gcc")
        need("pkg-config", "pkg-config")

    def build(self, source):
        (source / "config.h").touch()
        flags = horo_flags(self.arguments) if source.name == "patched" else []
        run(["gcc", "-O2", "-w", "-DFANN_NO_SEED", "-I.", "-Isrc/include", "src/floatfann.c", "examples/mushroom.c", "-o", "examples/mushroom",
             *flags, "-lm"], source, "compiling FANN")

    def command(self, source):
        return ["./mushroom"], source / "examples", {}

    def losses(self, output):
        return [float(loss) for loss in re.findall(r"Current error: (\d+\.\d+)", output)]


class ExaML(Program):
    """Finds a phylogenetic tree of great likelihood. An MPI program: each rank has a part of the columns of the alignment."""

    package, version, members = "examl", "3.0.22", ["examl", "parser", "testData", "versionHeader"]
    patch, tolerance = "examl.patch", 1e-9

    def require(self):
        need("mpicc", "libopenmpi-dev")
        need("make", "make")
        need("pkg-config", "pkg-config")

    def build(self, source):
        flags = horo_flags(self.arguments) if source.name == "patched" else []
        makefile = ["make", "-j2", "-f", "Makefile.SSE3.gcc"]
        run([*makefile, "examl"], source / "examl", "compiling ExaML", CFLAGS="-w " + " ".join(f for f in flags if f.startswith("-I")),
            LDFLAGS=" ".join(flags))
        run([*makefile, "parse-examl"], source / "parser", "compiling the parser of ExaML", CFLAGS="-w")
        run(["parser/parse-examl", "-s", "testData/49", "-m", "DNA", "-n", "49"], source, "converting the alignment")

    def command(self, source):
        for file in source.glob("ExaML_*"):
            file.unlink()
        # The search for a tree sums 470,000 times, one that only optimizes the lengths of the branches and the model 44,000 times.
        task = ["-f", "E"] if self.arguments.short else ["-f", "d", "-e", "1.0", "-i", "2"]
        words = ["examl/examl", "-s", "49.binary", "-t", "testData/49.tree", "-m", "GAMMA", "-n", "run", *task]
        return words, source, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def losses(self, output):
        if self.arguments.short:
            return [float(likelihood) for likelihood in re.findall(r"Likelihood tree \d+: (-[0-9.]+)", output)]
        log = re.search(r"Execution Log File written to: +(\S+)", output)
        return [float(line.split()[1]) for line in Path(log[1]).read_text().splitlines()] if log else []


class LibTorch(Program):
    """The training of a network with batch normalization, of PyTorch's own tests of its C++ interface."""

    package, version = "pytorch", "1.13.1+dfsg"
    members = ["test/cpp/api/integration.cpp", "test/cpp/api/support.h", "test/cpp/common/support.h"]
    preparation, patch, tolerance = "libtorch_losses.patch", "libtorch.patch", 1e-3

    def require(self):
        need("cmake", "cmake")
        try:
            code = "import torch; print(torch.utils.cmake_prefix_path)"
            self.libtorch = run([self.arguments.python, "-c", code], ".", f"{self.arguments.python} -c 'import torch'").strip()
        except (Failure, OSError) as error:
            raise Absent(f"{self.arguments.python} has no torch; give --python") from error
        if not list(self.arguments.horo.glob("lib*/**/libhoro_torch.a")):
            raise Absent(f"{self.arguments.horo} has no libhoro_torch.a: this horo was built without libtorch")

    def build(self, source):
        build = source / "build"
        run(["cmake", "-S", HERE / "libtorch", "-B", build, f"-DSOURCES={source}", f"-DCMAKE_PREFIX_PATH={self.libtorch};{self.arguments.horo}",
             "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"], source, "configuring the program of libtorch")
        run(["cmake", "--build", build], source, "compiling the program of libtorch")
        for file in (self.apt.files_of("dataset-fashion-mnist") / "usr/share/datasets/fashion-mnist").glob("*.gz"):
            (self.folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))

    def command(self, source):
        words = [source / "build/integration", "--gtest_filter=*MNISTBatchNorm*"]
        return words, source, {"TORCH_CPP_TEST_MNIST_PATH": str(self.folder), "STEPS": "20" if self.arguments.short else "100"}

    def losses(self, output):
        return [float(loss) for loss in re.findall(r"^step \d+ loss ([0-9.e+-]+)", output, re.MULTILINE)]


PROGRAMS = {program.__name__.lower(): program for program in (Fann, ExaML, LibTorch)}


def horo_flags(arguments):
    """What a C program needs to compile and to link with horo."""
    folders = [str(file.parent) for file in arguments.horo.glob("lib*/**/horo_c.pc")]
    output = run(["pkg-config", "--cflags", "--libs", "horo_c"], ".", "pkg-config horo_c", PKG_CONFIG_PATH=":".join(folders))
    return output.split()


def lines_of(patch):
    """The lines that a patch adds and removes, without empty ones."""
    lines = patch.read_text(encoding="latin-1").splitlines()
    added = [line for line in lines if re.match(r"\+(?!\+\+ ).*\S", line)]
    removed = [line for line in lines if re.match(r"-(?!-- ).*\S", line)]
    return len(added), len(removed)


def greatest_difference(expected, losses, name):
    """The greatest relative difference between two lists of losses."""
    if len(losses) != len(expected):
        raise Failure(f"{name} printed {len(losses)} losses, the original {len(expected)}")
    for number, loss in enumerate(losses, start=1):
        if math.isnan(loss):
            raise Failure(f"loss {number} of {name} is nan")
    return max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(expected, losses))


def rank_counts(text):
    return [command_line.whole_number(1, command_line.MOST_RANKS)(word) for word in text.split(",")]


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(PROGRAMS)}; default: all")
    add("--horo", type=Path, required=True, metavar="PREFIX", help="an installation of horo")
    add("--python", default="python3", metavar="PYTHON", help="an interpreter with torch, for libtorch; default: python3")
    add("--ranks", type=rank_counts, default=[1, 2, 4], metavar="N,N...", help="default: 1,2,4")
    add("--short", action="store_true", help="fewer steps")
    add("--work", type=Path, default=Path("build/clients"), metavar="DIR", help="sources and programs; default: build/clients")
    arguments = parser.parse_args()
    arguments.programs = arguments.programs or list(PROGRAMS)
    for name in arguments.programs:
        if name not in PROGRAMS:
            parser.error(f"there is no program '{name}'; the programs are {', '.join(PROGRAMS)}")
    parser.require_programs(arguments.horo / "bin", ["hororun"], "install horo there")
    arguments.horo, arguments.work = arguments.horo.resolve(), arguments.work.resolve()
    parser.make_out(arguments.work)
    return arguments


def main():
    arguments = parse_arguments()
    apt = Apt(arguments.work)
    code = 0
    for name in arguments.programs:
        try:
            PROGRAMS[name](arguments, apt).compare()
        except Absent as absent:
            print(f"SKIPPED: {name}: {absent}", flush=True)
            code = code or SKIPPED
        except Failure as failure:
            print(f"run.py: {failure}", file=sys.stderr)
            code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
