#!/usr/bin/env python3
"""Measures which faults the tests detect: changes one place of the sources at a time, builds, and runs the tests.

usage: mutation_test.py [--build DIR] [--mutants N] [--seed S] [--only FOLDER] [--skip K] [--json OUT] [--list]

A mutant is one line with one small change: a comparison, a logical operator, a sign, a boolean or a condition is
inverted, or a statement is removed. N mutants (default 60) are drawn with seed S (default 1), the same number from each
folder of FOLDERS. A mutant is caught if a test fails or times out; "survived" means that all tests of its folder pass.
A mutant that does not compile is replaced by another one. --skip K leaves out the first K mutants
of the run, which an earlier run has tested. --list prints the mutants and runs nothing.

The sources are changed in place and restored: run it in a checkout of its own, with a finished build in DIR (default
build/cpu). Takes about one minute per mutant. Exits with 1 if a mutant survived. Last line: "mutants N caught C survived S".
"""
import argparse
import json
import random
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import command_line

ROOT = Path(__file__).resolve().parent.parent

# folder: the test programs that must catch its mutants, the fastest first
FOLDERS = {
    "horo/coordinator": ["coordinator_test", "named_operations_test", "process_set_test", "api_test"],
    "horo/plan": ["plan_test", "tuning_test", "autotune_test", "api_test"],
    "collectives/shared_memory": ["shared_memory_test", "api_test", "named_operations_test"],
    "collectives/ring": ["ring_schedule_test", "ring_collectives_test", "hierarchical_contract_test", "api_test"],
    "horo/watchdog": ["watchdog_test", "api_test"],
}
# Code that needs a GPU, and code that affects only speed or a text.
EXCLUDED = re.compile(r"device|gpu|bandwidth|store_|stores")
TEST_TIMEOUT_S = 240
BUILD_TIMEOUT_S = 600

# pattern: replacement
OPERATORS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
    (r" \+ 1\b", " - 1"), (r" - 1\b", " + 1"), (r" \+ (?=[a-z])", " - "), (r" \+= ", " -= "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\bif \((?!!)([^()]+|[^()]*\([^()]*\)[^()]*)\)", r"if (!(\1))"),
    (r"\+\+(?=[a-z_]+;)", "--"), (r"std::min\(", "std::max("), (r"std::max\(", "std::min("),
]
STATEMENT = re.compile(r"^\s+(?!return|throw|using|const|auto|case|else|for|if|while|log_)[a-z_][\w.>:\[\]-]*(\(.*\)| [+-]?= .*);$")
REMOVED = "/* removed */;"


@dataclass
class Mutant:
    file: str
    line: int
    before: str
    after: str
    result: str = ""  # "caught by NAME", "survived", "does not compile"
    seconds: float = 0


def mutants_of(path):
    """Every mutant of a source file."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.split("//")[0].rstrip()
        is_code = code.strip() and not code.lstrip().startswith(("#", "*", "namespace", "using", "static_assert"))
        if not is_code or "HORO_CHECK" in code or '"' in code or "template" in code or "constexpr" in code:
            continue
        where = str(path.relative_to(ROOT))
        for pattern, replacement in OPERATORS:
            for match in re.finditer(pattern, code):
                changed = code[:match.start()] + match.expand(replacement) + code[match.end():]
                found.append(Mutant(where, number, code, changed))
        if STATEMENT.match(code) and code.count("(") == code.count(")"):
            indent = code[:len(code) - len(code.lstrip())]
            found.append(Mutant(where, number, code, indent + REMOVED))
    return found


def sources_in(folder):
    return [path for path in sorted((ROOT / folder).rglob("*.cpp")) if not EXCLUDED.search(path.name)]


def drawn(folder, seed):
    """The folder's mutants in the order in which they are drawn."""
    mutants = [mutant for path in sources_in(folder) for mutant in mutants_of(path)]
    random.Random(f"{seed} {folder}").shuffle(mutants)
    return mutants


def run(command, timeout):
    """Returns whether the command succeeded in time."""
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout, check=False)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def judge(mutant, build, tests):
    """Fills in the result. The caller restores the source."""
    begin = time.monotonic()
    path = ROOT / mutant.file
    lines = path.read_text().splitlines(keepends=True)
    lines[mutant.line - 1] = mutant.after + "\n"
    path.write_text("".join(lines))
    mutant.result = "survived"
    if not run(["cmake", "--build", str(build), "--target", *tests], BUILD_TIMEOUT_S):
        mutant.result = "does not compile"
    else:
        for test in tests:
            if not run(["timeout", "-k", "5", str(TEST_TIMEOUT_S), str(build / "tests" / test), "--gtest_brief=1",
                        "--gtest_fail_fast"], TEST_TIMEOUT_S + 10):
                mutant.result = f"caught by {test}"
                break
    mutant.seconds = round(time.monotonic() - begin, 1)


def run_folder(folder, skip, count, options, results):
    tests = FOLDERS[folder]
    if not run(["cmake", "--build", str(options.build), "--target", *tests], 3600):
        raise SystemExit(f"mutation_test.py: the unchanged sources of {folder} do not build in {options.build}")
    judged = 0
    for mutant in drawn(folder, options.seed)[skip:]:
        if judged == count:
            return
        path = ROOT / mutant.file
        original = path.read_text()
        try:
            judge(mutant, options.build, tests)
        finally:
            path.write_text(original)
        if mutant.result == "does not compile":
            continue
        judged += 1
        results.append(mutant)
        print(f"[{options.skip + len(results)}] {mutant.result} ({mutant.seconds} s): {mutant.file}:{mutant.line}\n"
              f"    - {mutant.before.strip()}\n    + {mutant.after.strip()}", flush=True)


def main():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--mutants", type=command_line.count, default=60)
    parser.add_argument("--seed", type=command_line.seed, default=1)
    parser.add_argument("--only", choices=sorted(FOLDERS), help="only mutants of this folder")
    parser.add_argument("--skip", type=command_line.whole_number(0, 1_000_000), default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.build = options.build.resolve()
    folders = [options.only] if options.only else list(FOLDERS)
    if options.mutants < len(folders):
        parser.error(f"--mutants must be at least {len(folders)}, one per folder")

    results = []
    to_skip = options.skip
    for index, folder in enumerate(folders):
        count = options.mutants * (index + 1) // len(folders) - options.mutants * index // len(folders)
        skipped = min(to_skip, count)
        to_skip -= skipped
        count -= skipped
        if count == 0:
            continue
        if options.list:
            for mutant in drawn(folder, options.seed)[skipped:skipped + count]:
                print(f"{mutant.file}:{mutant.line}: {mutant.before.strip()}  ->  {mutant.after.strip()}")
            continue
        run_folder(folder, skipped, count, options, results)
    if options.list:
        return 0
    survived = [mutant for mutant in results if mutant.result == "survived"]
    if options.json:
        options.json.write_text(json.dumps({"seed": options.seed, "mutants": [asdict(mutant) for mutant in results]}, indent=1))
    print(f"mutants {len(results)} caught {len(results) - len(survived)} survived {len(survived)}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
