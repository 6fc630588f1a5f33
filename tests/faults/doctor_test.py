#!/usr/bin/env python3
"""Starts jobs in which one rank goes wrong and checks what hororun doctor says of them.

usage: doctor_test.py HORORUN DOCTOR_JOB

Of jobs that end, what is left of them is looked at; of jobs that hang, first the running job and then,
once it was stopped, what is left.
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

    def examine(self, *words):
        done = subprocess.run([HORORUN, "doctor", str(self.flights), "--json", "--stall-after", STALL, *words],
                              capture_output=True, text=True, timeout=30)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def command(self, name, *words):
        return subprocess.run([HORORUN, name, str(self.flights), *words], capture_output=True, text=True, timeout=30)

    def run_to_its_end(self, ranks, fault, rank, **variables):
        job = self.start(ranks, fault, rank, **variables)
        _, errors = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, errors)
        return self.examine(), errors

    def verdict_while_running(self, ranks, fault, rank, kind):
        """The verdict on a job that hangs, and the job."""
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

    def test_killed_in_the_middle_of_an_exchange_of_gradients(self):
        for ranks, rank in ((2, 0), (2, 1), (4, 2)):
            with self.subTest(ranks=ranks, rank=rank):
                report, errors = self.run_to_its_end(ranks, "kill", rank)
                self.assert_blamed(report, "dead", rank)
                self.assertIn(f"rank {rank} ", report["verdict"]["text"])
                self.assertRegex(errors, rf"(?m)^hororun: rank {rank} .* (was killed by signal 9|is dead)")
                self.assertIn(f"hororun doctor {self.flights}", errors)

    def test_killed_between_named_operations(self):
        for ranks, rank in ((2, 1), (3, 0), (4, 3)):
            with self.subTest(ranks=ranks, rank=rank):
                report, _ = self.run_to_its_end(ranks, "kill_named", rank)
                self.assert_blamed(report, "dead", rank)

    def test_killed_on_one_of_several_nodes(self):
        report, _ = self.run_to_its_end(4, "kill", 2, HORO_RANKS_PER_NODE="2")
        self.assert_blamed(report, "dead", 2)

    def test_a_crash_is_named_by_its_signal(self):
        report, _ = self.run_to_its_end(3, "crash", 1)
        self.assert_blamed(report, "failed", 1)
        self.assertIn("signal 11 (Segmentation fault)", report["verdict"]["text"])

    def test_an_exception_is_a_failure(self):
        report, errors = self.run_to_its_end(3, "throw", 1)
        self.assert_blamed(report, "failed", 1)
        self.assertIn("diverged", errors)

    def test_a_rank_that_left_early(self):
        report, _ = self.run_to_its_end(2, "return", 1)
        # The other's operation ended with an error, which it did not survive.
        self.assert_blamed(report, "ended", 1)
        self.assertRegex(report["verdict"]["text"], r"'loss' cannot complete: rank 1 \(host .*\) has shut down")

    def test_a_rank_that_never_submits(self):
        report, job = self.verdict_while_running(4, "absent", 3, "missing")
        self.assert_blamed(report, "missing", 3)
        text = report["verdict"]["text"]
        self.assertIn("never submitted 'loss'; ranks 0-2 have waited", text)
        self.assertIn("in phase 'data'", text)
        errors = self.stop(job)
        self.assertIn("never submitted 'loss'; ranks 0-2 have waited", errors)
        self.assert_blamed(self.examine(), "missing", 3)

    def test_a_rank_that_never_marks_a_gradient(self):
        report, job = self.verdict_while_running(3, "unmarked", 2, "missing")
        self.assert_blamed(report, "missing", 2)
        self.assertIn("never marked 'grad/fc2.weight'", report["verdict"]["text"])
        self.assertIn("in phase 'backward'", report["verdict"]["text"])
        self.stop(job)
        self.assert_blamed(self.examine(), "missing", 2)

    def test_a_collective_on_one_rank_only(self):
        report, job = self.verdict_while_running(3, "alone", 0, "different_operations")
        self.assert_blamed(report, "different_operations", 0)
        self.assertIn("a subset of ranks is in one collective and the rest in another", report["verdict"]["text"])
        self.assertRegex(report["verdict"]["text"], r"rank 0 \(host \S+, pid \d+\) in allreduce 'metric'")
        self.assertRegex(report["verdict"]["text"], r"ranks 1-2 \(host \S+, pids \d+, \d+\) in barrier 'end of epoch'")
        self.assertRegex(report["verdict"]["text"], r"last finished '|finished nothing")
        self.assertIn("'metric'", self.stop(job))

    def test_a_stopped_process(self):
        report, job = self.verdict_while_running(2, "stop", 1, "stopped")
        self.assert_blamed(report, "stopped", 1)
        stopped = next(rank["pid"] for rank in report["ranks"] if rank["rank"] == 1)
        self.assertIn(f"kill -CONT {stopped}", report["verdict"]["text"])
        self.assertRegex(report["verdict"]["text"], r"it (last finished '|has finished nothing)")
        os.kill(stopped, signal.SIGCONT)
        self.stop(job)

    def test_a_pause_is_no_stall(self):
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

    def test_a_rank_without_a_file_is_named(self):
        self.run_to_its_end(4, "kill", 2)
        os.remove(self.flights / "rank.1.flight")
        self.assertEqual(self.examine()["absent"], [1])
        table = subprocess.run([HORORUN, "doctor", str(self.flights)], capture_output=True, text=True).stdout
        self.assertIn("no file of rank 1 here", table)
        self.assertRegex(table, r"(?m)^2 +\S+ +\d+ +dead ")

    def test_a_job_that_ends_well_leaves_no_default_files(self):
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

    def test_the_rank_that_the_others_wait_for(self):
        _, errors = self.start(3, "slow", 1).communicate(timeout=60)
        said = self.command("stragglers")
        self.assertEqual(said.returncode, 0, said.stderr + errors)
        self.assertRegex(said.stdout, r"(?m)^rank 1 .* came last to .*, most of it in phase 'data'")
        for rank in range(3):
            self.assertRegex(said.stdout, rf"(?m)^{rank} .* % .* %")

    def test_the_timeline_of_a_job_that_ended_and_of_one_that_was_killed(self):
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

    def test_mistakes_are_named(self):
        for words, said in ((["timeline", str(self.base / "none")], "none cannot be read: No such file or directory"),
                            (["doctor", str(self.base)], "no flight recorder's files"),
                            (["timeline", "-o"], "--output needs the name of a file"),
                            (["stragglers", "--json"], "hororun stragglers --help"),
                            (["timeline", "a", "b"], "'b' is one more")):
            done = subprocess.run([HORORUN, *words], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_files_in_a_named_directory_stay(self):
        job = self.start(2, "none", 0)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, errors)
        report = self.examine()
        self.assertEqual([rank["state"] for rank in report["ranks"]], ["ended", "ended"])
        self.assertEqual(report["verdict"]["kind"], "none")


if __name__ == "__main__":
    HORORUN, JOB = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
