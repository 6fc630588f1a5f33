#!/usr/bin/env python3
"""Tests how scripts/compare_peers.py finds its peers and starts their jobs. Runs no peer. The argument is the path of the script."""
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = sys.argv.pop(1)
sys.path.insert(0, str(Path(SCRIPT).parent))

from peers import detection, places  # noqa: E402  (needs the path above)


class Detection(unittest.TestCase):
    def find(self, programs, outputs, chosen=detection.PEER_KEYS, python="py"):
        return detection.find_peers(chosen, python, "hvd", which=lambda name: name if name in programs else None,
                                    output=lambda command: outputs.get(command[0], ""))

    def test_present_peers(self):
        peers = self.find(
            {"mpicxx.openmpi", "mpirun.openmpi", "mpicxx.mpich", "mpirun.mpich"},
            {"mpirun.openmpi": "mpirun.openmpi (OpenRTE) 4.1.4\n", "hvd": "horovod 0.28.1 True\n",
             "py": "a warning\ntorch 1.13.0 True\n",
             "mpirun.mpich": "HYDRA build details:\n    Version:          4.0.2\n"})
        self.assertEqual([peer.version for peer in peers.values()],
                         ["4.1.4", "4.0.2", "torch 1.13.0", "torch 1.13.0", "0.28.1"])
        self.assertEqual((peers["horovod"].python, peers["horovod"].launcher), ("hvd", "mpirun.openmpi"))
        self.assertEqual(peers["mpich"].compiler, "mpicxx.mpich")
        labels = [setup.label for setup in detection.setups_of(peers)]
        self.assertEqual(labels[:2], ["horo", "openmpi"])
        self.assertEqual(labels[-6:-2], ["mpich: memory kept", "gloo", "ddp", "horovod"])
        self.assertTrue(all(label.startswith("horovod: ") for label in labels[-2:]))
        self.assertIn("openmpi: ring, memory kept", labels)
        self.assertEqual(len(labels), len(set(labels)))

    def test_programs_without_suffix_are_identified_by_output(self):
        plain = {"mpicxx", "mpirun"}
        peers = self.find(plain, {"mpirun": "mpirun (Open MPI) 5.0.1\n"})
        self.assertEqual((peers["openmpi"].version, peers["openmpi"].launcher), ("5.0.1", "mpirun"))
        self.assertEqual(peers["mpich"].version, "")

    def test_libraries_in_folders_are_identified_by_output(self):
        with tempfile.TemporaryDirectory() as folder:
            mpis = []
            for key, text in (("mine", "mpirun (Open MPI) 5.0.8\n"), ("new", "HYDRA build details:\n    Version:          5.0.0\n"),
                              ("intel", "Intel(R) MPI Library for Linux* OS, Version 2021.17 Build 1\n"), ("odd", "something\n"),
                              ("empty", None)):
                programs = Path(folder) / key / "bin"
                programs.mkdir(parents=True)
                mpis.append((key, programs.parent))
                for name in ("mpicxx", "mpiexec") if text else ():
                    (programs / name).write_text(f"#!/bin/sh\ncat <<'E'\n{text}E\n")
                    (programs / name).chmod(0o755)
            peers = detection.find_peers([], mpis=mpis)
        found = {key: (peer.name, peer.version, peer.family) for key, peer in peers.items() if peer.version}
        self.assertEqual(found, {"mine": ("Open MPI 5", "5.0.8", "openmpi"), "new": ("MPICH 5", "5.0.0", "mpich"),
                                 "intel": ("Intel MPI 2021", "2021.17", "intel")})
        self.assertIn("has no mpicxx and mpiexec", peers["empty"].why_absent)
        self.assertIn("names no Open MPI", peers["odd"].why_absent)
        labels = [setup.label for setup in detection.setups_of(peers)]
        self.assertIn("mine: segmented ring", labels)
        self.assertIn("intel: memory kept", labels)

    def test_oneccl_uses_the_intel_mpi(self):
        intel = detection.Peer("Intel MPI 2021", version="2021", compiler="/i/bin/mpicxx", launcher="/i/bin/mpiexec", family="intel",
                               environment={"A": "1"})
        with tempfile.TemporaryDirectory() as folder:
            prefix = Path(folder)
            (prefix / "lib/ccl/cpu/lib").mkdir(parents=True)
            self.assertIn("has no libccl.so", detection.find_oneccl(prefix, [intel]).why_absent)
            (prefix / "lib/ccl/cpu/lib/libccl.so").touch()
            (prefix / "include/oneapi/ccl").mkdir(parents=True)
            (prefix / "include/oneapi/ccl/config.h").write_text(
                "#define CCL_MAJOR_VERSION  2021\n#define CCL_MINOR_VERSION  12\n#define CCL_UPDATE_VERSION  0\n")
            peer = detection.find_oneccl(prefix, [detection.Peer("Open MPI", family="openmpi"), intel])
            self.assertIn("it needs an Intel MPI: --mpi", detection.find_oneccl(prefix, []).why_absent)
        self.assertEqual((peer.name, peer.version, peer.launcher, peer.environment["A"]), ("oneCCL", "2021.12.0", "/i/bin/mpiexec", "1"))
        self.assertIn("-lccl", peer.compile_arguments)
        self.assertEqual([setup.label for setup in detection.setups_of({"oneccl": peer})], ["horo", "oneccl", "oneccl: without workers"])

    def test_absent_peers_are_reported_with_remedy(self):
        peers = self.find(set(), {"py": "torch 2.0 False\n"}, chosen=["openmpi", "mpich", "ddp", "horovod"])
        texts = {key: detection.absence(peer) for key, peer in peers.items()}
        self.assertIn("MPICH is absent", texts["mpich"])
        self.assertIn("apt-get install mpich libmpich-dev", texts["mpich"])
        self.assertIn("apt-get install openmpi-bin libopenmpi-dev", texts["openmpi"])
        self.assertIn("--python names another", texts["ddp"])
        self.assertIn("apt-get install python3-torch", texts["ddp"])
        self.assertIn("Horovod is absent: there is no mpirun of Open MPI", texts["horovod"])
        self.assertEqual(texts["gloo"], "Gloo is absent: left out by --peers")
        self.assertEqual([setup.label for setup in detection.setups_of(peers)], ["horo"])

    def test_horovod_is_absent_without_module_or_mpi(self):
        programs = {"mpicxx.openmpi", "mpirun.openmpi"}
        openmpi = {"mpirun.openmpi": "mpirun.openmpi (OpenRTE) 4.1.4\n"}
        for answer in ({}, {"hvd": "horovod 0.28.1 False\n"}):
            absence = detection.absence(self.find(programs, {**openmpi, **answer})["horovod"])
            self.assertIn("hvd: no horovod.torch built with MPI; --horovod-python names another", absence)

    def test_ddp_and_horovod_run_gradients_only(self):
        self.assertFalse(detection.takes_part(detection.HOROVOD_TUNINGS[0], "allreduce"))
        self.assertTrue(detection.takes_part(detection.HOROVOD_TUNINGS[0], "resnet50"))
        self.assertFalse(detection.takes_part(detection.Setup("ddp"), "allreduce"))
        self.assertTrue(detection.takes_part(detection.Setup("ddp"), "resnet50"))
        self.assertTrue(detection.takes_part(detection.Setup("gloo"), "allreduce"))


