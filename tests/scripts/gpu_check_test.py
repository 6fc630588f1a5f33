#!/usr/bin/env python3
"""Runs gpu_check.sh with fake versions of the programs that it calls, and the scripts around it with samples.

usage: gpu_check_test.py SCRIPTS_FOLDER TRAIN_STEP_BENCH_SOURCE
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

SCRIPTS, TRAIN_STEP_BENCH = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
GPU_CHECK = SCRIPTS / "gpu_check.sh"
# The programs that gpu_check.sh calls, and the shell commands that replace them.
FAKE_PROGRAMS = {"nvidia-smi": 'echo "GPU 0: NVIDIA \\"Test\\" (UUID: GPU-1)"', "cmake": "exit 0", "nvcc": "exit 0",
                 "ctest": '[[ "$*" != *" -N "* ]] || echo "  Test #1: some_test"', "compute-sanitizer": "exit 0", "mpirun": "exit 0",
                 "python3": "exit 0", "c++": "echo 'c++ (Debian) 12.2.0'", "g++-13": "exit 0"}
FAKE_TEST = '#!/bin/bash\n[[ "$*" != *--gtest_list_tests* ]] || printf "Suite.\\n  Test\\n"\n'
MOST_SECONDS = 540  # of a half


class Folder(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write_program(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def bundle(self, text, name="horo-deps.tar.gz"):
        """An archive like that of make_gpu_bundle.sh with this env.sh."""
        (self.folder / "horo-deps").mkdir(exist_ok=True)
        (self.folder / "horo-deps" / "env.sh").write_text(text)
        with tarfile.open(self.folder / name, "w:gz") as archive:
            archive.add(self.folder / "horo-deps", "horo-deps")
        return str(self.folder / name)


class GpuCheck(Folder):
    def check(self, *options, programs=None):
        programs = FAKE_PROGRAMS if programs is None else programs
        shutil.rmtree(self.folder / "programs", ignore_errors=True)
        for name, text in programs.items():
            self.write_program(f"programs/{name}", f"#!/bin/bash\n{text}\n")
        for name in ("device_bench", "train_step_bench", "train_mnist", "train_cifar"):
            self.write_program(f"build/bin/{name}", "#!/bin/bash\n")
        for name in ("gpu_device_test", "gpu_move_tiles_test", "gpu_agreement_test"):
            if not (self.folder / f"build/tests/{name}").exists():
                self.write_program(f"build/tests/{name}", FAKE_TEST)
        return self.run_check(*options)

    def run_check(self, *options):
        return subprocess.run([GPU_CHECK, "--build", self.folder / "build", "--out", self.folder / "out", *options],
                              capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, PATH=f"{self.folder}/programs:{os.environ['PATH']}"))

    def results(self, name="gpu_check.tar.gz"):
        """The report and the result of each step, from the archive in the output folder."""
        with tarfile.open(self.folder / "out" / name) as archive:
            report = json.load(archive.extractfile("./gpu_check.json"))
        return report, {step["name"]: step["result"] for step in report["steps"]}

    def log(self, step, name="gpu_check.tar.gz"):
        with tarfile.open(self.folder / "out" / name) as archive:
            return archive.extractfile(f"./{step}.log").read().decode()

    def steps(self, *options):
        done = self.check("--dry-run", *options, programs={"nvidia-smi": "exit 9"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, {name: int(limit) for name, limit in re.findall(r"^(\S+) +(\d+) s  \S", done.stdout, re.MULTILINE)}

    def test_dry_run_lists_steps_with_limits(self):
        text, steps = self.steps()
        for name in ("build", "filters", "tests.1_rank", "tests.2_ranks", "memcheck", "racecheck", "device_bench", "train_step_bench",
                     "train_step_f32", "train", "baseline", "verdicts", "g++-13"):
            self.assertIn(name, steps)
        self.assertFalse((self.folder / "out").exists())
        for script in re.findall(r"scripts/\S+", text):
            self.assertTrue((GPU_CHECK.parents[1] / script).exists(), script)

    def test_each_half_takes_less_than_nine_minutes_by_its_limits(self):
        bundle = self.bundle("")
        halves = [self.steps("--half", half, "--deps", bundle)[1] for half in ("1", "2")]
        for steps in halves:
            self.assertIn("deps", steps)
            self.assertLess(sum(steps.values()), MOST_SECONDS)
        self.assertIn("build", halves[0])
        self.assertIn("tests.2_ranks", halves[0])
        self.assertIn("device_bench", halves[1])
        self.assertIn("baseline", halves[1])
        both = self.steps("--deps", bundle)[1]
        self.assertEqual(set(both), set(halves[0]) | set(halves[1]))

    def test_missing_gpu_gives_one_line_and_runs_nothing(self):
        for fake in ("exit 9", "echo No devices were found"):
            done = self.check(programs={"nvidia-smi": fake})
            self.assertEqual(done.returncode, 77)
            self.assertEqual(done.stdout.count("\n"), 1)
            self.assertIn("no GPU", done.stdout)
            self.assertFalse((self.folder / "out").exists())

    def test_without_gpu_leaves_out_only_the_steps_that_need_one(self):
        done = self.check("--without-gpu", programs={**FAKE_PROGRAMS, "nvidia-smi": "exit 9"})
        self.assertEqual(done.returncode, 77, done.stdout)
        report, results = self.results()
        for name in ("configure", "build", "filters", "tests.without_gpu", "verdicts", "g++-13"):
            self.assertEqual(results[name], "passed")
        for name in ("tests.device", "tests.2_ranks", "memcheck", "device_bench", "train", "baseline"):
            self.assertEqual(results[name], "skipped")
        self.assertEqual(report["left_out"], list(results.values()).count("skipped"))
        self.assertRegex(done.stdout, r"tests\.2_ranks +skipped +0 s  needs a GPU")
        failing = self.check("--without-gpu", programs={**FAKE_PROGRAMS, "cmake": "exit 1"})
        self.assertEqual(failing.returncode, 1)

    def test_all_steps_pass(self):
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report, results = self.results()
        self.assertEqual(set(results.values()), {"passed"})
        self.assertEqual(report["failed"], 0)
        self.assertIn("NVIDIA Test", report["gpus"])

    def test_results_are_one_archive(self):
        for options, name in (([], "gpu_check.tar.gz"), (["--half", "1"], "gpu_check_half_1.tar.gz"),
                              (["--half", "2"], "gpu_check_half_2.tar.gz")):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            programs = {**FAKE_PROGRAMS, "python3": f"echo > {self.folder}/build/results/baseline.json"}
            self.assertEqual(self.check(*options, programs=programs).returncode, 0)
            self.assertEqual([path.name for path in (self.folder / "out").iterdir()], [name])
            with tarfile.open(self.folder / "out" / name) as archive:
                files = set(archive.getnames())
            _, results = self.results(name)
            self.assertLessEqual({f"./{step}.log" for step in results} | {"./gpu_check.json"}, files)
            self.assertIn("./baseline.json", files)

    def test_interrupted_run_keeps_its_results(self):
        programs = {**FAKE_PROGRAMS, "ctest": f"[ ! -e {self.folder}/out/gpu_check.tar.gz ] || touch {self.folder}/saved; exit 1"}
        self.check(programs=programs)
        self.assertTrue((self.folder / "saved").exists())

    def test_second_half_needs_the_build_of_the_first(self):
        done = self.check("--half", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.check("--half", "2").returncode, 0)
        shutil.rmtree(self.folder / "build/bin")
        shutil.rmtree(self.folder / "out")
        done = self.run_check("--half", "2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--half 1", done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_continues_after_failed_or_skipped_step(self):
        wrong = '\n[[ "$*" != *2_ranks || "$*" = *-N* ]] || { echo the sum is wrong; exit 8; }'
        done = self.check(programs={**FAKE_PROGRAMS, "ctest": FAKE_PROGRAMS["ctest"] + wrong,
                                    "python3": '[[ "$*" != *baseline* ]] || { echo no torch; exit 77; }'})
        self.assertEqual(done.returncode, 1)
        report, results = self.results()
        self.assertEqual({name: result for name, result in results.items() if result != "passed"},
                         {"tests.2_ranks": "failed", "baseline": "skipped"})
        self.assertIn("the sum is wrong", done.stdout)
        self.assertRegex(done.stdout, r"baseline +skipped +\d+ s  no torch")
        self.assertEqual(report["failed"], 1)
        self.assertRegex(done.stdout, r"1 of \d+ steps failed")

    def test_filter_that_matches_no_test_fails(self):
        self.write_program("build/tests/gpu_move_tiles_test", FAKE_TEST.replace('[[ "$*"', '[[ "$*" = *KeepsInfinities* || "$*"'))
        done = self.check("--half", "1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.results("gpu_check_half_1.tar.gz")[1]["filters"], "failed")
        self.assertIn("no test of gpu_move_tiles_test matches MoveTiles.KeepsInfinitiesAndNan", done.stdout)

    def test_ctest_filter_that_matches_no_test_fails(self):
        lists = '[[ "$*" != *" -N "* || "$*" = *cumem* ]] || echo "  Test #1: some_test"'
        done = self.check("--half", "1", programs={**FAKE_PROGRAMS, "ctest": lists})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.results("gpu_check_half_1.tar.gz")[1]["filters"], "failed")
        self.assertIn("no test matches ctest -L gpu -R 2_ranks_cumem", done.stdout)

    def test_every_run_of_ctest_fails_without_tests(self):
        text, _ = self.steps()
        for command in re.findall(r"ctest --test-dir [^;\n]*", text):
            self.assertIn("--no-tests=error", command)

    def test_total_limit_ends_hanging_step(self):
        hangs = '\n[[ "$*" = *" -N "* ]] || sleep 40'
        done = self.check("--limit", "7", "--half", "1", programs={**FAKE_PROGRAMS, "ctest": FAKE_PROGRAMS["ctest"] + hangs})
        self.assertEqual(done.returncode, 1)
        _, results = self.results("gpu_check_half_1.tar.gz")
        self.assertEqual({result for name, result in results.items() if name.startswith("tests.")}, {"out of time"})
        self.assertIn("no time was left", self.log("racecheck", "gpu_check_half_1.tar.gz"))

    def test_slower_multiplies_limits(self):
        self.assertEqual({name: 3 * limit for name, limit in self.steps()[1].items()}, self.steps("--slower", "3")[1])

    def test_compiles_with_gcc_13(self):
        recording = {**FAKE_PROGRAMS, "cmake": f'echo "CUDAHOSTCXX=$CUDAHOSTCXX $*" >> {self.folder}/cmake.log'}
        self.assertEqual(self.check("--half", "2", programs=recording).returncode, 0)
        self.assertRegex((self.folder / "cmake.log").read_text(), r"CUDAHOSTCXX=g\+\+-13 .*-DCMAKE_CXX_COMPILER=g\+\+-13")
        (self.folder / "cmake.log").unlink()
        self.assertEqual(self.check("--half", "2", programs={**recording, "c++": "echo 'c++ (Ubuntu 13.3.0-6ubuntu2) 13.3.0'"}).returncode, 0)
        self.assertNotIn("g++-13", (self.folder / "cmake.log").read_text())
        self.assertIn("c++ is g++ 13", self.log("g++-13", "gpu_check_half_2.tar.gz"))

    @unittest.skipIf(shutil.which("g++-13"), "SKIPPED: g++-13 is installed")
    def test_missing_gcc_13_is_in_the_table(self):
        programs = {name: text for name, text in FAKE_PROGRAMS.items() if name != "g++-13"}
        done = self.check("--half", "2", programs=programs)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"g\+\+-13 +skipped +\d+ s  g\+\+-13 is not installed")

    def test_bundle_folder_is_used_and_missing_bundle_is_usage_error(self):
        bundle = self.folder / "bundle"
        bundle.mkdir()
        self.assertEqual(self.check("--deps", str(bundle)).returncode, 2)
        self.assertEqual(self.check("--deps", str(bundle / "no.tar.gz")).returncode, 2)
        (bundle / "env.sh").write_text("export FROM_BUNDLE=yes\n")
        done = self.check("--deps", str(bundle), programs={**FAKE_PROGRAMS, "cmake": '[ "$FROM_BUNDLE" = yes ]'})
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_bundle_archive_is_unpacked_once(self):
        archive = self.bundle("export FROM_BUNDLE=first\n")
        first = {**FAKE_PROGRAMS, "cmake": '[ "$FROM_BUNDLE" = first ]', "mpirun": 'echo "mpirun of $FROM_BUNDLE"'}
        self.assertEqual(self.check("--half", "1", "--deps", archive, programs=first).returncode, 0)
        self.assertEqual(self.check("--half", "2", "--deps", archive, programs=first).returncode, 0)
        self.assertIn("already unpacked", self.log("deps", "gpu_check_half_2.tar.gz"))
        self.assertIn("mpirun of first", self.log("machine", "gpu_check_half_2.tar.gz"))
        (self.folder / "build/CMakeCache.txt").write_text("")
        archive = self.bundle("export FROM_BUNDLE=second\n")
        self.assertEqual(self.check("--half", "1", "--deps", archive, programs={**first, "cmake": '[ "$FROM_BUNDLE" = second ]'}).returncode, 0)
        self.assertFalse((self.folder / "build/CMakeCache.txt").exists())

    def test_broken_bundle_archive_fails(self):
        (self.folder / "broken.tar.gz").write_text("no archive")
        done = self.check("--half", "1", "--deps", str(self.folder / "broken.tar.gz"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.results("gpu_check_half_1.tar.gz")[1]["deps"], "failed")

    def test_usage_errors(self):
        for options in (["--limit", "soon"], ["--limit"], ["--fast"], ["--half", "3"], ["--slower", "0"]):
            self.assertEqual(self.check(*options).returncode, 2)


class BundleEnvironment(Folder):
    """env.sh of the bundle."""

    def setUp(self):
        super().setUp()
        libraries = self.folder / "usr/lib/x86_64-linux-gnu"
        for name in ("libmpi.so.40", "libfmt.so.9", "libz.so.1"):
            self.write_program(libraries / name, "")
        self.write_program("needed/libudev.so.1", "")
        shutil.copy(SCRIPTS / "gpu_bundle_env.sh", self.folder / "env.sh")
        # The libraries that this machine has.
        on_machine = ("libz.so.1 (libc6,x86-64) => /lib/libz.so.1", "libmpi.so.40 (libc6,x86-64) => /lib/libmpi.so.40",
                      "libfmt.so.9 (libc6) => /lib32/libfmt.so.9")  # the last one is for 32-bit programs
        self.write_program("programs/ldconfig", "#!/bin/bash\n" + "".join(f"printf '\\t{line}\\n'\n" for line in on_machine))

    def sourced(self, commands, **variables):
        environment = {"PATH": f"{self.folder}/programs:{os.environ['PATH']}", **variables}
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", f". {self.folder}/env.sh; {commands}"], capture_output=True, text=True,
                              timeout=50, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_libraries_are_behind_those_of_the_machine(self):
        selected = f"{self.folder}/selected"
        self.assertEqual(self.sourced('echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH="/usr/local/nvidia/lib64:/opt/lib"),
                         [f"/usr/local/nvidia/lib64:/opt/lib:{selected}"])
        self.assertEqual(self.sourced('echo "$LD_LIBRARY_PATH"'), [selected])

    def test_libraries_of_the_machine_are_not_replaced(self):
        self.sourced("true")
        self.assertEqual({path.name for path in (self.folder / "selected").iterdir()}, {"libmpi.so.40", "libfmt.so.9", "libudev.so.1"})
        for path in (self.folder / "selected").iterdir():
            self.assertFalse(os.path.isabs(os.readlink(path)))
            self.assertTrue(path.exists(), path)

    def test_may_be_sourced_twice(self):
        self.assertEqual(self.sourced(f'. {self.folder}/env.sh; echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH="/opt/lib"),
                         [f"/opt/lib:{self.folder}/selected"])

    def test_sets_no_variable_that_horo_does_not_know(self):
        self.assertEqual(self.sourced("compgen -v | grep -i horo || true"), [])

    def test_programs_and_builds_find_the_bundle(self):
        lines = self.sourced('echo "$PATH"; echo "$CMAKE_PREFIX_PATH"; echo "$OPAL_PREFIX"; env | grep -c PMIX_', CMAKE_PREFIX_PATH="/opt")
        self.assertTrue(lines[0].startswith(f"{self.folder}/usr/bin:"))
        self.assertEqual(lines[1:3], [f"{self.folder}/usr:/opt", f"{self.folder}/usr"])
        self.assertEqual(int(lines[3]), 6)


def step_report(precision, **changes):
    """A report like that of train_step_bench with one network."""
    rows = [{"case": "resnet18-cifar", "mode": mode, "check_finite": check_finite, "median_ms": 10.0, "exposed_us": 50.0}
            for mode in ("plain", "graph") for check_finite in (False, True)]
    return {"precision": precision, "steps_per_sample": 4, "cudnn_search": "heuristic", "is_deterministic": True, "allow_tf32": False,
            "divide": 1, "rows": rows, **changes}


def baseline_report(median_ms, **changes):
    """A report like that of gpu_baseline.py."""
    cases = [("bfloat16", mode) for mode in ("eager", "compiled", "eager-benchmark")] + [("float32", "eager")]
    rows = [{"case": "resnet18-cifar", "precision": precision, "mode": mode, "check_finite": check_finite, "median_ms": median_ms}
            for precision, mode in cases for check_finite in (False, True)]
    rows.append({"case": "adamw-124m", "precision": "float32", "mode": "eager", "check_finite": False, "median_ms": 1.0})
    return step_report("", **{"rows": rows, **changes})


DEVICE_REPORT = {
    "moves": [{"what": f"{kind} resnet50, 161 tensors, as float32", "model": "resnet50", "wire": "float32", "per_copy": per_copy, "us": {"median": 60.0}}
              for kind, per_copy in (("pack", 0.9), ("unpack", 0.8))],
    "small_tensors": {"one_launch_us": {"median": 10.0}, "copies_per_launch": 30.0}, "adamw": {"per_copy": 0.9, "us": {"median": 900.0}},
    "latency": [{"bytes": 4, "p50_us": 20.0, "p99_us": 70.0}],
    "host_times": [{"call": "record of an event", "us": {"median": 1.0}}, {"call": "wait for an event", "us": {"median": 3.0}}],
    "exchange": {"us": {"median": 110.0}, "host_us": {"median": 200.0}}}


class Verdicts(Folder):
    """gpu_verdicts.py."""

    def verdicts(self, **reports):
        for name, report in reports.items():
            (self.folder / f"{name}.json").write_text(json.dumps(report))
        done = subprocess.run([sys.executable, SCRIPTS / "gpu_verdicts.py", self.folder, "--json", self.folder / "verdicts.json"], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = {line["what"]: line for line in json.loads((self.folder / "verdicts.json").read_text())}
        for what, line in lines.items():
            self.assertRegex(done.stdout, rf"(?m)^{re.escape(what)} +{re.escape(line['goal'])} +{line['verdict']}")
        return lines, done.stdout

    def assert_line(self, line, verdict, measured=""):
        self.assertEqual((line["verdict"], line["measured"]), (verdict, measured), line["what"])

    def test_figures_of_the_device_are_compared_with_goals(self):
        lines, text = self.verdicts(device_bench=DEVICE_REPORT)
        self.assert_line(lines["pack resnet50 as float32, of the copy"], "met", "90.0 %")
        self.assert_line(lines["unpack resnet50 as float32, of the copy"], "missed", "80.0 %")
        self.assert_line(lines["pack gpt2 as bfloat16, of the copy"], "not measured")
        self.assert_line(lines["512 tensors of 12 KB, one launch"], "met", "10.00 us")
        self.assert_line(lines["512 tensors of 12 KB, copies per launch"], "met", "30.00")
        self.assert_line(lines["enqueue to done, 4 bytes, median"], "met", "20.00 us")
        self.assert_line(lines["enqueue to done, 4 bytes, 99 of 100"], "missed", "70.00 us")
        self.assert_line(lines["host time, record of an event"], "met", "1.00 us")
        self.assert_line(lines["host time, wait for an event"], "missed", "3.00 us")
        self.assert_line(lines["exchange of resnet50, per pack and unpack"], "met", "0.92")
        self.assert_line(lines["exchange of resnet50, host time"], "missed", "200.00 us")
        self.assertEqual(lines["pack resnet50 as float32, of the copy"]["goal"], "at least 85.0 %")
        kinds = [line["verdict"] for line in lines.values()]
        self.assertIn(f"{len(lines)} goals: {kinds.count('met')} met, {kinds.count('missed')} missed, "
                      f"{kinds.count('not measured')} not measured, 0 not comparable\n", text)

    def test_steps_are_compared_with_pytorch(self):
        lines, _ = self.verdicts(train_step_bench=step_report("bfloat16"), train_step_bench_float32=step_report("float32"),
                                 baseline=baseline_report(9.0), device_bench=DEVICE_REPORT)
        slower = "1.11 (horo 10.000 ms, PyTorch 9.000 ms)"
        for checked in ("", ", checked"):
            self.assert_line(lines[f"resnet18-cifar, bfloat16{checked}: plain / eager"], "missed", slower)
            self.assert_line(lines[f"resnet18-cifar, bfloat16{checked}: graph / compiled"], "met", slower)  # at most 1.2
            self.assert_line(lines[f"resnet18-cifar, float32{checked}: plain / eager"], "missed", slower)
        self.assert_line(lines["resnet18-cifar, bfloat16: plain / eager-benchmark"], "missed", slower)
        self.assert_line(lines["resnet18-cifar, bfloat16: exposed communication, of the step"], "met", "0.5 %")
        self.assert_line(lines["AdamW, 124,439,808 values: horo / PyTorch, fused"], "met", "0.90 (horo 0.900 ms, PyTorch 1.000 ms)")
        self.assert_line(lines["resnet20-cifar, bfloat16: plain / eager"], "not measured")

    def test_different_settings_are_not_compared(self):
        lines, _ = self.verdicts(train_step_bench=step_report("bfloat16"), baseline=baseline_report(20.0, steps_per_sample=1))
        line = lines["resnet18-cifar, bfloat16: plain / eager"]
        self.assertEqual(line["verdict"], "not comparable")
        self.assertIn("steps_per_sample", line["measured"])
        lines, _ = self.verdicts(baseline=baseline_report(20.0, is_deterministic=False))
        self.assertEqual(lines["resnet18-cifar, bfloat16: plain / eager"]["verdict"], "not comparable")
        self.assertEqual(lines["resnet18-cifar, bfloat16: plain / eager-benchmark"]["verdict"], "met")

    def test_failed_cases_and_broken_reports_are_not_measured(self):
        failed = baseline_report(1.0, rows=[{"case": "resnet18-cifar", "precision": "bfloat16", "mode": "eager", "error": "out of memory"}])
        (self.folder / "device_bench.json").write_text("{broken")
        lines, _ = self.verdicts(train_step_bench=step_report("bfloat16"), baseline=failed)
        self.assert_line(lines["resnet18-cifar, bfloat16: plain / eager"], "not measured", "(horo 10.000 ms)")
        self.assert_line(lines["512 tensors of 12 KB, one launch"], "not measured")

    def test_missing_folder_is_an_error(self):
        done = subprocess.run([sys.executable, SCRIPTS / "gpu_verdicts.py", self.folder / "none"], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (1, ""))


class Scripts(Folder):
    def test_scripts_pass_shellcheck(self):
        if shutil.which("shellcheck") is None:
            self.skipTest("SKIPPED: shellcheck is not installed")
        done = subprocess.run(["shellcheck", GPU_CHECK, SCRIPTS / "make_gpu_bundle.sh", SCRIPTS / "gpu_bundle_env.sh"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_bundle_contains_what_the_build_requires(self):
        """A package of the bundle for every library of HoroDependencies.cmake and HoroTesting.cmake."""
        required = set()
        for name in ("HoroDependencies.cmake", "HoroTesting.cmake"):
            required |= set(re.findall(r"^find_package\((\w+) ", (SCRIPTS.parent / "cmake" / name).read_text(), re.MULTILINE))
        packages = {"MPI": "libopenmpi-dev", "fmt": "libfmt-dev", "spdlog": "libspdlog-dev", "nlohmann_json": "nlohmann-json3-dev",
                    "Boost": "libboost-program-options1.74-dev", "ZLIB": "zlib1g-dev", "oneDNN": "libdnnl-dev", "GTest": "libgtest-dev"}
        of_the_compiler = {"Threads", "OpenMP", "Python3"}
        text = (SCRIPTS / "make_gpu_bundle.sh").read_text()
        for library in required - of_the_compiler:
            self.assertIn(library, packages)
            self.assertIn(f" {packages[library]} ", text.replace("\n", " "))

    def test_baseline_and_benchmark_time_the_same_number_of_steps(self):
        steps = re.search(r"kStepsPerSample = (\d+);", TRAIN_STEP_BENCH.read_text()).group(1)
        self.assertRegex((SCRIPTS / "gpu_baseline.py").read_text(), rf"(?m)^STEPS_PER_SAMPLE = {steps}\b")

    def test_baseline_needs_pytorch_and_gpu(self):
        (self.folder / "torch.py").write_text("raise ImportError('none')\n")
        done = subprocess.run([sys.executable, SCRIPTS / "gpu_baseline.py"], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=str(self.folder)))
        self.assertEqual((done.returncode, done.stdout.count("\n")), (77, 1), done.stderr)
        self.assertIn("PyTorch", done.stdout)


if __name__ == "__main__":
    unittest.main()
