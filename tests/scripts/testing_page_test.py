#!/usr/bin/env python3
"""Checks that every test in the table of docs/internals/testing.md exists, and those of gpu_review.md beside it.

usage: testing_page_test.py PAGE TESTS_FOLDER BUILD_FOLDER CTEST
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PAGE, TESTS, BUILD, CTEST = (Path(word) for word in sys.argv[1:5])
IN_SOURCES = re.compile(r"^(?:TYPED_)?TEST(?:_P|_F)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


def tests_in_sources(folder):
    return {f"{suite}.{name}" for pattern in ("*.cpp", "*.h") for file in folder.rglob(pattern)
            for suite, name in IN_SOURCES.findall(file.read_text())}


def tests_of_ctest(build):
    """Runs ctest in another folder, because ctest -N in `build` would replace the log of the run in progress there."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "CTestTestfile.cmake").write_text(f'subdirs("{build}")\n')
        listed = subprocess.run([CTEST, "--test-dir", folder, "-N"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"Test +#\d+: (\S+)", listed))


def rows_of(page):
    """Returns the names of the tests for each behaviour of the table."""
    cells = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return {row[0].strip(): re.findall(r"`([^`]+)`", row[1]) for row in cells[1:]}


def unknown_names(rows, known):
    return [name for names in rows.values() for name in names if name not in known]


class TestingPage(unittest.TestCase):
    def test_listing_keeps_log_of_run(self):
        log = BUILD / "Testing/Temporary/LastTest.log"
        before = log.stat().st_mtime_ns if log.exists() else None
        self.assertIn("testing_page", tests_of_ctest(BUILD))
        self.assertEqual(log.stat().st_mtime_ns if log.exists() else None, before)

    def test_every_listed_test_exists(self):
        rows = rows_of(PAGE.read_text())
        self.assertGreater(len(rows), 40)
        self.assertEqual([behaviour for behaviour, names in rows.items() if not names], [], "rows without a test")
        self.assertEqual(unknown_names(rows, tests_in_sources(TESTS) | tests_of_ctest(BUILD)), [])

    def test_tests_of_the_gpu_review_exist(self):
        named = re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", (PAGE.parent / "gpu_review.md").read_text())
        self.assertGreater(len(named), 40)
        self.assertEqual(set(named) - tests_in_sources(TESTS) - {"Suite.Name"}, set())

    def test_missing_name_is_found(self):
        page = "| Behaviour | Tests |\n|---|---|\n| it works | `Suite.Works` `Suite.Worked` `ctest_name` |\n"
        self.assertEqual(unknown_names(rows_of(page), {"Suite.Works", "ctest_name"}), ["Suite.Worked"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
