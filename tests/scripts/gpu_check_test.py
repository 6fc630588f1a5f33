#!/usr/bin/env python3
"""Runs gpu_check.sh with fake versions of the programs that it calls.

usage: gpu_check_test.py GPU_CHECK GPU_BASELINE
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GPU_CHECK, GPU_BASELINE = sys.argv.pop(1), sys.argv.pop(1)
# The programs that gpu_check.sh calls, and the shell commands that replace them.
FAKE_PROGRAMS = {"nvidia-smi": 'echo "GPU 0: NVIDIA \\"Test\\" (UUID: GPU-1)"', "cmake": "exit 0", "ctest": "exit 0",
                 "nvcc": "exit 0", "compute-sanitizer": "exit 0", "mpirun": "exit 0", "python3": "exit 0"}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, *options, programs=None):
        bin_folder = self.folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        for name, text in (programs or {}).items():
            (bin_folder / name).write_text(f"#!/bin/bash\n{text}\n")
            (bin_folder / name).chmod(0o755)
        build = self.folder / "build" / "bin"
        build.mkdir(parents=True, exist_ok=True)
        for name in ("device_bench", "train_step_bench", "train_mnist", "train_cifar"):
            (build / name).write_text("#!/bin/bash\n")
            (build / name).chmod(0o755)
        return subprocess.run([GPU_CHECK, "--build", str(build.parent), "--out", str(self.folder / "out"), *options], capture_output=True, text=True,
                              timeout=50, env=dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}"))

    def results(self):
        report = json.loads((self.folder / "out" / "gpu_check.json").read_text())
        return report, {step["name"]: step["result"] for step in report["steps"]}

    def test_dry_run_lists_steps_with_limits(self):
        done = self.check("--dry-run", programs={"nvidia-smi": "exit 9"})
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = re.findall(r"^(\S+) +(\d+) s  \S", done.stdout, re.MULTILINE)
        for name in ("build", "tests.1_rank", "tests.2_ranks", "memcheck", "racecheck", "device_bench", "train_step_bench", "train", "baseline"):
            self.assertIn(name, [step for step, _ in steps])
        self.assertFalse((self.folder / "out").exists())
        for script in re.findall(r"scripts/\S+", done.stdout):
            self.assertTrue((Path(GPU_CHECK).parents[1] / script).exists(), script)

    def test_missing_gpu_gives_one_line_and_runs_nothing(self):
        for fake in ("exit 9", "echo No devices were found"):
            done = self.check(programs={"nvidia-smi": fake})
            self.assertEqual(done.returncode, 77)
            self.assertEqual(done.stdout.count("\n"), 1)
            self.assertIn("no GPU", done.stdout)
            self.assertFalse((self.folder / "out").exists())

    def test_all_steps_pass(self):
        done = self.check(programs=FAKE_PROGRAMS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report, results = self.results()
        self.assertEqual(set(results.values()), {"passed"})
        self.assertEqual(report["failed"], 0)
        self.assertIn("NVIDIA Test", report["gpus"])

    def test_continues_after_failed_or_skipped_step(self):
        done = self.check(programs={**FAKE_PROGRAMS, "ctest": '[[ "$*" != *2_ranks* ]] || { echo the sum is wrong; exit 8; }',
                                    "python3": "echo no torch; exit 77"})
        self.assertEqual(done.returncode, 1)
        report, results = self.results()
        self.assertEqual([name for name, result in results.items() if result != "passed"], ["tests.2_ranks", "baseline"])
        self.assertEqual((results["tests.2_ranks"], results["baseline"]), ("failed", "skipped"))
        self.assertIn("the sum is wrong", done.stdout)
        self.assertEqual(report["failed"], 1)
        self.assertRegex(done.stdout, r"1 of \d+ steps failed")

    def test_total_limit_ends_hanging_step(self):
        done = self.check("--limit", "4", programs={**FAKE_PROGRAMS, "ctest": "sleep 40"})
        self.assertEqual(done.returncode, 1)
        _, results = self.results()
        self.assertEqual({result for name, result in results.items() if name.startswith("tests.")}, {"out of time"})
        self.assertIn("no time was left", (self.folder / "out" / "baseline.log").read_text())

    def test_bundle_is_used_and_missing_bundle_is_usage_error(self):
        bundle = self.folder / "bundle"
        bundle.mkdir()
        self.assertEqual(self.check("--deps", str(bundle), programs=FAKE_PROGRAMS).returncode, 2)
        (bundle / "env.sh").write_text("export FROM_BUNDLE=yes\n")
        done = self.check("--deps", str(bundle), programs={**FAKE_PROGRAMS, "cmake": '[ "$FROM_BUNDLE" = yes ]'})
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_usage_errors(self):
        for options in (["--limit", "soon"], ["--limit"], ["--fast"]):
            self.assertEqual(self.check(*options, programs=FAKE_PROGRAMS).returncode, 2)

    def test_script_passes_shellcheck(self):
        if shutil.which("shellcheck") is None:
            self.skipTest("SKIPPED: shellcheck is not installed")
        done = subprocess.run(["shellcheck", GPU_CHECK], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_baseline_needs_pytorch_and_gpu(self):
        (self.folder / "torch.py").write_text("raise ImportError('none')\n")
        done = subprocess.run([sys.executable, GPU_BASELINE], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=str(self.folder)))
        self.assertEqual((done.returncode, done.stdout.count("\n")), (77, 1), done.stderr)
        self.assertIn("PyTorch", done.stdout)


if __name__ == "__main__":
    unittest.main()
