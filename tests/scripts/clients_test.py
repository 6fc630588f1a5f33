#!/usr/bin/env python3
"""Tests examples/clients/run.py: its comparison of losses, its errors, and the patches.

usage: clients_test.py CLIENTS_FOLDER
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CLIENTS = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(CLIENTS))
import run as clients  # noqa: E402


class Clients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, *arguments, **environment):
        return subprocess.run([sys.executable, CLIENTS / "run.py", "--work", self.folder / "work", *arguments], cwd=self.folder,
                              env={**os.environ, **environment}, capture_output=True, text=True, timeout=50, check=False)

    def prefix(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "hororun").touch()
        return self.folder

    def test_differences_of_losses_are_found(self):
        self.assertEqual(clients.greatest_difference([4.0, 2.0], [4.0, 2.0], "run"), 0.0)
        self.assertAlmostEqual(clients.greatest_difference([4.0, -2.0], [4.0, -2.002], "run"), 1e-3)
        self.assertGreater(clients.greatest_difference([1.0], [float("inf")], "run"), 1.0)
        with self.assertRaisesRegex(clients.Failure, "run printed 1 losses, the original 2"):
            clients.greatest_difference([4.0, 2.0], [4.0], "run")
        with self.assertRaisesRegex(clients.Failure, "loss 2 of run is nan"):
            clients.greatest_difference([4.0, 2.0], [4.0, float("nan")], "run")

    def test_errors_are_one_line(self):
        for arguments, text in ((["--horo", "none"], "there is no none/bin/hororun"),
                                (["--horo", str(self.prefix()), "emacs"], "there is no program 'emacs'")):
            done = self.run_script(*arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn(text, done.stderr)

    def test_absent_programs_are_reported_as_skipped(self):
        done = self.run_script("--horo", str(self.prefix()), "fann", "examl", PATH="/nowhere")
        self.assertEqual((done.returncode, done.stderr), (77, ""))
        self.assertEqual(done.stdout.splitlines(), ["SKIPPED: fann: there is no patch; install the package patch",
                                                    "SKIPPED: examl: there is no patch; install the package patch"])

    def test_patches_have_one_line_of_context(self):
        patches = sorted(CLIENTS.glob("*.patch"))
        used = [patch for program in clients.PROGRAMS.values() for patch in (program.preparation, program.patch) if patch]
        self.assertEqual([patch.name for patch in patches], sorted(used))
        for patch in patches:
            for hunk in re.split(r"^@@.*\n", patch.read_text(encoding="latin-1"), flags=re.MULTILINE)[1:]:
                lines = re.sub(r"^--- .*\n\+\+\+ .*\n", "", hunk, flags=re.MULTILINE).splitlines()
                self.assertNotEqual(lines[1][0], " ", patch.name)
                self.assertNotEqual(lines[-2][0], " ", patch.name)

    def test_lines_are_counted_without_headers_and_empty_ones(self):
        patch = self.folder / "a.patch"
        patch.write_text("--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,4 @@\n a\n+b\n+\n+++i;\n-c\n d\n")
        self.assertEqual(clients.lines_of(patch), (2, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
