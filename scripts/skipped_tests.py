#!/usr/bin/env python3
"""Lists the tests that CTest's last run skipped, with the reasons that they printed.

usage: skipped_tests.py BUILD_FOLDER

Reads Testing/Temporary/LastTest.log, because CTest prints no reasons itself. Also lists the
skipped cases of GoogleTest programs that pass.
"""
import re
import sys
from pathlib import Path

import command_line

OUTPUT = re.compile(r'^\d+/\d+ Test: (?P<name>.+?)\n.*?\nOutput:\n-+\n(?P<output>.*?)<end of output>', re.MULTILINE | re.DOTALL)
GOOGLE_TEST_CASE = re.compile(r"\[  SKIPPED \] (?P<case>\S+) \(\d+ ms\)")
REASON = re.compile(r"SKIPPED[:,] (?P<reason>.+)")


def skipped(log):
    """Pairs of a test and its reason, in the order of the log."""
    for test in OUTPUT.finditer(log):
        last_line, has_case = "", False
        reasons = []
        for line in test["output"].splitlines():
            if case := GOOGLE_TEST_CASE.search(line):
                has_case = True
                yield f"{test['name']}, {case['case']}", last_line.removeprefix("SKIPPED: ") or "no reason"
            elif reason := REASON.search(line):
                reasons.append(reason["reason"])
            if line.strip():
                last_line = line.strip()
        if reasons and not has_case:
            yield test["name"], reasons[0]


def by_reason(pairs):
    tests_of = {}
    for test, reason in pairs:
        tests_of.setdefault(reason, []).append(test)
    return tests_of


def main():
    parser = command_line.Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=Path, metavar="BUILD_FOLDER")
    path = parser.parse_args().build / "Testing/Temporary/LastTest.log"
    try:
        log = path.read_text(errors="replace")
    except OSError as error:
        sys.exit(f"skipped_tests.py: cannot read {path}: {error.strerror}")
    tests_of = by_reason(skipped(log))
    print(f"{command_line.counted(sum(map(len, tests_of.values())), 'skipped test')}{':' if tests_of else ''}")
    for reason, tests in tests_of.items():
        print(f"  {reason}: {'; '.join(tests)}")


if __name__ == "__main__":
    main()
