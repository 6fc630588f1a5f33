#!/usr/bin/env python3
"""Tests processes.py."""
import os
import signal
import unittest
from unittest import mock

import processes

VARIABLES = {"PMIX_NAMESPACE": "26", "OMPI_MCA_orte_jobfam_session_dir": "/tmp/of-the-job"}


class MpiFiles(unittest.TestCase):
    def fork(self):
        """Forks a process that calls exec after a byte arrives in a pipe. Returns its pid and the write end."""
        release, trigger = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(trigger)
            if not os.read(release, 1):
                os._exit(1)
            os.execve("/bin/sleep", ["sleep", "60"], VARIABLES)
        os.close(release)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        return pid, trigger

    def test_job_is_read_after_exec(self):
        pid, trigger = self.fork()
        self.assertFalse(processes.has_executed(pid))
        sleep = processes.time.sleep

        def trigger_and_sleep(seconds):
            nonlocal trigger
            if trigger is not None:
                os.write(trigger, b"x")
                os.close(trigger)
                trigger = None
            sleep(seconds)

        with mock.patch.object(processes.time, "sleep", trigger_and_sleep):
            files = processes.MpiFiles([pid])
        self.assertTrue(processes.has_executed(pid))
        self.assertEqual(files.segments, {f".{os.geteuid()}.1a."})
        self.assertEqual({str(path) for path in files.directories}, {"/tmp/of-the-job"})

    def test_ended_process_has_no_job(self):
        pid, trigger = self.fork()
        os.close(trigger)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        files = processes.MpiFiles([pid])
        self.assertEqual((files.segments, files.left()), (set(), []))

    def test_files_of_earlier_job_with_same_number_do_not_count(self):
        files = processes.MpiFiles()
        files.segments = {f".{os.geteuid()}.1a."}
        names = [f"vader_segment.host.{os.geteuid()}.1a.{rank}" for rank in range(2)]
        with mock.patch.object(processes, "GRACE_S", 0), mock.patch.object(processes.os, "listdir", lambda _: names):
            self.assertEqual(processes.leftovers([], {names[0]}, files), f"processes [], files ['{names[1]}']")
            self.assertEqual(processes.leftovers([], set(names), files), "")


if __name__ == "__main__":
    unittest.main()
