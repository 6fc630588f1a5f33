#!/usr/bin/env python3
"""Checks which file may include which, as docs/internals/architecture.md lays the layers out.

usage: check_layers.py [--self-test] [ROOT]

Prints one line per violation, "file:line: what is wrong", and exits with 1 if there is any.
--self-test checks that each kind of violation is found in a tree made for it.
"""
import re
import sys
import tempfile
from pathlib import Path

import command_line

SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
SOURCE_FOLDERS = ["horo", "collectives", "ops", "launcher", "examples", "tests"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')

# layer: the layers whose headers its files may include, besides its own
MAY_INCLUDE = {
    "base": [],
    "device": ["base"],
    "collectives": ["base", "device"],
    "flight_recorder": ["base"],
    "diagnosis": ["base", "flight_recorder"],
    "watchdog": ["base", "flight_recorder", "diagnosis"],
    "metrics": ["base", "flight_recorder", "diagnosis"],
}
MAY_INCLUDE["coordinator"] = [*MAY_INCLUDE]
MAY_INCLUDE["plan"] = [*MAY_INCLUDE]
MAY_INCLUDE["runtime"] = [*MAY_INCLUDE]
MAY_INCLUDE["public API"] = ["base", "device"]
MAY_INCLUDE["public API sources"] = [*MAY_INCLUDE]
MAY_INCLUDE["C interface"] = ["base", "device", "public API"]
MAY_INCLUDE["records"] = ["base"]
MAY_INCLUDE["compute"] = ["base", "device", "records"]
MAY_INCLUDE["training"] = ["base", "device", "public API", "compute"]
MAY_INCLUDE["examples"] = ["device", "public API", "records", "compute", "training"]
MAY_INCLUDE["device benchmarks"] = ["base", "device", "collectives", "public API", "compute", "training", "examples"]
MAY_INCLUDE["launcher"] = ["diagnosis"]
MAY_INCLUDE["tests"] = [*MAY_INCLUDE]
LAUNCHER_MAY_ALSO = {f"horo/base/{name}.h" for name in ("environment", "error", "text/log", "text/printable", "text/quantity",
                                                        "system/file_descriptor", "system/threads")}
LAUNCHER_MAY_ALSO |= {"ops/data/records/pack_folder.h"}
LAUNCHER_MAY_ALSO |= {f"horo/flight_recorder/{name}.h" for name in ("flight_directory", "flight_format", "flight_reader",
                                                                    "rank_snapshot")}

# system header: where it may be included
SYSTEM_HEADERS = [
    (re.compile(r"mpi\.h$"), re.compile(r"collectives/mpi/|horo/mpi(_bootstrap)?\.h$|tests/|examples/")),
    (re.compile(r"(cudnn|cublas)[A-Za-z0-9_]*\.h$"), re.compile(r"ops/backend/cuda/|tests/")),
    (re.compile(r"nccl\.h$"), re.compile(r"collectives/nccl/|tests/|.*\.cuh?$")),
    (re.compile(r"(cuda_runtime|cuda_runtime_api|cuda)\.h$"),
     re.compile(r"collectives/nccl/|horo/device/cuda/|ops/backend/cuda/|tests/|.*\.cuh?$")),
    (re.compile(r"nvtx3/"), re.compile(r"horo/device/cuda/|tests/")),
]


def includes_of(path):
    """(line number, '<' or '"', header) for each include."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = sorted(str(path.relative_to(root)) for folder in SOURCE_FOLDERS
                            for path in (root / folder).rglob("*") if path.suffix in SOURCE_SUFFIXES)
        exported = self.exported_headers()
        self.exported_base = {header for header in exported if header.startswith("horo/base/")}
        self.public = {header for header in exported if not header.startswith("horo/base/")}
        self.public |= {"horo/horo.h", "horo/mpi.h", "horo/testing.h", "horo/horo_c.h", "horo/horo_cxx17.h", "horo/dlpack.h"}

    def exported_headers(self):
        path = self.root / "horo/horo.h"
        return {header for _, quote, header in includes_of(path) if quote == '"'} if path.exists() else set()

    def layer_of(self, file):
        if file in self.public:
            return "public API"
        rooms = ["base", "device", "flight_recorder", "diagnosis", "watchdog", "metrics", "coordinator", "plan", "runtime"]
        for prefix, layer in [*((f"horo/{room}/", room) for room in rooms), ("collectives/", "collectives"),
                              ("horo/adapters/", "training"), ("horo/c/", "C interface"), ("horo/", "public API sources"),
                              ("ops/train/", "training"), ("ops/parallel/", "training"), ("ops/checkpoint/", "training"), ("ops/data/records/", "records"),
                              ("ops/", "compute"),
                              ("examples/benchmarks/device/", "device benchmarks"), ("examples/", "examples"),
                              ("launcher/", "launcher"), ("tests/", "tests")]:
            if file.startswith(prefix):
                return layer
        return None

    def problem_with(self, file, quote, header):
        """The problem of this include; None if it is allowed."""
        if quote == "<":
            for pattern, places in SYSTEM_HEADERS:
                if pattern.match(header) and not places.match(file):
                    return f"<{header}> may not be included here"
            return None
        if ".." in header.split("/"):
            return f'"{header}": include from the repository root, without ".."'
        if header.endswith((".cpp", ".cu")):
            return f'"{header}": source files are not included'
        target = self.layer_of(header)
        if target is None or not (self.root / header).exists():
            return f'"{header}" is no file of the repository; include from its root, and system headers with <>'
        layer = self.layer_of(file)
        if target == layer or target in MAY_INCLUDE[layer]:
            return None
        if layer == "launcher" and header in LAUNCHER_MAY_ALSO:
            return None
        if layer == "examples" and header in self.exported_base:
            return None
        return f'"{header}": {layer} may not include {target}'

    def violations(self):
        for file in self.files:
            for number, quote, header in includes_of(self.root / file):
                problem = self.problem_with(file, quote, header)
                if problem:
                    yield f"{file}:{number}: {problem}"


GOOD_TREE = {
    "horo/horo.h": '#include "horo/base/error.h"\n#include "horo/context.h"\n',
    "horo/context.h": '#include "horo/base/error.h"\n',
    "horo/context.cpp": '#include "horo/context.h"\n#include "horo/runtime/runtime.h"\n',
    "horo/mpi.h": '#include <mpi.h>\n#include "horo/context.h"\n',
    "horo/c/objects.h": '#include "horo/base/error.h"\n#include "horo/context.h"\n',
    "horo/base/error.h": "#include <string>\n",
    "horo/base/environment.h": '#include "horo/base/error.h"\n',
    "horo/base/hash.h": "",
    "horo/device/stream.h": '#include "horo/base/error.h"\n',
    "collectives/ring/ring.h": '#include "horo/base/hash.h"\n#include "horo/device/stream.h"\n',
    "collectives/mpi/channel.cpp": "#include <mpi.h>\n",
    "horo/flight_recorder/flight_reader.h": '#include "horo/base/hash.h"\n',
    "horo/flight_recorder/plan_flight.h": "",
    "horo/diagnosis/diagnose.h": '#include "horo/flight_recorder/flight_reader.h"\n',
    "horo/watchdog/watchdog.h": '#include "horo/diagnosis/diagnose.h"\n',
    "horo/metrics/step_meter.h": '#include "horo/flight_recorder/plan_flight.h"\n',
    "horo/coordinator/queue.h": '#include "collectives/ring/ring.h"\n#include "horo/metrics/step_meter.h"\n',
    "horo/plan/runner.h": '#include "horo/coordinator/queue.h"\n#include "horo/flight_recorder/plan_flight.h"\n',
    "horo/runtime/runtime.h": '#include "horo/plan/runner.h"\n#include "horo/watchdog/watchdog.h"\n',
    "ops/data/records/record_reader.h": '#include "horo/base/error.h"\n',
    "ops/nn/layer.h": '#include "horo/base/error.h"\n#include "horo/device/stream.h"\n',
    "ops/train/trainer.h": '#include "horo/horo.h"\n#include "ops/nn/layer.h"\n',
    "examples/mnist/train.cpp": '#include "horo/horo.h"\n#include "horo/base/error.h"\n#include "ops/train/trainer.h"\n',
    "examples/own_model/model.cu": '#include "horo/device/stream.h"\n',
    "examples/benchmarks/device/bench.cpp": '#include "horo/base/hash.h"\n#include "collectives/ring/ring.h"\n',
    "launcher/main.cpp": '#include "horo/base/environment.h"\n#include "horo/flight_recorder/flight_reader.h"\n'
                         '#include "horo/diagnosis/diagnose.h"\n',
    "tests/ring_test.cpp": '#include <mpi.h>\n#include "collectives/ring/ring.h"\n',
}
BAD_INCLUDES = [
    ("horo/base/error.h", '#include "horo/context.h"', "base may not include public API"),
    ("horo/base/error.h", '#include "horo/device/stream.h"', "base may not include device"),
    ("horo/device/stream.h", '#include "collectives/ring/ring.h"', "device may not include collectives"),
    ("horo/context.h", '#include "horo/coordinator/queue.h"', "public API may not include coordinator"),
    ("collectives/ring/ring.h", '#include "horo/coordinator/queue.h"', "collectives may not include coordinator"),
    ("collectives/ring/ring.h", "#include <mpi.h>", "<mpi.h> may not be included here"),
    ("horo/runtime/runtime.h", "  #  include <mpi.h>", "<mpi.h> may not be included here"),
    ("horo/runtime/runtime.h", '#include "horo/context.h"', "runtime may not include public API"),
    ("horo/c/objects.h", '#include "horo/runtime/runtime.h"', "C interface may not include runtime"),
    ("horo/coordinator/queue.h", '#include "horo/plan/runner.h"', "coordinator may not include plan"),
    ("horo/coordinator/queue.h", '#include "horo/context.h"', "coordinator may not include public API"),
    ("horo/plan/runner.h", '#include "horo/runtime/runtime.h"', "plan may not include runtime"),
    ("collectives/ring/ring.h", "#include <cuda_runtime.h>", "<cuda_runtime.h> may not"),
    ("ops/nn/layer.h", "#include <cublasLt.h>", "<cublasLt.h> may not"),
    ("ops/nn/layer.h", '#include "collectives/ring/ring.h"', "compute may not include collectives"),
    ("ops/nn/layer.h", '#include "ops/train/trainer.h"', "compute may not include training"),
    ("ops/data/records/record_reader.h", '#include "ops/nn/layer.h"', "records may not include compute"),
    ("ops/nn/layer.h", '#include "horo/horo.h"', "compute may not include public API"),
    ("ops/train/trainer.h", '#include "horo/coordinator/queue.h"', "training may not include coordinator"),
    ("examples/mnist/train.cpp", '#include "horo/base/hash.h"', "examples may not include base"),
    ("launcher/main.cpp", '#include "horo/base/hash.h"', "launcher may not include base"),
    ("launcher/main.cpp", '#include "horo/flight_recorder/plan_flight.h"', "launcher may not include flight_recorder"),
    ("launcher/main.cpp", '#include "horo/watchdog/watchdog.h"', "launcher may not include watchdog"),
    ("horo/flight_recorder/flight_reader.h", '#include "horo/coordinator/queue.h"', "flight_recorder may not include coordinator"),
    ("horo/flight_recorder/flight_reader.h", '#include "horo/diagnosis/diagnose.h"', "flight_recorder may not include diagnosis"),
    ("horo/diagnosis/diagnose.h", '#include "horo/watchdog/watchdog.h"', "diagnosis may not include watchdog"),
    ("horo/watchdog/watchdog.h", '#include "collectives/ring/ring.h"', "watchdog may not include collectives"),
    ("horo/metrics/step_meter.h", '#include "horo/coordinator/queue.h"', "metrics may not include coordinator"),
    ("launcher/main.cpp", '#include "horo/horo.h"', "launcher may not include public API"),
    ("horo/context.cpp", '#include "tests/ring_test.cpp"', "source files are not included"),
    ("horo/context.cpp", '#include "launcher/missing.h"', "is no file of the repository"),
    ("horo/context.cpp", '#include "context.h"', "is no file of the repository"),
    ("horo/coordinator/queue.h", '#include "../base/error.h"', 'without ".."'),
]


def violations_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(Tree(Path(folder)).violations())


def self_test():
    """One line per failed expectation."""
    for line in violations_of(GOOD_TREE):
        yield f"found in a tree without violations: {line}"
    for file, include, expected in BAD_INCLUDES:
        # The last line of the file, so that the line number is known.
        text = GOOD_TREE[file] + include + "\n"
        found = violations_of({**GOOD_TREE, file: text})
        place = f"{file}:{text.count(chr(10))}: "
        if len(found) != 1 or not found[0].startswith(place) or expected not in found[0]:
            yield f"{include} in {file}: expected '{place}...{expected}', found {found}"


def main():
    parser = command_line.Parser(description="Checks which file may include which.")
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parent.parent, type=Path)
    parser.add_argument("--self-test", action="store_true", help="check the checker")
    arguments = parser.parse_args()
    if arguments.self_test:
        problems = list(self_test())
        checked = f"{len(BAD_INCLUDES)} kinds of violation"
    else:
        tree = Tree(arguments.root)
        if not tree.files:
            sys.exit(f"check_layers.py: no sources under {arguments.root}; give the repository's root")
        problems = list(tree.violations())
        checked = f"{len(tree.files)} files"
    for line in problems:
        print(line)
    print(f"check_layers.py: {checked} checked, {command_line.counted(len(problems), 'problem')}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
