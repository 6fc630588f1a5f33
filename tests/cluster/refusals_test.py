#!/usr/bin/env python3
"""What scripts/cluster_lab.sh refuses, and in which words. Needs neither root nor a lab."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from lab import SCRIPT

NOBODY = 65534


class Refusals(unittest.TestCase):
    def refused(self, *arguments, script=SCRIPT, user=None, environment=None):
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
        self.assertIn("no command", self.refused())
        self.assertIn("unknown command 'start'", self.refused("start"))
        self.assertIn("unknown command 'start'", self.refused("start", "4"))
        self.assertIn("--help", self.refused("start"))

    def test_numbers_of_arguments(self):
        for arguments in (["up"], ["up", "2", "1gbit", "x"], ["run"], ["run", "1"], ["exec"], ["exec", "host0"]):
            self.assertIn("too few or too many", self.refused(*arguments))
        for command in ("down", "status", "bytes"):
            self.assertIn(f"{command} takes no arguments", self.refused(command, "x"))

    def test_values(self):
        for hosts in ("0", "-1", "two", "100", "", "1.5"):
            self.assertIn(f"'{hosts}' is not a number of hosts", self.refused("up", hosts))
        for rate in ("fast", "1", "gbit", "1gbit;true", ""):
            self.assertIn(f"'{rate}' is not a rate", self.refused("up", "2", rate))
        self.assertIn("'0' is not a number of ranks", self.refused("run", "0", "true"))
        self.assertIn("'true' is not a number of ranks", self.refused("run", "true", "x"))
        environment = dict(os.environ, CLUSTER_LAB="../x")
        self.assertIn("CLUSTER_LAB='../x'", self.refused("down", environment=environment))

    def test_not_root(self):
        script = shutil.copy(SCRIPT, self.folder_for_all())
        user = NOBODY if os.getuid() == 0 else None
        for arguments in (["up", "2"], ["down"], ["status"], ["run", "1", "true"]):
            self.assertIn("not root", self.refused(*arguments, script=script, user=user))

    @unittest.skipUnless(os.getuid() == 0, "only root can give up a capability")
    def test_a_kernel_that_refuses_namespaces(self):
        done = subprocess.run(["setpriv", "--bounding-set", "-sys_admin", SCRIPT, "up", "2"], capture_output=True,
                              text=True, timeout=30, env=dict(os.environ, CLUSTER_LAB="test-refusals"))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"\Acluster_lab\.sh: the kernel refuses a network namespace: .+\n\Z")

    def test_a_missing_tool_and_its_package(self):
        for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux"),
                              ("mpirun", "openmpi-bin")):
            folder = self.folder_for_all()
            (folder / "id").write_text("#!/bin/sh\necho 0\n")
            for name in ("bash", "sh", "realpath", "ip", "tc", "unshare", "mpirun"):
                if name != tool:
                    (folder / name).symlink_to(shutil.which(name) or "/bin/true")
            (folder / "id").chmod(0o755)
            said = self.refused("up", "2", environment={"PATH": str(folder)})
            self.assertIn(f"there is no '{tool}'", said)
            self.assertIn(package, said)

    def test_help(self):
        done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("usage: scripts/cluster_lab.sh COMMAND", done.stdout)
        self.assertNotIn("set -euo", done.stdout)


if __name__ == "__main__":
    unittest.main()
