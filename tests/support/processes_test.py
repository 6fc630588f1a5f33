#!/usr/bin/env python3
"""Checks what tests read of processes."""
import os
import signal
import unittest
from unittest import mock

import processes

VARIABLES = {"PMIX_NAMESPACE": "26", "OMPI_MCA_orte_jobfam_session_dir": "/tmp/of-the-job"}


class MpiFiles(unittest.TestCase):
    def fork(self):
        """A process that executes its program once told to, and the pipe to tell it."""
        go, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(tell)
            if not os.read(go, 1):
                os._exit(1)
            os.execve("/bin/sleep", ["sleep", "60"], VARIABLES)
        os.close(go)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        return pid, tell

    def test_a_job_is_read_after_exec(self):
        pid, tell = self.fork()
        self.assertFalse(processes.has_executed(pid))
        sleep = processes.time.sleep

        def tell_and_sleep(seconds):
            nonlocal tell
            if tell is not None:
                os.write(tell, b"x")
                os.close(tell)
                tell = None
            sleep(seconds)

        with mock.patch.object(processes.time, "sleep", tell_and_sleep):
            files = processes.MpiFiles([pid])
        self.assertTrue(processes.has_executed(pid))
        self.assertEqual(files.segments, {f".{os.geteuid()}.1a."})
        self.assertEqual({str(path) for path in files.directories}, {"/tmp/of-the-job"})

    def test_a_process_that_has_ended_has_no_job(self):
        pid, tell = self.fork()
        os.close(tell)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        files = processes.MpiFiles([pid])
        self.assertEqual((files.segments, files.left()), (set(), []))


if __name__ == "__main__":
    unittest.main()
