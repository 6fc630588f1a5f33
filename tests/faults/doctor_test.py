#!/usr/bin/env python3
"""Starts jobs in which one rank misbehaves and checks the reports of hororun doctor.

usage: doctor_test.py HORORUN DOCTOR_JOB

If the job ends, its flight records are examined afterwards. If the job hangs, it is examined while it runs and again
after it was stopped.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HORORUN = JOB = ""
STALL = "500ms"


class Doctor(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="horo-doctor-")
        self.addCleanup(temporary.cleanup)
        self.base = Path(temporary.name)
        self.flights = self.base / "flights"

    def start(self, ranks, fault, rank, **variables):
        environment = dict(os.environ, TMPDIR=str(self.base), HORO_STALL_WARNING=STALL,
                           HORO_FLIGHT_DIR=str(self.flights), **variables)
        return subprocess.Popen([HORORUN, "-np", str(ranks), JOB, fault, str(rank)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def examine(self, *arguments):
        done = subprocess.run([HORORUN, "doctor", str(self.flights), "--json", "--stall-after", STALL, *arguments],
                              capture_output=True, text=True, timeout=30)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def command(self, name, *arguments):
        return subprocess.run([HORORUN, name, str(self.flights), *arguments], capture_output=True, text=True, timeout=30)

    def run_to_end(self, ranks, fault, rank, **variables):
        job = self.start(ranks, fault, rank, **variables)
        _, errors = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, errors)
        return self.examine(), errors

    def verdict_while_running(self, ranks, fault, rank, kind):
        """Starts a job that hangs. Returns the report with the verdict `kind`, and the running job."""
        job = self.start(ranks, fault, rank)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.send_signal, signal.SIGTERM)
        deadline = time.monotonic() + 30
        report = None
        while time.monotonic() < deadline:
            report = self.examine()
            if report and report["verdict"]["kind"] == kind and len(report["ranks"]) == ranks:
                return report, job
            time.sleep(0.2)
        self.fail(f"no verdict '{kind}' in time; the last report: {report}")

    def stop(self, job):
        job.send_signal(signal.SIGTERM)
        return job.communicate(timeout=30)[1]

    def assert_blamed(self, report, kind, *ranks):
        self.assertEqual((report["verdict"]["kind"], report["verdict"]["blamed"]), (kind, list(ranks)), report)

    def test_killed_during_gradient_exchange(self):
        for ranks, rank in ((2, 0), (2, 1), (4, 2)):
            with self.subTest(ranks=ranks, rank=rank):
                report, errors = self.run_to_end(ranks, "kill", rank)
                self.assert_blamed(report, "dead", rank)
                self.assertIn(f"rank {rank} ", report["verdict"]["text"])
                self.assertRegex(errors, rf"(?m)^hororun: rank {rank} .* (was killed by signal 9|is dead)")
                self.assertIn(f"hororun doctor {self.flights}", errors)

    def test_killed_between_named_operations(self):
        for ranks, rank in ((2, 1), (3, 0), (4, 3)):
            with self.subTest(ranks=ranks, rank=rank):
                report, _ = self.run_to_end(ranks, "kill_named", rank)
                self.assert_blamed(report, "dead", rank)

    def test_killed_on_one_of_several_nodes(self):
        report, _ = self.run_to_end(4, "kill", 2, HORO_RANKS_PER_NODE="2")
        self.assert_blamed(report, "dead", 2)

    def test_crash_is_reported_with_signal(self):
        report, _ = self.run_to_end(3, "crash", 1)
        self.assert_blamed(report, "failed", 1)
        self.assertIn("signal 11 (Segmentation fault)", report["verdict"]["text"])

    def test_exception_is_failure(self):
        report, errors = self.run_to_end(3, "throw", 1)
        self.assert_blamed(report, "failed", 1)
        self.assertIn("diverged", errors)

    def test_rank_left_early(self):
        report, _ = self.run_to_end(2, "return", 1)
        # The other rank then failed with the error of its operation.
        self.assert_blamed(report, "ended", 1)
        self.assertRegex(report["verdict"]["text"], r"'loss' cannot complete: rank 1 \(host .*\) has shut down")

    def test_rank_never_submits(self):
        report, job = self.verdict_while_running(4, "absent", 3, "missing")
        self.assert_blamed(report, "missing", 3)
        text = report["verdict"]["text"]
        self.assertIn("never submitted 'loss'; ranks 0-2 have waited", text)
        self.assertIn("in phase 'data'", text)
        errors = self.stop(job)
        self.assertIn("never submitted 'loss'; ranks 0-2 have waited", errors)
        self.assert_blamed(self.examine(), "missing", 3)

    def test_rank_never_marks_gradient(self):
        report, job = self.verdict_while_running(3, "unmarked", 2, "missing")
        self.assert_blamed(report, "missing", 2)
        self.assertIn("never marked 'grad/fc2.weight'", report["verdict"]["text"])
        self.assertIn("in phase 'backward'", report["verdict"]["text"])
        self.stop(job)
        self.assert_blamed(self.examine(), "missing", 2)

    def test_collective_on_one_rank_only(self):
        report, job = self.verdict_while_running(3, "alone", 0, "different_operations")
        self.assert_blamed(report, "different_operations", 0)
        self.assertIn("a subset of ranks is in one collective and the rest in another", report["verdict"]["text"])
        self.assertRegex(report["verdict"]["text"], r"rank 0 \(host \S+, pid \d+\) in allreduce 'metric'")
        self.assertRegex(report["verdict"]["text"], r"ranks 1-2 \(host \S+, pids \d+, \d+\) in barrier 'end of epoch'")
        self.assertRegex(report["verdict"]["text"], r"last finished '|finished nothing")
        self.assertIn("'metric'", self.stop(job))

    def test_stopped_process(self):
        report, job = self.verdict_while_running(2, "stop", 1, "stopped")
        self.assert_blamed(report, "stopped", 1)
        stopped = next(rank["pid"] for rank in report["ranks"] if rank["rank"] == 1)
        self.assertIn(f"kill -CONT {stopped}", report["verdict"]["text"])
        self.assertRegex(report["verdict"]["text"], r"it (last finished '|has finished nothing)")
        os.kill(stopped, signal.SIGCONT)
        self.stop(job)

    def test_pause_is_not_stall(self):
        job = self.start(2, "pause", 1)
        deadline = time.monotonic() + 30
        report = None
        while not report or "in pause" not in report["verdict"]["text"]:
            self.assertLess(time.monotonic(), deadline, report)
            time.sleep(0.2)
            report = self.examine()
        self.assertEqual(report["verdict"]["kind"], "none")
        self.assertRegex(report["verdict"]["text"],
                         r"^rank 1 \(host \S+, pid \d+\) has been in pause '.+' for .+; rank 0 has waited .+ for '")
        self.stop(job)

    def test_rank_without_file_is_listed(self):
        self.run_to_end(4, "kill", 2)
        os.remove(self.flights / "rank.1.flight")
        self.assertEqual(self.examine()["absent"], [1])
        table = subprocess.run([HORORUN, "doctor", str(self.flights)], capture_output=True, text=True).stdout
        self.assertIn("no file of rank 1 here", table)
        self.assertRegex(table, r"(?m)^2 +\S+ +\d+ +dead ")

    def test_successful_job_leaves_no_default_files(self):
        environment = dict(os.environ, TMPDIR=str(self.base))
        environment.pop("HORO_FLIGHT_DIR", None)
        done = subprocess.run([HORORUN, "-np", "2", JOB, "none", "0"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.base.glob("horo-*")), [])
        done = subprocess.run([HORORUN, "-np", "2", JOB, "kill", "0"], env=environment, capture_output=True, text=True)
        self.assertIn("rank 0", done.stderr)
        self.assertEqual(len(list(self.base.glob("horo-*/*/rank.*.flight"))), 2)
        newest = subprocess.run([HORORUN, "doctor"], env=environment, capture_output=True, text=True)
        self.assertIn("rank 0", newest.stdout)
        done = subprocess.run([HORORUN, "-np", "2", JOB, "none", "0"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        newest = subprocess.run([HORORUN, "doctor"], env=environment, capture_output=True, text=True)
        self.assertRegex(newest.stdout, r"\Athe newest job that failed, last seen .* ago; jobs that ended well after it "
                                        r"left no files\n")

    def test_straggler_is_reported(self):
        _, errors = self.start(3, "slow", 1).communicate(timeout=60)
        done = self.command("stragglers")
        self.assertEqual(done.returncode, 0, done.stderr + errors)
        self.assertRegex(done.stdout, r"(?m)^rank 1 .* came last to .*, most of it in phase 'data'")
        for rank in range(3):
            self.assertRegex(done.stdout, rf"(?m)^{rank} .* % .* %")

    def test_timeline_of_ended_and_killed_jobs(self):
        for fault in ("none", "kill"):
            self.start(2, fault, 1).communicate(timeout=60)
            trace = self.base / f"{fault}.json"
            done = self.command("timeline", "-o", str(trace))
            self.assertEqual(done.returncode, 0, done.stderr)
            events = json.loads(trace.read_text())["traceEvents"]
            names = {(event["pid"], event["name"]) for event in events if event["ph"] == "X"}
            for rank in (0, 1):
                self.assertLessEqual({(rank, "loss"), (rank, "step"), (rank, "grad/bucket 1")}, names)
            self.assertEqual(sum(event["ph"] == "b" for event in events), sum(event["ph"] == "e" for event in events))

    def test_usage_errors_are_reported(self):
        for arguments, error_text in (
                (["timeline", str(self.base / "none")], "none cannot be read: No such file or directory"),
                (["doctor", str(self.base)], "no files of a flight recorder"),
                (["timeline", "-o"], "--output needs the name of a file"),
                (["stragglers", "--json"], "hororun stragglers --help"),
                (["timeline", "a", "b"], "'b' is a second one")):
            done = subprocess.run([HORORUN, *arguments], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2)
            self.assertIn(error_text, done.stderr)

    def test_files_in_named_directory_are_kept(self):
        job = self.start(2, "none", 0)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, errors)
        report = self.examine()
        self.assertEqual([rank["state"] for rank in report["ranks"]], ["ended", "ended"])
        self.assertEqual(report["verdict"]["kind"], "none")


if __name__ == "__main__":
    HORORUN, JOB = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