class Places(unittest.TestCase):
    OLD = detection.Peer("Open MPI", version="4", launcher="mpirun", family="openmpi")
    NEW = detection.Peer("Open MPI 5", version="5", launcher="/o/bin/mpiexec", family="openmpi", environment={"P": "o"})
    MPICH = detection.Peer("MPICH", version="5", launcher="/m/bin/mpiexec", family="mpich", environment={"P": "m"})

    def test_jobs_on_this_machine(self):
        place = places.ThisMachine(2)
        self.assertEqual(place.mpi_job(self.MPICH, ("-a",), ["prog", "3"], {"B": "1"}),
                         (["/m/bin/mpiexec", "-np", "2", "-a", "prog", "3"], {**places.AS_ROOT, "P": "m", "B": "1"}))
        self.assertEqual(place.horo_job("bin/hororun", ["bin/bench"], {}), (["bin/hororun", "-np", "2", "bin/bench"], {}))
        self.assertEqual(place.process(1, ["python3"], {"A": "1"}), (["python3"], {"A": "1"}))
        many = places.ThisMachine(1000)
        self.assertIn("--oversubscribe", many.mpi_job(self.OLD, (), ["prog"], {})[0])
        self.assertNotIn("--oversubscribe", many.mpi_job(self.NEW, (), ["prog"], {})[0])

    def test_jobs_on_emulated_hosts(self):
        place = places.EmulatedHosts(4, 2, "100mbit", "/tmp")
        self.assertEqual((place.ranks_per_host, place.link_gbps), (2, 0.0125))
        self.assertEqual(places.EmulatedHosts(4, 2, "none", "/tmp").link_gbps, 0)
        words, environment = place.mpi_job(self.NEW, ("--mca", "x", "1"), ["prog"], {"A": "1"})
        self.assertEqual(words[1:], ["exec", "host0", "/o/bin/mpiexec", "-np", "4", "--mca", "x", "1", "--host", "host0:2,host1:2",
                                     "--bind-to", "none", "-x", "A=1", "prog"])
        self.assertEqual((environment["P"], environment["CLUSTER_LAB"]), ("o", places.LAB_NAME))
        words, environment = place.mpi_job(self.MPICH, (), ["prog"], {"A": "1"})
        self.assertEqual(words[3:], ["/m/bin/mpiexec", "-np", "4", "-launcher", "rsh", "-launcher-exec", "/tmp/lab_agent", "-iface", "eth0",
                                     "-hosts", "host0,host1", "-ppn", "2", "prog"])
        self.assertEqual(environment["A"], "1")
        words, _ = place.horo_job("hororun", ["bin/bench"], {"HORO_MESSAGES": "sockets"})
        self.assertEqual(words[1:], ["run", "2", "-x", "HORO_MESSAGES=sockets", "--bind-to", "none", "--", "bin/bench"])
        self.assertEqual([place.process(rank, ["p"], {})[0][2] for rank in range(4)], ["host0", "host0", "host1", "host1"])

    def test_settings_without_effect_between_hosts_are_left_out(self):
        labels = [setup.label for setup in detection.setups_of({"mine": self.NEW, "m": self.MPICH}, on_hosts=True)]
        self.assertEqual(labels, ["horo", "horo: sockets", "mine", "mine: segmented ring", "mine: ring, memory kept", "m"])


if __name__ == "__main__":
    unittest.main()
