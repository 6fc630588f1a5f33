#!/usr/bin/env python3
"""Tests the help texts and the usage errors of all scripts.

usage: command_lines_test.py SCRIPTS_FOLDER
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(sys.argv[1]).resolve()
PROGRAMS = sorted(path for pattern in ("*.sh", "*.py") for path in SCRIPTS.glob(pattern) if path.read_text().startswith("#!"))

LAST_TEST_LOG = """1/3 Testing: fuzz_log
1/3 Test: fuzz_log
Command: "fuzz_log"
Output:
----------
SKIPPED: there is no clang++
<end of output>
2/3 Test: unit_test
Command: "unit_test"
Output:
----------
[ RUN      ] Suite.Case
a_test.cpp:5: Skipped
only root can do it

[  SKIPPED ] Suite.Case (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Suite.Case
<end of output>
3/3 Test: fuzz_wire
Command: "fuzz_wire"
Output:
----------
SKIPPED: there is no clang++
<end of output>
"""


def run(script, *arguments):
    interpreter = "bash" if script.endswith(".sh") else sys.executable
    return subprocess.run([interpreter, SCRIPTS / script, *arguments], capture_output=True, text=True, timeout=50)


class CommandLines(unittest.TestCase):
    def test_help_is_printed(self):
        for script in PROGRAMS:
            for option in ("-h", "--help"):
                with self.subTest(script=script.name, option=option):
                    done = run(script.name, option)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn(script.name, done.stdout)

    def assert_rejected(self, script, arguments, text):
        with self.subTest(script=script, arguments=arguments):
            done = run(script, *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"\A{re.escape(script)}: [^\n]*{re.escape(text)}[^\n]*\n\Z")

    def test_unknown_options_give_one_line_error(self):
        for script in ("chaos.py", "check_layers.py", "compare_peers.py", "mutation_test.py", "format.sh", "gpu_check.sh",
                       "install_deps.sh", "make_gpu_bundle.sh", "quickstart.sh", "test.sh"):
            self.assert_rejected(script, ["--nonsense"], "--nonsense")
        self.assert_rejected("gpu_verdicts.py", [".", "--nonsense"], "--nonsense")

    def test_absurd_numbers_give_one_line_error(self):
        for number in ("0", "-1", "1e9", "two", ""):
            self.assert_rejected("quickstart.sh", ["--ranks", number], number)
            self.assert_rejected("scaling.py", ["--repeat=" + number], number)
        for number in ("0", "99999999999999999999"):
            for script, options in (("quickstart.sh", ("--ranks", "--epochs")), ("gpu_check.sh", ("--limit", "--half", "--slower")),
                                    ("scaling.py", ("--ranks", "--repeat", "--timeout")),
                                    ("compare_peers.py", ("--ranks", "--rounds", "--repeats")),
                                    ("chaos.py", ("--rounds", "--links", "--jobs")), ("mutation_test.py", ("--mutants",))):
                for option in options:
                    self.assert_rejected(script, [option + "=" + number] if script.endswith(".py") else [option, number], number)

    def test_quickstart_rejects_missing_folder(self):
        self.assert_rejected("quickstart.sh", ["--data", "/no/such"], "there is no such directory")
        self.assert_rejected("quickstart.sh", ["--build-dir", "/no/such"], "CMake has not configured it")

    def test_compiler_matrix_rejects_missing_compilers(self):
        self.assert_rejected("compiler_matrix.py", ["--compiler", "gcc"], "'gcc' is not C,CXX")
        self.assert_rejected("compiler_matrix.py", ["--compiler", "sh,no-such-g++"], "there is no program no-such-g++")

    def test_bundle_rejects_other_archives(self):
        self.assert_rejected("make_gpu_bundle.sh", ["--out", "deps.zip"], "must end in .tar.gz")

    def test_skipped_tests_are_listed_by_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "Testing/Temporary/LastTest.log"
            log.parent.mkdir(parents=True)
            log.write_text(LAST_TEST_LOG)
            done = run("skipped_tests.py", folder)
        self.assertEqual(done.stdout, "3 skipped tests:\n"
                                      "  there is no clang++: fuzz_log; fuzz_wire\n"
                                      "  only root can do it: unit_test, Suite.Case\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
