#!/usr/bin/env python3
"""Runs the built hororun (HORORUN is its path) with shell programs or MPI_RANK as ranks."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from processes import MpiFiles

HORORUN = os.environ["HORORUN"]
MPI_RANK = os.environ["MPI_RANK"]  # the path of the program tests/launcher/mpi_rank.cpp
HORO_JOB = os.environ["HORO_JOB"]  # the path of the program tests/faults/fault_job.cpp


def hororun(*arguments, timeout=30, **options):
    return subprocess.run([HORORUN, *arguments], capture_output=True, text=True, timeout=timeout, **options)


def processes_with(mark):
    """Returns the ids of the processes whose command line contains `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command_line = path.read_bytes()
        except OSError:
            continue  # the process has ended
        if mark.encode() in command_line:
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
    def assert_rejected(self, text, *arguments, **options):
        result = hororun(*arguments, **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("hororun: "), result.stderr)
        self.assertIn(text, result.stderr)

    def test_bad_input_gives_one_line_and_exit_code_2(self):
        for text, *arguments in [
            ("no program is given",),
            ("no program is given", "-np", "2"),
            ("-np 0", "-np", "0", "true"),
            ("-np -1", "-np", "-1", "true"),
            ("-np many", "-np", "many", "true"),
            ("-np 99999999999", "-np", "99999999999", "true"),
            ("-np 60000", "-np", "60000", "true"),
            ("the number of ranks is missing", "true"),
            ("'b' is not a number of slots", "-H", "a:b", "true"),
            ("':2' is not a number of slots", "-H", "a::2", "true"),
            ("-H needs a value", "-H", "", "true"),
            ("'a' is named twice", "-H", "a:2,a:2", "true"),
            ("IPv6", "-H", "[::1]:2", "true"),
            ("131072 slots", "-H", "a:65536,b:65536", "true"),
            ("60000 slots", "-H", "localhost:60000", "true"),
            ("the 1 slot of the hosts", "-np", "2", "-H", "a", "true"),
            ("hororun starts each rank", "rank", "--help"),
            ("3 slots", "-np", "4", "-H", "a:2,b:1", "true"),
            ("--hostfile /no/such", "--hostfile", "/no/such", "true"),
            ("--hostfile /", "--hostfile", "/", "true"),
            ("did you mean --dry-run?", "--dryrun", "-np", "2", "true"),
            ("--env A", "-np", "2", "--env", "A", "true"),
            ("HORO_TIMEOUT: 'soon'", "-np", "2", "--env", "HORO_TIMEOUT=soon", "true"),
            ("'/no/such' does not exist", "-np", "2", "/no/such"),
            ("'/tmp' is a directory", "-np", "2", "/tmp"),
            ("is not on PATH", "-np", "2", "no\nsuch"),
            ("no program or command 'doctro'; did you mean doctor?", "doctro"),
            ("'/no/such' does not exist", "/no/such"),
            ("/no/such/directory cannot be read: No such file", "doctor", "/no/such/directory"),
            ("cannot be read: Not a directory", "doctor", __file__),
            ("--output-dir /dev/null/x", "-np", "2", "--output-dir", "/dev/null/x", "true"),
            ("--json", "settings", "--json"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_rejected(text, *arguments)

    def test_bad_hostfile_line_is_reported(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "hosts"
            path.write_text("# ours\nlocalhost slots=2\n\nother slots=x\n")
            self.assert_rejected(f"{path}:4: 'slots=x'", "--hostfile", str(path), "true")

    def test_empty_hostfile_is_reported(self):
        self.assert_rejected("--hostfile /dev/null: cannot be read", "--hostfile", "/dev/null", "true")
        with tempfile.NamedTemporaryFile() as file:
            self.assert_rejected(f"{file.name} is empty", "--hostfile", file.name, "true")

    def test_file_that_is_not_program_is_rejected(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "notes"
            path.write_text("true\n")
            path.chmod(0o755)
            self.assert_rejected("neither a compiled program nor a script", "-np", "2", str(path))

    @unittest.skipIf(os.geteuid() != 0, "another user is needed, whom only root can become")
    def test_unreadable_directory_is_reported(self):
        with tempfile.TemporaryDirectory() as directory:  # of mode 0700
            command = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", HORORUN, "doctor", directory]
            result = subprocess.run(command, capture_output=True, text=True, timeout=30)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr, f"hororun: {directory} cannot be read: Permission denied\n")

    def test_closed_standard_streams(self):
        with tempfile.TemporaryDirectory() as directory:
            for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
                with self.subTest(closed=closed):
                    path = Path(directory) / "ran"
                    script = f'exec "$0" -np 2 sh -c "echo text; echo text >&2; echo x >> {path}" {closed}'
                    result = subprocess.run(["sh", "-c", script, HORORUN], capture_output=True, timeout=60)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(path.read_text(), "x\nx\n")
                    path.unlink()
                    failing = ["sh", "-c", f'exec "$0" -np 2 sh -c "exit 7" {closed}', HORORUN]
                    self.assertEqual(subprocess.run(failing, capture_output=True, timeout=60).returncode, 7)

    def test_open_file_limit(self):
        def run(limits):
            return subprocess.run(["sh", "-c", f'{limits}; exec "$0" -np 2 true', HORORUN], capture_output=True,
                                  text=True, timeout=60)
        for limit in (6, 20, 30):
            with self.subTest(hard_limit=limit):
                result = run(f"ulimit -n {limit}")
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertRegex(result.stderr, rf"\Ahororun: this process may open {limit} files, "
                                                r"but mpirun needs .*\n\Z")
        result = run("ulimit -Sn 20")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_missing_mpirun_is_reported(self):
        with tempfile.TemporaryDirectory() as directory:
            result = hororun("-np", "1", "/bin/true", env={**os.environ, "PATH": directory})
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Ahororun: cannot start mpirun: .*; install Open MPI.*\n\Z")

    def test_version_and_help(self):
        self.assertRegex(hororun("--version").stdout, r"\Ahororun \d+\.\d+\.\d+\n\Z")
        self.assertIn("hororun -np 4 PROGRAM", hororun("--help").stdout)
        for command in ((), ("run",), ("settings",), ("doctor",), ("timeline",), ("stragglers",), ("pack",)):
            with self.subTest(command=command):
                for option in ("-h", "--help"):
                    result = hororun(*command, option)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertIn("  " + " ".join(["hororun", *command]).removesuffix(" run"), result.stdout)

    def test_pack_writes_and_checks_records(self):
        with tempfile.TemporaryDirectory() as directory:
            source, target = Path(directory) / "source", Path(directory) / "packed"
            for i in range(30):
                file = source / f"class{i % 3}" / f"{i}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"text of file {i:02}")
            result = hororun("pack", source, target)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertRegex(result.stdout, r"packed: packed 30 files of 3 classes \(450 B\) in ")
            result = hororun("pack", "--check", target)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("0 of 30 records damaged", result.stdout)
            data = target / "00000.horodata"
            data.write_bytes(data.read_bytes().replace(b"file 04", b"file 40"))
            result = hororun("pack", "--check", target)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn("(class1/4.txt): has the checksum", result.stderr)
            for message, *words in (("is not empty; name a new directory", source, target),
                                    ("a source and a target, not 1 path", source),
                                    ("has no files in sub-folders", source / "class1", target),
                                    ("is not a directory", source / "none", target),
                                    ("unknown option --size", "--size", "3"),
                                    ("has no index.horopack", "--check", source)):
                result = hororun("pack", *words)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(message, result.stderr)

    def test_dry_run_prints_command(self):
        """hororun and a shell that runs the printed line pass the same arguments and variables to mpirun.

        A script in place of mpirun records them.
        """
        recorder = "#!/bin/sh\nfor w in \"$@\" \"$HORO_SPIN\" \"$OMP_NUM_THREADS\" \"$A\" " \
                   "\"$OMPI_ALLOW_RUN_AS_ROOT\"; do printf '%s\\0' \"$w\"; done\n"
        arguments = ["-np", "2", "--env", "A=a b\n$c'", "--mpi-args", "--mca btl 'tcp,self'", "sh", "-c", "echo $1",
                     "x y", "", ":", "--json"]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "mpirun"
            path.write_text(recorder)
            path.chmod(0o755)
            search = {"PATH": f"{directory}:{os.environ['PATH']}"}
            ran = hororun(*arguments, env={**os.environ, **search, "HORO_SPIN": "20us"})
            line = hororun("--dry-run", *arguments, env={**os.environ, **search, "HORO_SPIN": "20us"}).stdout
            bare = {k: v for k, v in os.environ.items() if not k.startswith(("HORO_", "OMP"))}
            printed = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env={**bare, **search})
        self.assertIn("a b\n$c'", ran.stdout)
        self.assertIn("tcp,self", ran.stdout)
        # The command lines differ only in the process that runs each rank.
        self.assertIn(f"\0{os.path.realpath(HORORUN)}\0rank\0sh\0", ran.stdout)
        self.assertEqual(ran.stdout.replace(f"{os.path.realpath(HORORUN)}\0rank\0", ""), printed.stdout)


class Running(unittest.TestCase):
    def test_every_rank_runs(self):
        result = hororun("-np", "3", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.split("\n")), ["", "0 of 3", "1 of 3", "2 of 3"])
        self.assertNotIn("hororun:", result.stderr)

    def test_arguments_are_passed_unchanged(self):
        arguments = ["a b", "$HOME", "", "q'\"", "--json", "-np", "l1\nl2", "*", ":", "\\", "é"]
        result = hororun("run", "-np", "1", "printf", "<%s>", *arguments)
        self.assertEqual(result.stdout, "".join(f"<{argument}>" for argument in arguments), result.stderr)

    def test_variables_reach_ranks(self):
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
        self.assertRegex(result.stderr.splitlines()[-1], r"\Ahororun: (" + "|".join(patterns) + r")\Z")

    def test_exit_code_passes_through(self):
        result = hororun("-np", "2", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 7; sleep 60")
        self.assertEqual(result.returncode, 7)
        self.assert_last_line(result, r"rank 1 \(host .+\) exited with code 7; no rank left a flight record, "
                                      r"so look at its output above")

    def test_last_line_of_rank_without_record_is_shown(self):
        script = "[ $OMPI_COMM_WORLD_RANK = 1 ] || { echo other >&2; exec sleep 60; }; " \
                 "echo 'train: unknown option --foo' >&2; exit 2"
        result = hororun("-np", "3", "sh", "-c", script)
        self.assertEqual(result.returncode, 2)
        self.assert_last_line(result, r"rank 1 \(host .+\) exited with code 2; its last line on standard error is "
                                      r"'train: unknown option --foo'; no rank left a flight record")
        self.assertNotIn("\x1e", result.stderr)

    def test_rank_that_fails_at_start_is_named(self):
        for program, code, how in (("exit 3", 3, "exited with code 3"),
                                   ("kill -9 $$", 137, r"was killed by signal 9 \(Killed\)")):
            with self.subTest(program=program):
                result = hororun("-np", "4", "sh", "-c", f"[ $OMPI_COMM_WORLD_RANK != 2 ] || {{ {program}; }}; sleep 60")
                self.assertEqual(result.returncode, code)
                self.assert_last_line(result, rf"rank 2 \(host .+\) {how}; no rank left a flight record.*")

    def test_missing_program_is_reported_by_each_host(self):
        rank = subprocess.run([HORORUN, "rank", "/no/such"], capture_output=True, text=True, timeout=30)
        self.assertEqual((rank.returncode, rank.stderr),
                         (2, "hororun: program '/no/such' does not exist; has it been built?\n"))

    def test_segment_of_rank_killed_with_launcher_is_removed(self):
        """The daemon of a host that loses the connection to mpirun kills the rank and its launcher."""
        job = os.getpid()
        segment = Path(f"/dev/shm/vader_segment.{os.uname().nodename}.{os.geteuid()}.{job:x}.1")
        environment = {**os.environ, "PMIX_NAMESPACE": str(job), "OMPI_COMM_WORLD_RANK": "1",
                       "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
        try:
            segment.touch()
            with subprocess.Popen([HORORUN, "rank", "sh", "-c", "echo runs; exec sleep 60"], env=environment,
                                  stdout=subprocess.PIPE, start_new_session=True) as rank:
                self.assertEqual(rank.stdout.readline(), b"runs\n")
                self.assertTrue(segment.exists())
                os.killpg(rank.pid, signal.SIGKILL)
                # The process that removes the segment must not keep the rank's output open.
                self.assertEqual(rank.stdout.read(), b"")
            self.assertTrue(wait_until(lambda: not segment.exists()))
        finally:
            segment.unlink(missing_ok=True)

    def test_orphaned_daemon_is_killed(self):
        """The test runs a shell with the name of Open MPI's daemon."""
        with tempfile.TemporaryDirectory() as directory:
            daemon = Path(directory) / "orted"
            daemon.symlink_to("/bin/bash")
            os.mkfifo(Path(directory) / "silent")
            script = f"{HORORUN} rank sh -c 'exit 3' & wait; echo ranks have ended; exec 3<>{directory}/silent; read -t 60 <&3"
            with subprocess.Popen([daemon, "-c", script], stdout=subprocess.PIPE) as process:
                try:
                    self.assertEqual(process.stdout.readline(), b"ranks have ended\n")
                    self.assertEqual(process.wait(30), -signal.SIGTERM)
                finally:
                    process.kill()

    def test_killed_rank_ends_job(self):
        start = time.monotonic()
        result = hororun("-np", "3", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 2 ] && kill -9 $$; sleep 60")
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(result.returncode, 137)
        self.assert_last_line(result, r"rank 2 \(host .+\) was killed by signal 9 \(Killed\); no rank left a flight record.*")

    def test_unreachable_host_is_named_with_domain(self):
        ssh = """#!/bin/sh
for word; do case $word in *nosuch*) host=$word; break;; esac; done
echo "ssh: Could not resolve hostname $host: Name or service not known" >&2
exit 255
"""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "ssh"
            path.write_text(ssh)
            path.chmod(0o755)
            environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
            result = hororun("-H", "localhost:1,nosuch.example.org:1", "true", env=environment)
        self.assertNotEqual(result.returncode, 0)
        self.assert_last_line(result, r"mpirun could not start ranks on another host: "
                                      r"ssh: Could not resolve hostname nosuch\.example\.org: .*")

    def test_failed_rank_is_named_if_mpirun_crashes(self):
        mpirun = """#!/bin/bash
echo 'mpirun detected that one or more processes exited with non-zero status, thus causing' >&2
echo 'the job to be terminated. The first process to do so was:' >&2
printf '\n  Process name: [[10768,1],1]\n  Exit code:    75\n' >&2
kill -SEGV $$
"""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "mpirun"
            path.write_text(mpirun)
            path.chmod(0o755)
            result = hororun("-np", "2", "true", env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"})
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn("hororun: rank 1 exited with code 75; ", result.stderr)
        self.assert_last_line(result, r"mpirun itself was killed by signal 11 \(Segmentation fault\)")

    def test_other_mpirun_failures_are_reported(self):
        result = hororun("-np", "1", "--mpi-args", "--no-such-option", "true")
        self.assertNotEqual(result.returncode, 0)
        self.assert_last_line(result, r"the job failed with exit code \d+; mpirun did not name a rank")


class Stopping(unittest.TestCase):
    """Each test passes a unique argument to its ranks and later searches for processes with this argument."""

    def setUp(self):
        self.mark = f"mark-{os.getpid()}-{self.id()}"

    def start(self, program=(MPI_RANK,), *options):
        """Starts a job of 3 ranks and waits until the ranks run."""
        ranks = 3
        job = subprocess.Popen([HORORUN, "-np", str(ranks), *options, *program, self.mark], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.kill_leftovers)
        # hororun, mpirun, and the runner and the cleaner process of each rank have the mark as well.
        self.assertTrue(wait_until(lambda: len(processes_with(self.mark)) >= 3 * ranks + 2))
        if program[0] == MPI_RANK:
            self.assertEqual([job.stdout.readline() for _ in range(ranks)], ["ready\n"] * ranks)
        self.files = MpiFiles(processes_with(self.mark))
        return job

    def kill_leftovers(self):
        for pid in processes_with(self.mark):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_is_left(self):
        self.assertTrue(wait_until(lambda: not processes_with(self.mark)), processes_with(self.mark))
        self.assertTrue(wait_until(lambda: not self.files.left()), self.files.left())

    def assert_can_be_stopped(self, job):
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(timeout=60), 130)
        self.assertTrue(wait_until(lambda: not processes_with(self.mark)), processes_with(self.mark))

    def test_stop_signals(self):
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

    # The ranks take longer than the second for which mpirun waits after SIGTERM before it kills them.
    def test_ranks_end_in_order_after_sigterm(self):
        job = self.start(["sh", "-c", "trap 'sleep 1.5; echo saved; exit 0' TERM; while :; do sleep 0.05; done"])
        job.send_signal(signal.SIGTERM)
        output, errors = job.communicate(timeout=20)
        self.assertEqual(output, "saved\n" * 3, errors)
        self.assertEqual(job.returncode, 0, errors)
        self.assertNotIn("hororun:", errors)
        self.assert_nothing_is_left()

    def test_ranks_that_do_not_end_in_order(self):
        job = self.start(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], "--grace-time", "1s")
        job.send_signal(signal.SIGTERM)
        _, errors = job.communicate(timeout=20)
        self.assertEqual(job.returncode, 143, errors)
        self.assert_nothing_is_left()

    def test_job_with_unread_errors(self):
        script = 'seq 1000000 >&2; sleep 300; : "$0"'  # the mark
        job = subprocess.Popen([HORORUN, "-np", "1", "sh", "-c", script, self.mark], stderr=subprocess.PIPE)
        self.addCleanup(self.kill_leftovers)
        self.addCleanup(job.stderr.close)
        self.assertTrue(wait_until(lambda: len(processes_with(self.mark)) == 5))
        self.assert_can_be_stopped(job)

    def test_job_with_closed_error_pipe(self):
        with tempfile.TemporaryDirectory() as directory:
            written = Path(directory) / "written"
            script = f'while :; do echo text >&2; echo >> {written}; sleep 0.05; done; : "$0"'
            job = subprocess.Popen([HORORUN, "-np", "1", "sh", "-c", script, self.mark], stderr=subprocess.PIPE)
            self.addCleanup(self.kill_leftovers)
            self.assertEqual(job.stderr.readline(), b"text\n")
            job.stderr.close()
            self.assertTrue(wait_until(written.exists))
            before = written.stat().st_size
            self.assertTrue(wait_until(lambda: written.stat().st_size >= before + 10))
            self.assertIsNone(job.poll())
            self.assert_can_be_stopped(job)

    def test_killed_rank(self):
        job = self.start()
        start = time.monotonic()
        os.kill(max(processes_with(self.mark)), signal.SIGKILL)
        job.communicate(timeout=20)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(job.returncode, 137)
        self.assert_nothing_is_left()

    def test_killed_hororun_leaves_no_ranks(self):
        for program in ([MPI_RANK], ["sh", "-c", "sleep 300; echo"]):
            with self.subTest(program=program):
                job = self.start(program)
                job.kill()
                job.communicate(timeout=20)
                self.assert_nothing_is_left()

    def test_killed_mpirun_leaves_no_ranks(self):
        for program in (["sh", "-c", "sleep 300; echo"], [MPI_RANK]):
            with self.subTest(program=program):
                job = self.start(program)
                mpirun = children_of(job.pid)
                self.assertEqual(len(mpirun), 1)
                os.kill(mpirun[0], signal.SIGKILL)
                job.communicate(timeout=20)
                self.assertEqual(job.returncode, 137)
                self.assert_nothing_is_left()

    def test_files_of_other_job_are_kept(self):
        other = self.start()
        files = self.files
        mark, self.mark = self.mark, self.mark + "-second"
        job = self.start()
        os.kill(children_of(job.pid)[0], signal.SIGKILL)
        job.communicate(timeout=20)
        self.assertTrue(wait_until(lambda: not self.files.left()), self.files.left())
        self.assertTrue(files.left())
        self.assertIsNone(other.poll())
        other.terminate()
        other.communicate(timeout=20)
        self.mark, self.files = mark, files
        self.assert_nothing_is_left()


class Deadlocks(unittest.TestCase):
    """Tests that hororun ends jobs that would hang."""

    # Starts two ranks as Open MPI does, waits for their end and then hangs.
    HANGING_MPIRUN = """#!/bin/bash
export OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_orte_num_nodes=1 PMIX_NAMESPACE=77
OMPI_COMM_WORLD_RANK=0 sleep 2 &
OMPI_COMM_WORLD_RANK=1 bash -c 'sleep 1; kill -9 $$' &
wait
echo 'mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).' >&2
trap '' TERM INT
exec 3<> <(:)  # waits without a child process, which would count as a rank
while :; do read -r -t 1 -u 3; done
"""

    def run_to_end(self, *arguments, limit=60, **options):
        """Returns the result. If the job does not end within `limit`, stops hororun and fails."""
        job = subprocess.Popen([HORORUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               **options)
        try:
            output, errors = job.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            job.terminate()
            _, errors = job.communicate(timeout=30)
            self.fail(f"did not end: {errors}")
        return subprocess.CompletedProcess(arguments, job.returncode, output, errors)

    def test_hanging_mpirun_without_ranks_is_killed(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "mpirun"
            path.write_text(self.HANGING_MPIRUN)
            path.chmod(0o755)
            environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
            result = self.run_to_end("-np", "2", "true", env=environment)
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertIn("rank 1 (host b) was killed by signal 9 (Killed)", result.stderr)
        self.assertEqual(processes_with(directory), [])

    def test_hanging_mpirun_with_unread_errors_is_killed(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "mpirun"
            path.write_text(self.HANGING_MPIRUN.replace("wait\n", "seq 100000 | head -c 200000 >&2\nwait\n"))
            path.chmod(0o755)
            environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
            job = subprocess.Popen([HORORUN, "-np", "2", "true"], stderr=subprocess.PIPE, env=environment)
            self.assertTrue(wait_until(lambda: processes_with(str(path))))
            self.assertTrue(wait_until(lambda: not processes_with(str(path)), 60))
            _, errors = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 137)
        self.assertGreater(len(errors), 200000)
        self.assertIn(b"rank 1 (host b) was killed by signal 9 (Killed)", errors)

    def test_rank_that_exits_before_init_is_named(self):
        for delay in ("", "sleep 1;"):
            with self.subTest(delay=delay):
                script = f'[ $OMPI_COMM_WORLD_RANK != 1 ] || {{ {delay} exit 0; }}; exec "$0" none 0'
                result = self.run_to_end("-np", "3", "sh", "-c", script, HORO_JOB)
                # mpirun itself ends the job if the other ranks have already called MPI_Init.
                self.assertRegex(result.stderr, r"hororun: rank 1( \(pid \d+\))? exited without completing "
                                                r"horo::init\(\), in which ranks 0 and 2 wait"
                                                r"|rank 1 \(host .*\) exited with code 0 without horo::init\(\)")
                self.assertEqual(result.returncode, 75 if "in which" in result.stderr else 1, result.stderr)

    def test_timeout_in_init_is_verdict(self):
        script = '[ $OMPI_COMM_WORLD_RANK != 1 ] || exec sleep 60; exec "$0" none 0'
        result = self.run_to_end("-np", "2", "sh", "-c", script, HORO_JOB, env={**os.environ, "HORO_TIMEOUT": "4s"})
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^hororun: rank 0 .* "
                                        r"has waited [^;]+ in horo::init\(\) for rank 1, which has not called it")

    def test_ranks_without_horo_may_end_one_by_one(self):
        script = "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 0; sleep 8; echo done"
        result = self.run_to_end("-np", "2", "sh", "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "done\n")

    def test_unread_output_is_kept(self):
        """mpirun outlives its ranks until their output has been read."""
        count = 400000
        job = subprocess.Popen([HORORUN, "-np", "1", "seq", str(count)], stdout=subprocess.PIPE)
        time.sleep(9)
        output, _ = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 0)
        self.assertTrue(output.endswith(f"{count}\n".encode()))


if __name__ == "__main__":
    unittest.main()
