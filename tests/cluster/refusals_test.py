#!/usr/bin/env python3
"""Tests the error messages of scripts/cluster_lab.sh. Needs neither root nor a lab."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from lab import SCRIPT

NOBODY = 65534


class Refusals(unittest.TestCase):
    def error_of(self, *arguments, script=SCRIPT, user=None, environment=None):
        done = subprocess.run(["bash", script, *arguments], capture_output=True, text=True, timeout=30, user=user,
                              env=environment or dict(os.environ, CLUSTER_LAB="test-refusals"))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Acluster_lab\.sh: .+\n\Z")
        return done.stderr

    def folder_for_all(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        return Path(folder.name)

    def test_commands(self):
        self.assertIn("no command", self.error_of())
        self.assertIn("unknown command 'start'", self.error_of("start"))
        self.assertIn("unknown command 'start'", self.error_of("start", "4"))
        self.assertIn("--help", self.error_of("start"))

    def test_argument_counts(self):
        for arguments in (["up"], ["up", "2", "1gbit", "x"], ["run"], ["run", "1"], ["exec"], ["exec", "host0"]):
            self.assertIn("too few or too many", self.error_of(*arguments))
        for command in ("down", "status", "bytes"):
            self.assertIn(f"{command} takes no arguments", self.error_of(command, "x"))

    def test_values(self):
        for hosts in ("0", "-1", "two", "100", "", "1.5"):
            self.assertIn(f"'{hosts}' is not a number of hosts", self.error_of("up", hosts))
        for rate in ("fast", "1", "gbit", "1gbit;true", ""):
            self.assertIn(f"'{rate}' is not a rate", self.error_of("up", "2", rate))
        self.assertIn("'0' is not a number of ranks", self.error_of("run", "0", "true"))
        self.assertIn("'true' is not a number of ranks", self.error_of("run", "true", "x"))
        environment = dict(os.environ, CLUSTER_LAB="../x")
        self.assertIn("CLUSTER_LAB='../x'", self.error_of("down", environment=environment))

    def test_not_root(self):
        script = shutil.copy(SCRIPT, self.folder_for_all())
        user = NOBODY if os.getuid() == 0 else None
        for arguments in (["up", "2"], ["down"], ["status"], ["run", "1", "true"]):
            self.assertIn("not root", self.error_of(*arguments, script=script, user=user))

    @unittest.skipUnless(os.getuid() == 0, "only root can give up a capability")
    def test_kernel_without_namespaces(self):
        done = subprocess.run(["setpriv", "--bounding-set", "-sys_admin", SCRIPT, "up", "2"], capture_output=True,
                              text=True, timeout=30, env=dict(os.environ, CLUSTER_LAB="test-refusals"))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"\Acluster_lab\.sh: the kernel refuses a network namespace: .+\n\Z")

    def test_missing_tool_and_its_package(self):
        for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux"),
                              ("mpirun", "openmpi-bin")):
            folder = self.folder_for_all()
            (folder / "id").write_text("#!/bin/sh\necho 0\n")
            for name in ("bash", "sh", "realpath", "ip", "tc", "unshare", "mpirun"):
                if name != tool:
                    (folder / name).symlink_to(shutil.which(name) or "/bin/true")
            (folder / "id").chmod(0o755)
            error_text = self.error_of("up", "2", environment={"PATH": str(folder)})
            self.assertIn(f"there is no '{tool}'", error_text)
            self.assertIn(package, error_text)

    def test_help(self):
        done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("usage: scripts/cluster_lab.sh COMMAND", done.stdout)
        self.assertNotIn("set -euo", done.stdout)


if __name__ == "__main__":
    unittest.main()
