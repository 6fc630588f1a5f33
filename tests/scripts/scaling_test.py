#!/usr/bin/env python3
"""Runs scripts/scaling.py with a fake launcher and program. The first argument is the path of the script."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCALING = sys.argv.pop(1)

# Accepts "-np N PROGRAM ..." like hororun and runs the program once.
LAUNCHER = """#!/bin/sh
shift; RANKS=$1; export RANKS; shift
exec "$@"
"""
# Reports a rate of 100 on one rank and 150 on two ranks, and a time of 8 s and 4 s. The last
# argument is the report file.
PROGRAM = """#!/bin/sh
for file; do :; done
case $1 in
  fail) echo "no data here"; exit 3 ;;
  silent) exit 0 ;;
  weak) batch=$2 ;;
esac
rate=$((50 + 50 * RANKS)); seconds=$((8 / RANKS))
[ "$1" != varying ] || { echo >> "$2"; rate=$((rate * $(wc -l < "$2"))); }
echo "{\\"rate\\": $rate, \\"time\\": {\\"total\\": $seconds}, \\"batch\\": ${batch:-0}}" > "$file"
"""


class Scaling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in (("launch", LAUNCHER), ("program", PROGRAM)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def scale(self, *options, program=()):
        return subprocess.run([sys.executable, SCALING, "--launcher", str(self.folder / "launch"), "--out",
                               str(self.folder / "out" / "s"), *options, "--", str(self.folder / "program"), *program],
                              capture_output=True, text=True, timeout=50)

    def result(self):
        return json.loads((self.folder / "out" / "s.json").read_text())

    def test_rates(self):
        done = self.scale("--ranks", "2,1", "--repeat", "2", "--json-key", "rate")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.result()["summary"]
        self.assertEqual([(row["ranks"], row["median"], row["speedup"], row["efficiency"]) for row in rows],
                         [(1, 100, 1, 1), (2, 150, 1.5, 0.75)])
        self.assertEqual([(run["repeat"], run["ranks"]) for run in self.result()["runs"]],
                         [(0, 1), (0, 2), (1, 1), (1, 2)])
        self.assertIn("| 150 (150 to 150) | 1.50 | 75 % |", done.stdout)
        drawn = (self.folder / "out" / "s.png").exists()
        self.assertNotEqual(drawn, "no matplotlib" in done.stderr)

    def test_times(self):
        self.scale("--ranks", "1,2", "--repeat", "1", "--json-key", "time.total", "--lower-is-better")
        self.assertEqual([row["efficiency"] for row in self.result()["summary"]], [1, 1])
        self.scale("--ranks", "1,2", "--repeat", "1", "--json-key", "time.total", "--lower-is-better", "--mode", "weak")
        self.assertEqual([row["efficiency"] for row in self.result()["summary"]], [1, 2])

    def test_minimum_and_maximum_speed_up_are_reported(self):
        done = self.scale("--ranks", "1", "--repeat", "3", "--json-key", "rate",
                          program=["varying", str(self.folder / "runs")])
        self.assertEqual(done.returncode, 0, done.stderr)
        row = self.result()["summary"][0]
        self.assertEqual((row["speedup_min"], row["speedup"], row["speedup_max"]), (0.5, 1, 1.5))

    def test_arguments_scale_with_ranks(self):
        self.scale("--ranks", "1,2", "--repeat", "1", "--json-key", "rate", "--mode", "weak",
                   program=["weak", "{ranks*64}"])
        self.assertEqual([run["report"]["batch"] for run in self.result()["runs"]], [64, 128])

    def test_failed_run_is_shown(self):
        done = self.scale("--ranks", "1", "--json-key", "rate", program=["fail"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with exit code 3", done.stderr)
        self.assertIn("no data here", done.stderr)

    def test_missing_report_or_figure_is_reported(self):
        done = self.scale("--ranks", "1", "--json-key", "rate", program=["silent"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrote no JSON report", done.stderr)
        done = self.scale("--ranks", "1", "--json-key", "time.max")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no 'time.max'; at 'max' it has: total", done.stderr)

    def test_bad_ranks_are_rejected(self):
        for text in ("0", "1,1", "two", ""):
            done = self.scale("--ranks", text)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not a list of numbers of ranks", done.stderr)


if __name__ == "__main__":
    unittest.main()
