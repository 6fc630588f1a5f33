#!/usr/bin/env python3
"""Runs the built hororun (its path is in HORORUN) with shell programs, or MPI_RANK, as ranks."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HORORUN = os.environ["HORORUN"]
MPI_RANK = os.environ["MPI_RANK"]  # tests/launcher/mpi_rank.cpp, built


def hororun(*words, timeout=30, **options):
    return subprocess.run([HORORUN, *words], capture_output=True, text=True, timeout=timeout, **options)


def processes_with(mark):
    """Ids of the processes that have `mark` among their words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue  # it has ended
        if mark.encode() in words:
            found.append(int(path.parent.name))
    return found


def children_of(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def wait_until(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class CommandLine(unittest.TestCase):
    def assert_refused(self, text, *words, **options):
        result = hororun(*words, **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("hororun: "), result.stderr)
        self.assertIn(text, result.stderr)

    def test_bad_input_gives_one_line_and_exit_code_2(self):
        for text, *words in [
            ("no program is given",),
            ("no program is given", "-np", "2"),
            ("-np 0", "-np", "0", "true"),
            ("-np -1", "-np", "-1", "true"),
            ("-np many", "-np", "many", "true"),
            ("-np 99999999999", "-np", "99999999999", "true"),
            ("-np 60000", "-np", "60000", "true"),
            ("Give -np N", "true"),
            ("'b' is not a number of slots", "-H", "a:b", "true"),
            ("':2' is not a number of slots", "-H", "a::2", "true"),
            ("-H needs a value", "-H", "", "true"),
            ("'a' is named twice", "-H", "a:2,a:2", "true"),
            ("IPv6", "-H", "[::1]:2", "true"),
            ("3 slots", "-np", "4", "-H", "a:2,b:1", "true"),
            ("--hostfile /no/such", "--hostfile", "/no/such", "true"),
            ("--hostfile /", "--hostfile", "/", "true"),
            ("did you mean --dry-run?", "--dryrun", "-np", "2", "true"),
            ("--env A", "-np", "2", "--env", "A", "true"),
            ("HORO_TIMEOUT: 'soon'", "-np", "2", "--env", "HORO_TIMEOUT=soon", "true"),
            ("'/no/such' does not exist", "-np", "2", "/no/such"),
            ("'/tmp' is a directory", "-np", "2", "/tmp"),
            ("is not on PATH", "-np", "2", "no\nsuch"),
            ("--output-dir /dev/null/x", "-np", "2", "--output-dir", "/dev/null/x", "true"),
            ("--json", "settings", "--json"),
        ]:
            with self.subTest(words=words):
                self.assert_refused(text, *words)

    def test_a_bad_line_of_a_hostfile_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "hosts"
            path.write_text("# ours\nlocalhost slots=2\n\nother slots=x\n")
            self.assert_refused(f"{path}:4: 'slots=x'", "--hostfile", str(path), "true")

    def test_a_missing_mpirun_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            result = hororun("-np", "1", "/bin/true", env={**os.environ, "PATH": directory})
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Ahororun: cannot start mpirun: .*; install Open MPI.*\n\Z")

    def test_version_and_help(self):
        self.assertRegex(hororun("--version").stdout, r"\Ahororun \d+\.\d+\.\d+\n\Z")
        self.assertIn("hororun -np 4 PROGRAM", hororun("--help").stdout)
        self.assertEqual(hororun("run", "--help").stdout, hororun("--help").stdout)

    def test_dry_run_prints_what_runs(self):
        """A recorder named mpirun gets the same words and variables from hororun as from a shell that
        is given the printed line."""
        recorder = "#!/bin/sh\nfor w in \"$@\" \"$HORO_SPIN\" \"$OMP_NUM_THREADS\" \"$A\" " \
                   "\"$OMPI_ALLOW_RUN_AS_ROOT\"; do printf '%s\\0' \"$w\"; done\n"
        words = ["-np", "2", "--env", "A=a b\n$c'", "--mpi-args", "--mca btl 'tcp,self'", "sh", "-c", "echo $1", "x y",
                 "", ":", "--json"]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "mpirun"
            path.write_text(recorder)
            path.chmod(0o755)
            search = {"PATH": f"{directory}:{os.environ['PATH']}"}
            ran = hororun(*words, env={**os.environ, **search, "HORO_SPIN": "20us"})
            line = hororun("--dry-run", *words, env={**os.environ, **search, "HORO_SPIN": "20us"}).stdout
            bare = {k: v for k, v in os.environ.items() if not k.startswith(("HORO_", "OMP"))}
            printed = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env={**bare, **search})
        self.assertIn("a b\n$c'", ran.stdout)
        self.assertIn("tcp,self", ran.stdout)
        self.assertEqual(ran.stdout, printed.stdout)


class Running(unittest.TestCase):
    def test_every_rank_runs(self):
        result = hororun("-np", "3", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.split("\n")), ["", "0 of 3", "1 of 3", "2 of 3"])
        self.assertEqual(result.stderr, "")

    def test_words_arrive_untouched(self):
        words = ["a b", "$HOME", "", "q'\"", "--json", "-np", "l1\nl2", "*", ":", "\\", "é"]
        result = hororun("run", "-np", "1", "printf", "<%s>", *words)
        self.assertEqual(result.stdout, "".join(f"<{word}>" for word in words), result.stderr)

    def test_variables_reach_the_ranks(self):
        result = hororun("-np", "1", "--env", "A=x;y, 'z'\nw", "sh", "-c",
                         'printf "%s|%s|%s" "$A" "$HORO_SPIN" "$OMP_NUM_THREADS"',
                         env={**os.environ, "HORO_SPIN": "3us", "OMP_NUM_THREADS": "5"})
        self.assertEqual(result.stdout, "x;y, 'z'\nw|3us|5", result.stderr)

    def test_hosts_on_this_machine(self):
        result = hororun("-H", "localhost:2", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK")
        self.assertEqual(sorted(result.stdout.split()), ["0", "1"], result.stderr)

    def test_hostfile_on_this_machine(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "my hosts"
            path.write_text("# ours\n\nlocalhost slots=2 max_slots=4  # here\n")
            result = hororun("--hostfile", str(path), "sh", "-c", "echo $OMPI_COMM_WORLD_RANK")
        self.assertEqual(sorted(result.stdout.split()), ["0", "1"], result.stderr)

    def test_output_directory_holds_each_ranks_output(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "new" / "out put"
            result = hororun("-np", "2", "--output-dir", str(path), "sh", "-c",
                             "echo out $OMPI_COMM_WORLD_RANK; echo err $OMPI_COMM_WORLD_RANK >&2")
            self.assertEqual(result.returncode, 0, result.stderr)
            for rank in range(2):
                self.assertEqual((path / f"rank.{rank}" / "stdout").read_text(), f"out {rank}\n")
                self.assertEqual((path / f"rank.{rank}" / "stderr").read_text(), f"err {rank}\n")
        self.assertEqual(sorted(result.stdout.splitlines()), ["out 0", "out 1"])

    def test_standard_input_reaches_rank_0(self):
        result = hororun("-np", "2", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 1 ] || cat", input="hello\n")
        self.assertEqual(result.stdout, "hello\n", result.stderr)


class Failing(unittest.TestCase):
    def assert_last_line(self, result, *patterns):
        """One of the patterns matches. mpirun names the first rank to fail most times, not always."""
        self.assertRegex(result.stderr.splitlines()[-1], r"\Ahororun: (" + "|".join(patterns) + r")\Z")

    def test_exit_code_passes_through(self):
        result = hororun("-np", "2", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 7; sleep 60")
        self.assertEqual(result.returncode, 7)
        self.assert_last_line(result, r"rank 1 ended first: exit code 7",
                              r"the job failed with exit code 7; mpirun did not name a rank")

    def test_a_killed_rank_ends_the_job(self):
        start = time.monotonic()
        result = hororun("-np", "3", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 2 ] && kill -9 $$; sleep 60")
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(result.returncode, 137)
        self.assert_last_line(result, r"rank 2 \(host .+\) ended first: killed by signal 9 \(Killed\)",
                              r"the job failed with exit code 137 \(signal 9, Killed\); mpirun did not name a rank")

    def test_other_ends_of_mpirun_are_reported_too(self):
        result = hororun("-np", "1", "--mpi-args", "--no-such-option", "true")
        self.assertNotEqual(result.returncode, 0)
        self.assert_last_line(result, r"the job failed with exit code \d+; mpirun did not name a rank")


class Stopping(unittest.TestCase):
    """Each test marks its ranks by a word of their own, and looks for it afterwards."""

    def setUp(self):
        self.mark = f"mark-{os.getpid()}-{self.id()}"
        self.shared_memory = set(os.listdir("/dev/shm"))

    def start(self, program=(MPI_RANK,)):
        """A job of 3 ranks, which have started when this returns."""
        ranks = 3
        job = subprocess.Popen([HORORUN, "-np", str(ranks), *program, self.mark], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.kill_left_overs)
        # hororun and mpirun have the mark among their words as well
        self.assertTrue(wait_until(lambda: len(processes_with(self.mark)) >= ranks + 2))
        if program[0] == MPI_RANK:
            self.assertEqual([job.stdout.readline() for _ in range(ranks)], ["ready\n"] * ranks)
        return job

    def kill_left_overs(self):
        for pid in processes_with(self.mark):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_is_left(self):
        self.assertTrue(wait_until(lambda: not processes_with(self.mark)), processes_with(self.mark))
        left = [name for name in set(os.listdir("/dev/shm")) - self.shared_memory if name.startswith("vader_segment")]
        self.assertEqual(left, [])

    def test_signals_that_stop(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                job = self.start()
                job.send_signal(number)
                _, errors = job.communicate(timeout=20)
                self.assertEqual(job.returncode, 128 + number)
                self.assertIn(f"hororun: stopped by signal {int(number)}", errors)
                self.assert_nothing_is_left()

    def test_ranks_that_ignore_signals(self):
        job = self.start(["sh", "-c", "trap '' INT TERM HUP; while :; do sleep 0.1; done"])
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=20)
        self.assertEqual(job.returncode, 130)
        self.assert_nothing_is_left()

    def test_a_killed_rank(self):
        job = self.start()
        start = time.monotonic()
        os.kill(max(processes_with(self.mark)), signal.SIGKILL)
        job.communicate(timeout=20)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(job.returncode, 137)
        self.assert_nothing_is_left()

    def test_a_killed_hororun_leaves_no_ranks(self):
        for program in ([MPI_RANK], ["sh", "-c", "sleep 300; echo"]):
            with self.subTest(program=program):
                job = self.start(program)
                job.kill()
                job.communicate(timeout=20)
                self.assert_nothing_is_left()

    def test_a_killed_mpirun_leaves_no_ranks(self):
        job = self.start(["sh", "-c", "sleep 300; echo"])
        mpirun = children_of(job.pid)
        self.assertEqual(len(mpirun), 1)
        os.kill(mpirun[0], signal.SIGKILL)
        job.communicate(timeout=20)
        self.assertEqual(job.returncode, 137)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
