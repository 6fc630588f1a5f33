#!/usr/bin/env python3
"""Tests a lab of emulated hosts, and jobs that run in it. Each class is one CTest.

The environment variables FAULT_JOB, HORORUN, ONE_ALLREDUCE and WATCHED_JOB are the paths of these programs.
"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from lab import ENVIRONMENT, Lab, run_or_skip

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import is_alive

FAULT_LIMIT_S = 15
GRACE_S = 5


class InLab(unittest.TestCase):
    HOSTS = 2

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(cls.HOSTS).__enter__()
        cls.addClassCleanup(cls.lab.__exit__)


class Commands(InLab):
    def test_hosts_have_names_and_addresses(self):
        status = self.lab.call("status").stdout
        self.assertIn("2 hosts, rate 1gbit", status)
        for i, host in enumerate(self.lab.names()):
            self.assertEqual(self.lab.call("exec", host, "hostname").stdout, f"{host}\n")
            self.assertRegex(status, rf"{host} +10\.77\.0\.{i + 1} ")

    def test_hosts_share_neither_memory_nor_temporary_files(self):
        for place in ("/dev/shm", "$TMPDIR"):
            self.assertEqual(self.lab.call("exec", "host0", "sh", "-c", f"echo 0 > {place}/mine").returncode, 0)
            self.assertNotEqual(self.lab.call("exec", "host1", "sh", "-c", f"cat {place}/mine").returncode, 0)
            self.assertEqual(self.lab.call("exec", "host0", "sh", "-c", f"rm {place}/mine").returncode, 0)
        self.assertFalse(os.path.exists("/dev/shm/mine"))

    def test_exit_codes_and_arguments_pass_through(self):
        self.assertEqual(self.lab.call("run", "2", "true").returncode, 0)
        self.assertEqual(self.lab.call("run", "1", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.lab.call("exec", "host1", "sh", "-c", "exit 8").returncode, 8)
        done = self.lab.call("run", "1", "printf", "%s|", "a b", "--", "$x")
        self.assertEqual(done.stdout, "a b|--|$x|" * 2)

    def test_ranks_are_placed_host_by_host(self):
        done = self.lab.call("run", "2", "--tag-output", "--", "hostname")
        self.assertEqual(sorted(line.split(",")[1] for line in done.stdout.splitlines()),
                         [f"{rank}]<stdout>:host{rank // 2}" for rank in range(4)])

    def test_unknown_host_is_rejected(self):
        done = self.lab.call("exec", "host2", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'host2' is none of host0 ... host1", done.stderr)

    def test_same_lab_is_kept_and_other_lab_replaces_it(self):
        self.lab.call("exec", "host0", "touch", "/dev/shm/mark")
        self.assertEqual(self.lab.call("up", 2).returncode, 0)
        self.assertEqual(self.lab.shared_memory_files("host0"), ["mark"])
        self.assertEqual(self.lab.call("up", 2, "100mbit").returncode, 0)
        self.assertEqual(self.lab.shared_memory_files("host0"), [])
        self.assertIn("rate 100mbit", self.lab.call("status").stdout)
        self.assertEqual(self.lab.call("up", 2, "1gbit").returncode, 0)


class Ending(unittest.TestCase):
    def is_gone(self, lab):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        with open("/proc/mounts") as file:
            mounts = file.read()
        name = ENVIRONMENT["CLUSTER_LAB"]
        return name not in listed and name not in mounts and not os.path.exists(f"/run/horo-cluster-lab/{name}")

    def test_down_kills_processes_and_leaves_nothing(self):
        with Lab(2) as lab:
            sleeper = lab.start("exec", "host1", "sleep", "100")
            while lab.processes("host1") != [sleeper.pid]:
                time.sleep(0.01)
            self.assertEqual(lab.call("down").returncode, 0)
            self.assertEqual(sleeper.wait(GRACE_S), -signal.SIGKILL)
            sleeper.stdout.close()
            self.assertTrue(self.is_gone(lab))
            self.assertEqual(lab.call("down").returncode, 0)
            done = lab.call("run", "1", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn("no lab is up", done.stderr)

    def test_incomplete_lab_is_removed_or_replaced(self):
        with Lab(2) as lab:
            for end in ("down", "up"):
                folder = f"/run/horo-cluster-lab/{ENVIRONMENT['CLUSTER_LAB']}"
                os.unlink(f"{folder}/lab")  # written last
                subprocess.run(["ip", "netns", "delete", lab.namespace("host1")], check=True)
                self.assertEqual(lab.call("status").returncode, 2)
                self.assertEqual(lab.call("down").returncode if end == "down" else 0, 0)
                self.assertTrue(end == "up" or self.is_gone(lab))
                self.assertEqual(lab.call("up", 2).returncode, 0)
                self.assertEqual(lab.call("run", "1", "true").returncode, 0)


class Wire(unittest.TestCase):
    MIB = 128  # large compared with the traffic of the job's start

    def bytes_per_host(self, ranks, memory):
        with Lab(2, "none") as lab:
            before = lab.sent()
            done = lab.call("run", ranks, os.environ["ONE_ALLREDUCE"], memory, self.MIB, limit_s=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return [after - start for start, after in zip(before, lab.sent())]

    def test_more_ranks_per_host_send_no_more_bytes(self):
        for ranks, memory in ((1, "ordinary"), (2, "ordinary"), (2, "arena")):
            with self.subTest(ranks=ranks, memory=memory):
                # TCP may retransmit some bytes.
                sent = min((self.bytes_per_host(ranks, memory) for _ in range(3)), key=max)
                print(f"bytes sent per host for {self.MIB} MiB, {ranks} ranks per host, {memory} memory: {sent}",
                      flush=True)
                for bytes_of_host in sent:  # 2 (m-1)/m N bytes per host with m = 2, plus headers
                    self.assertAlmostEqual(bytes_of_host / (self.MIB << 20), 1, delta=0.03)


class Faults(InLab):
    def job(self, fault, rank):
        """Starts fault_job with two ranks per host. Returns the job, the pids and the output so far."""
        job = self.lab.start("run", "2", os.environ["FAULT_JOB"], fault, rank)
        self.addCleanup(job.stdout.close)
        pids, text = [], ""
        while len(pids) < 4:
            line = job.stdout.readline()
            self.assertTrue(line, f"only {len(pids)} ranks started: {text}")
            text += line
            pids += map(int, re.findall(r"rank \d+ pid (\d+)", line))
        return job, pids, text

    def expect_end_without_leftovers(self, job, pids, text, lost_host=None):
        start = time.monotonic()
        text += job.communicate(timeout=FAULT_LIMIT_S)[0]
        print(f"ended with exit code {job.returncode} after {time.monotonic() - start:.1f} s", flush=True)
        self.assertNotEqual(job.returncode, 0, text)
        deadline = time.monotonic() + GRACE_S
        while left := self.leftovers(pids, lost_host):
            self.assertLess(time.monotonic(), deadline, f"left behind: {left}\n{text}")
            time.sleep(0.05)

    def leftovers(self, pids, lost_host):
        left = [pid for pid in pids if is_alive(pid)]
        for host in self.lab.names():
            left += [f"{host}:{pid}" for pid in self.lab.processes(host)]
            # Open MPI unlinks its segments only at the end of the job, so they remain on a lost host.
            left += [f"{host}:/dev/shm/{file}" for file in self.lab.shared_memory_files(host)
                     if host != lost_host or not file.startswith("vader_segment")]
        return left

    def test_killed_rank_ends_job(self):
        for rank in (0, 3):
            with self.subTest(rank=rank):
                self.expect_end_without_leftovers(*self.job("kill", rank))

    def test_rank_killed_in_allocate_leaves_nothing(self):
        for _ in range(3):  # the rank is killed at a random moment in each
            # Open MPI's files may remain on the host of the killed rank, where no hororun removes them.
            self.expect_end_without_leftovers(*self.job("kill_in_allocate", 3), lost_host="host1")

    def test_lost_host_ends_job(self):
        job = self.job("kill", 99)  # not a rank of the job, so fault_job itself does not fail
        for pid in self.lab.processes("host1"):
            os.kill(pid, signal.SIGKILL)
        self.expect_end_without_leftovers(*job, lost_host="host1")


class Watchdog(InLab):
    def output_of_failed_job(self, fault, rank):
        """Returns the output of a job with two ranks per host, one of which fails."""
        job = self.lab.start("run", "2", "env", "HORO_TIMEOUT=4s", "HORO_STALL_WARNING=1s", os.environ["WATCHED_JOB"],
                             fault, rank, "5")
        text = job.communicate(timeout=60)[0]
        self.assertNotEqual(job.returncode, 0, text)
        deadline = time.monotonic() + GRACE_S
        while left := [pid for host in self.lab.names() for pid in self.lab.processes(host)]:
            self.assertLess(time.monotonic(), deadline, f"left behind: {left}\n{text}")
            time.sleep(0.05)
        return text

    def test_stopped_rank_is_named_with_host_and_ends_job(self):
        for rank in (0, 1, 2, 3):
            with self.subTest(rank=rank):
                self.assertRegex(self.output_of_failed_job("stop", rank),
                                 rf"rank {rank} \(host host{rank // 2}\b[^)]*\).*stopped")

    def test_late_rank_on_other_host_is_named(self):
        text = self.output_of_failed_job("late", 3)
        self.assertRegex(text, r"warning \[rank 0\] .*rank 3 \(host host1\b")
        self.assertRegex(text, r"watched_job: .*rank 3 .*HORO_TIMEOUT is 4 s")


class Links(InLab):
    """The link between two of four hosts is cut permanently."""
    HOSTS = 4
    TIMEOUT_S = 6  # HORO_TIMEOUT
    LIMIT_S = TIMEOUT_S + 15 + 20  # the documented limit, plus a margin for a busy machine

    def blackhole(self, change, hosts):
        for host, other in (hosts, reversed(hosts)):
            subprocess.run(["ip", "-n", self.lab.namespace(f"host{host}"), "route", change, "blackhole",
                            f"10.77.0.{other + 1}/32"], check=True)

    def output_of_cut_job(self, hosts, *launch, kind="endless"):
        """Runs a job with one rank per host, cuts the link between `hosts`, and returns the output after its end.

        `kind`: the FAULT of watched_job. "endless" trains and "registering" registers plans.
        """
        program = ["env", f"HORO_TIMEOUT={self.TIMEOUT_S}s", "HORO_STALL_WARNING=1s", os.environ["WATCHED_JOB"],
                   kind, "0", "5"]
        job = self.lab.start(*launch, *program)
        self.addCleanup(job.stdout.close)
        text = ""
        while len(re.findall(r"rank \d+ pid ", text)) < self.HOSTS:
            line = job.stdout.readline()
            self.assertTrue(line, text)
            text += line
        time.sleep(1)
        self.blackhole("add", hosts)
        start = time.monotonic()
        try:
            text += job.communicate(timeout=self.LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            self.lab.call("down")
            self.fail(f"not ended after {self.LIMIT_S} s: {text}{job.communicate()[0]}")
        finally:
            self.blackhole("delete", hosts)
        print(f"ended with exit code {job.returncode} {time.monotonic() - start:.1f} s after the cut", flush=True)
        self.assertNotEqual(job.returncode, 0, text)
        return text

    def test_cut_between_two_hosts_gives_same_error_on_all_ranks(self):
        text = self.output_of_cut_job((1, 3), "run", "1")
        errors = set(re.findall(r"watched_job: (.*)", text))
        self.assertEqual(len(errors), 1, text)
        self.assertRegex(errors.pop(), r"ranks? .*been in .*the exchange makes no progress.*HORO_TIMEOUT is 6 s")
        deadline = time.monotonic() + GRACE_S
        while left := [pid for host in self.lab.names() for pid in self.lab.processes(host)]:
            self.assertLess(time.monotonic(), deadline, f"left behind: {left}\n{text}")
            time.sleep(0.05)

    def output_of_cut_hororun(self, hosts, kind):
        listed = ",".join(f"{host}:1" for host in self.lab.names())
        text = self.output_of_cut_job(hosts, "exec", "host0", os.environ["HORORUN"], "--env",
                                    f"HORO_TIMEOUT={self.TIMEOUT_S}s", "-H", listed, kind=kind)
        # Open MPI's daemon on the disconnected host may remain.
        for host in self.lab.names()[:3]:
            self.assertEqual(self.lab.processes(host), [], text)
        return text

    def test_hororun_ends_job_with_unreachable_host(self):
        text = self.output_of_cut_hororun((0, 3), "endless")
        self.assertRegex(text, r"rank 3 \(host host3\b.*no heartbeat")

    def test_cut_while_plans_are_registered_names_host(self):
        for hosts in ((0, 3), (1, 3)):
            with self.subTest(hosts=hosts):
                text = self.output_of_cut_hororun(hosts, "registering")
                self.assertRegex(text, rf"hororun: .*\bhost({hosts[0]}|{hosts[1]})\b")


if __name__ == "__main__":
    run_or_skip(unittest.main)
