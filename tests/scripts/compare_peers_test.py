#!/usr/bin/env python3
"""Tests scripts/compare_peers.py without running horo or a peer. The first argument is the path of the script.

With "--quick BIN", runs the script at tiny sizes with the programs in BIN and Open MPI.
"""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from argparse import Namespace
from pathlib import Path

SCRIPT = sys.argv.pop(1)
QUICK_BIN = sys.argv.pop(2) if sys.argv[1:2] == ["--quick"] else None
if QUICK_BIN:
    sys.argv.pop(1)
sys.path.insert(0, str(Path(SCRIPT).parent))

import compare_peers  # noqa: E402  (needs the path above)
from peers import detection, goals, places, report, running, summary  # noqa: E402


def sample(setup, us, case="allreduce", regime="shared", foreign_cores=0.0):
    return {"round": 0, "case": case, "piece": case, "setup": setup, "regime": regime, "foreign_cores": foreign_cores,
            "streaming_copy_gbps": 10.0, "us": us}


def script(*options):
    return subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, timeout=580)


class Summary(unittest.TestCase):
    def test_run_has_regime_if_both_readings_agree(self):
        self.assertEqual(summary.regime_between(11, 9), "shared")
        self.assertEqual(summary.regime_between(2.1, 5), "apart")
        self.assertEqual(summary.regime_between(2.1, 11), "changing")

    def test_statistics_cover_rounds_of_one_regime(self):
        samples = [sample("horo", {"4": us}) for us in (3.0, 1.0, 2.0)]
        samples += [sample("horo", {"4": 9.0}, regime="apart"), sample("horo", {"4": 100.0}, regime="changing")]
        result = summary.summarise(samples)
        self.assertEqual(result["shared"]["allreduce"]["horo"]["4"],
                         {"min": 1.0, "median": 2.0, "max": 3.0, "runs": 3, "calm": True})
        self.assertEqual(result["apart"]["allreduce"]["horo"]["4"]["median"], 9.0)
        self.assertEqual(set(result), {"shared", "apart"})

    def test_disturbed_runs_count_only_without_others(self):
        disturbed = [sample("horo", {"4": us}, foreign_cores=1.0) for us in (50.0, 70.0)]
        entry = summary.summarise(disturbed)["shared"]["allreduce"]["horo"]["4"]
        self.assertEqual((entry["median"], entry["calm"]), (60.0, False))
        entry = summary.summarise([*disturbed, sample("horo", {"4": 5.0})])["shared"]["allreduce"]["horo"]["4"]
        self.assertEqual((entry["median"], entry["runs"], entry["calm"]), (5.0, 1, True))

    def test_setup_is_missing_until_measured_in_every_regime(self):
        samples = [sample("horo", {}), sample("mpich", {}), sample("horo", {}, regime="apart")]
        self.assertEqual(summary.missing_labels(samples, "allreduce", ["horo", "mpich"]), ["mpich"])
        self.assertEqual(summary.missing_labels(samples, "allreduce", ["horo"]), [])
        self.assertEqual(summary.missing_labels(samples, "resnet50", ["horo"]), ["horo"])
        self.assertEqual(summary.never_met(samples), [])
        self.assertEqual(summary.never_met(samples[:2]), ["apart"])

    def test_fastest_is_found_for_defaults_and_settings(self):
        def times(us):
            return {"4": {"median": us}, "8": {"median": us / 2}}
        of_case = {"horo": times(1), "openmpi": times(6), "openmpi: ring": times(3), "mpich": times(4), "ddp": times(2)}
        self.assertEqual(summary.fastest(summary.at_defaults(of_case), "4"), ("mpich", "4", {"median": 4}))
        self.assertEqual(summary.fastest(summary.at_defaults(of_case)), ("mpich", "8", {"median": 2}))
        self.assertEqual(summary.fastest(summary.of_mpi(of_case), "4")[0], "openmpi: ring")
        self.assertIsNone(summary.fastest({}, "4"))
        self.assertEqual(summary.ratio({"median": 6}, {"median": 4}), 1.5)
        self.assertIsNone(summary.ratio({"median": 6}, None))

    def test_ddp_is_also_reported_without_backward(self):
        self.assertEqual(summary.with_differences({"backward alone": 3.0, "DDP": 10.0}),
                         {"backward alone": 3.0, "DDP": 10.0, "DDP, less backward": 7.0})
        self.assertEqual(summary.with_differences({"4": 1.0}), {"4": 1.0})

    def test_floor_is_reported_beyond_caches(self):
        self.assertEqual(summary.copy_floor_us(64 << 20, 10), (64 << 20) / 10 / 1e3)
        self.assertIsNone(summary.copy_floor_us(1 << 20, 10))
        self.assertIsNone(summary.copy_floor_us(64 << 20, 0))

    def test_links_carry_what_other_hosts_sum(self):
        self.assertEqual(summary.link_floor_us(1_000_000, 2, 0.125), 8000)
        self.assertEqual(summary.link_floor_us(1_000_000, 4, 0.125), 12000)
        self.assertIsNone(summary.link_floor_us(1_000_000, 4, 0))
        self.assertTrue(summary.outruns_links({"4": 1.0, str(1 << 20): 5000.0}, 0, 2, 0.125))
        self.assertFalse(summary.outruns_links({"4": 0.01, str(1 << 20): 8000.0}, 0, 2, 0.125))
        self.assertTrue(summary.outruns_links({"one flat buffer": 5000.0}, 4 << 20, 2, 0.125))
        self.assertFalse(summary.outruns_links({"one flat buffer": 5000.0}, 4 << 20, 2, 0))
        self.assertFalse(summary.outruns_links({"backward alone": 5.0}, 4 << 20, 2, 0.125))


def result_of(samples, peers, sizes, models):
    return {"command": "compare", "date": "today", "ranks": 2, "hosts": 0, "rate": "1gbit", "link_gbps": 0, "sizes": sizes, "models": models, "peers": peers,
            "rounds": 3, "goals": goals.parse("1.5@4-64Mi,2@resnet50", ["resnet50"]),
            "machine": {"cpu": "a CPU", "cores": 2, "system": "Linux"}, "failed": {},
            "model_bytes": {model: 102e6 for model in models}, "foreign_cores": summary.statistics_of([0.0, 0.5]),
            "runs_by_regime": {"shared": len(samples), "apart": 0, "changing": 3},
            "streaming_copy_gbps": {"shared": 10.0, "apart": 0}, "summary": summary.summarise(samples)}


class Report(unittest.TestCase):
    def setUp(self):
        self.peers = {key: detection.Peer(name, version=version, package=package, why_absent="not found") for
                      key, name, version, package in [("openmpi", "Open MPI", "4", ""), ("mpich", "MPICH", "", "mpich"),
                                                      ("gloo", "Gloo", "1", ""), ("ddp", "PyTorch DDP", "1", ""),
                                                      ("horovod", "Horovod", "1", "")]}
        big = 64 << 20
        self.result = result_of(
            [sample("horo", {"4": 0.5, str(big): 8000.0}), sample("openmpi", {"4": 0.4, str(big): 32000.0}),
             sample("openmpi: ring", {"4": 0.9, str(big): 16000.0}, foreign_cores=1.0), sample("gloo", {"4": 200.0}),
             sample("horo", {"": 10000.0}, "resnet50"),
             sample("openmpi", {"flat": 30000.0, "packed": 25000.0}, "resnet50"),
             sample("horovod: cycle 0.1 ms", {"grouped": 66000.0}, "resnet50"),
             sample("ddp", {"backward alone": 9000.0, "DDP": 50000.0, "DDP, less backward": 41000.0}, "resnet50")],
            self.peers, [4, big], ["resnet50"])

    def test_tables(self):
        text = report.markdown(self.result)
        self.assertIn("| bytes | horo | horo, arena | Open MPI | Gloo | MPICH: absent | fastest of them / horo |", text)
        self.assertIn("| 4 | 0.50 (0.50–0.50) | – | 0.40 (0.40–0.40) | 200 (200–200) | – | 0.80 (Open MPI) | "
                      "0.40 (0.40–0.40), Open MPI, defaults | 0.80 | – |", text)
        self.assertIn("| 64Mi | 8,000 (8,000–8,000) | – | 32,000 (32,000–32,000) | – | – | 4.00 (Open MPI) | "
                      "~16,000 (16,000–16,000), Open MPI, ring | ~2.00 | 6,711 |", text)
        self.assertIn("| a step's gradients | resnet50, 102 MB |", text)
        self.assertIn("| MPICH: absent | – |", text)
        self.assertIn("| DDP, less backward | 41.0 (41.0–41.0) |", text)
        self.assertIn("/ horo | 2.50 (Open MPI, packed) |", text)
        self.assertIn("| DDP, the better, less backward / horo | 4.10 |", text)
        self.assertIn("| Horovod, best settings and way / horo | 6.60 (cycle 0.1 ms, grouped) |", text)

    def test_goals_are_listed_with_measurements(self):
        text = report.markdown(self.result)
        self.assertIn("| what | at least | fastest peer at its defaults / horo |  |", text)
        self.assertIn("| 4 | 1.50 | 0.80 (Open MPI) | missed |", text)
        self.assertIn("| 64Mi | 1.50 | 4.00 (Open MPI) | met |", text)
        self.assertIn("| resnet50 | 2.00 | 2.50 (Open MPI) | met |", text)

    def test_hosts_and_settings_of_horo_are_shown(self):
        samples = [sample("horo", {"1024": 500.0}), sample("horo: sockets", {"1024": 400.0}), sample("openmpi", {"1024": 600.0})]
        result = {**result_of(samples, self.peers, [1024], []), "hosts": 4, "ranks": 4, "rate": "1gbit", "link_gbps": 0.125}
        text = report.markdown(result)
        self.assertIn("4 ranks on 4 emulated hosts with links of 1gbit, float32", text)
        self.assertIn("| bytes | horo | horo, arena | horo, sockets | Open MPI |", text)
        self.assertIn("| 1Ki | 500 (500–500) | – | 400 (400–400) | 600 (600–600) |", text)
        self.assertIn("| 12.3 |", text)
        self.assertIn("Floor: the time in which the links carry the bytes", text)

    def test_missing_parts_are_reported(self):
        self.result["failed"] = {"openmpi: other": "took more than 3 s"}
        text = report.markdown(self.result)
        self.assertIn("**MPICH is absent: not found; apt-get install mpich**", text)
        self.assertIn("**openmpi: other failed and was not run again**: took more than 3 s", text)
        self.assertIn("## Never observed: the cores share no cache", text)
        self.assertIn("The regime changed during 3 more run(s)", text)
        self.assertIn("kept 0.25 cores busy (median of 2 runs; at most 0.50)", text)

    def test_size_names(self):
        self.assertEqual([report.size_name(size) for size in (4, 1 << 10, 1500, 3 << 20)], ["4", "1Ki", "1500", "3Mi"])

    def test_plot_has_line_for_each_measured_peer(self):
        lines = report.lines_of(self.result["summary"]["shared"]["allreduce"], self.result["sizes"], self.peers,
                               lambda size: summary.copy_floor_us(size, 10.0))
        self.assertEqual([(name, len(points)) for name, points in lines],
                         [("horo", 2), ("Open MPI", 2), ("Gloo", 1), ("MPI, best settings", 2), ("floor", 1)])
        from scaling import import_pyplot
        pyplot = import_pyplot()
        if pyplot is None:
            self.skipTest("there is no matplotlib")
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(report.draw(pyplot, self.result, Path(folder) / "p.png"))
            self.assertGreater((Path(folder) / "p.png").stat().st_size, 1000)
            self.assertFalse(report.draw(pyplot, {**self.result, "summary": {}}, Path(folder) / "q.png"))


class Goals(unittest.TestCase):
    def test_sizes_ranges_and_models(self):
        self.assertEqual(goals.parse("1.5@16Ki,2@64Ki-128Mi,3@tiny1000", ["tiny1000"]),
                         [goals.Goal(1.5, least=16384, most=16384), goals.Goal(2.0, least=65536, most=128 << 20),
                          goals.Goal(3.0, model="tiny1000")])
        self.assertEqual(goals.parse("none", []), [])

    def test_invalid_goal_is_rejected(self):
        for text in ("", "1.5", "@4", "x@4", "1.5@0", "1.5@8-4", "1.5@4-8-16", "1.5@resnet", "-1@4"):
            with self.assertRaises(ValueError, msg=text):
                goals.parse(text, ["resnet50"])

    def test_unmeasured_goal_is_not_met(self):
        self.assertEqual(goals.results([goals.Goal(2, least=4, most=8)], {}, [4, 8, 16], []),
                         [(4, 2, None), (8, 2, None)])
        self.assertEqual(goals.verdict(2, None), "not measured")
        self.assertEqual([goals.verdict(1.5, (ratio, "mpich", True)) for ratio in (1.49, 1.5)], ["missed", "met"])


class Running(unittest.TestCase):
    def test_first_output_is_returned(self):
        self.assertEqual(running.run_together([(["sh", "-c", "echo $A"], {"A": "x"}), (["echo", "b"], {})], 20), "x\n")

    def test_one_failure_ends_all(self):
        start = time.monotonic()
        with self.assertRaisesRegex(running.RunError, "sh ended with exit code 3: broken"):
            running.run_together([(["sleep", "60"], {}), (["sh", "-c", "echo broken >&2; exit 3"], {})], 50)
        self.assertLess(time.monotonic() - start, 30)

    def test_runs_end_at_timeout(self):
        start = time.monotonic()
        with self.assertRaisesRegex(running.RunError, "took more than 1 s: started"):
            running.run_together([(["sh", "-c", "echo started; sleep 60"], {})], 1)
        self.assertLess(time.monotonic() - start, 30)

    def test_interruption_ends_running_programs(self):
        # The interrupt arrives while the program runs, or before Popen() has returned.
        for seconds in (0, 1):
            program = ("import signal, subprocess, sys, time; sys.path.insert(0, sys.argv[1])\n"
                       "from peers import running\n"
                       "class Popen(subprocess.Popen):\n"
                       "    def __init__(self, *arguments, **options):\n"
                       "        super().__init__(*arguments, **options)\n"
                       f"        time.sleep({seconds})\n"
                       "subprocess.Popen = Popen\n"
                       "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
                       "command = ['sh', '-c', 'echo $$ > ' + sys.argv[2] + '; exec sleep 60']\n"
                       "running.run_together([(command, {})], 50)")
            with self.subTest(seconds=seconds), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "pid"
                process = subprocess.Popen([sys.executable, "-c", program, str(Path(SCRIPT).parent), str(path)],
                                           stderr=subprocess.DEVNULL)
                while not path.exists() or not path.read_text().strip():
                    time.sleep(0.02)
                process.terminate()
                process.wait(30)
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(path.read_text()), 0)

    def test_missing_program_is_reported(self):
        with self.assertRaisesRegex(running.RunError, "cannot start /no/such/program: No such file"):
            running.run_together([(["/no/such/program"], {})], 5)

    def test_reports_are_read_by_key(self):
        output = ('a warning\n{"way": "allreduce", "bytes": 4, "us": 0.5}\n{"way": "flat", "bytes": 8, "us": 2}\n')
        self.assertEqual(running.read_lines(output), {"4": 0.5, "flat": 2})
        with self.assertRaisesRegex(running.RunError, "printed no times"):
            running.read_lines("nothing\n")
        times = {"horo_us": {"median": 7}, "horo_arena_us": {"median": 5}}
        self.assertEqual(running.read_horo({"rows": [{"bytes": 4, **times}]}), {"4": 7, "arena4": 5})
        self.assertEqual(running.read_horo(times), {"": 7, "arena": 5})


class Options(unittest.TestCase):
    def test_bad_input_is_one_line_and_exit_code_2(self):
        for options, message in [(["--sizes", "4,6"], "'6' is not a size in bytes"),
                                 (["--sizes", ""], "'' is not a size in bytes"),
                                 (["--models", "resnet"], "'resnet' is not known: use resnet50"),
                                 (["--peers", "nccl"], "'nccl' is not known: use openmpi, mpich"),
                                 (["--ranks", "3", "--hosts", "2"], "--ranks 3 is not a multiple of --hosts 2"),
                                 (["--hosts", "1"], "'1' is not a whole number from 2 to 99"),
                                 (["--ranks", "1"], "'1' is not a whole number from 2 to 65536"),
                                 (["--rounds", "3", "--max-rounds", "2"], "--max-rounds must not be less"),
                                 (["--sizes", "none", "--models", "none"], "there is nothing to measure"),
                                 (["--goals", "1.5@resnet"], "'resnet' is no size, range of sizes or gradient set"),
                                 (["--sizes-per-run", "0"], "'0' is not a whole number from 1 to"),
                                 (["--timeout", "0"], "'0' is not a whole number from 1 to"),
                                 (["--wrong"], "unrecognized arguments: --wrong"),
                                 (["--bin", "/nowhere"], "there is no /nowhere/hororun")]:
            done = script(*options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class FakeRunner:
    """Takes its readings from a list, records the runs, and fails for the setup `failing`."""

    place = places.ThisMachine(2)

    def __init__(self, readings, failing=None):
        self.readings = readings
        self.failing = failing
        self.runs = []

    def probe(self):
        return {"core_to_core_gbps": self.readings.pop(0), "streaming_copy_gbps": 10.0}

    def run(self, setup, case, sizes):
        self.runs.append((setup.label, case))
        if setup.label == self.failing:
            raise running.RunError("broken")
        return {"4": 1.0}


class Rounds(unittest.TestCase):
    SETUPS = [detection.Setup("horo"), detection.Setup("mpich"), detection.Setup("ddp")]
    ROUND = [("horo", "allreduce"), ("mpich", "allreduce"), ("horo", "tiny1000"), ("mpich", "tiny1000"),
             ("ddp", "tiny1000")]

    def measure(self, runner, rounds, max_rounds):
        arguments = Namespace(rounds=rounds, max_rounds=max_rounds, patience=None)
        result = compare_peers.Rounds(runner, self.SETUPS, arguments)
        with contextlib.redirect_stderr(io.StringIO()):
            result.measure(compare_peers.pieces_of([4], ["tiny1000"], 3))
        return result

    def test_rounds_are_interleaved(self):
        runner = FakeRunner([11] * 20)
        rounds = self.measure(runner, 2, 2)
        self.assertEqual(runner.runs, 2 * self.ROUND)
        self.assertEqual([run["round"] for run in rounds.samples], [0] * 5 + [1] * 5)

    def test_work_is_split_into_pieces(self):
        pieces = compare_peers.pieces_of([4, 1024, 4096], ["tiny1000"], 2)
        self.assertEqual([(piece.case, piece.sizes) for piece in pieces],
                         [("allreduce", (4, 1024)), ("allreduce", (4096,)), ("tiny1000", ())])
        self.assertEqual(pieces[0].name, "allreduce 4 1Ki")
        self.assertEqual(len({piece.name for piece in pieces}), 3)

    def test_extra_rounds_run_setups_that_miss_regime(self):
        # The regime changes during the first run of the second round, so horo's allreduce has no run in the new regime.
        runner = FakeRunner([2] * 6 + [11] * 7)
        rounds = self.measure(runner, 1, 9)
        self.assertEqual(runner.runs, 2 * self.ROUND + self.ROUND[:1])
        self.assertEqual((rounds.count, summary.never_met(rounds.samples)), (3, []))

    def test_rounds_end_at_maximum(self):
        runner = FakeRunner([11] * 40)
        rounds = self.measure(runner, 1, 3)
        self.assertEqual((rounds.count, summary.never_met(rounds.samples)), (3, ["apart"]))

    def test_failed_setup_is_not_repeated(self):
        runner = FakeRunner([11] * 40, failing="mpich")
        rounds = self.measure(runner, 2, 2)
        self.assertEqual(rounds.failed, {"mpich": "broken"})
        self.assertEqual([run[0] for run in runner.runs].count("mpich"), 1)
        with self.assertRaises(running.RunError):
            self.measure(FakeRunner([11], failing="horo"), 1, 1)


@unittest.skipIf(QUICK_BIN is None, "runs programs: give --quick BIN")
class Quick(unittest.TestCase):
    def test_horo_beside_open_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            done = script("--bin", QUICK_BIN, "--out", folder, "--peers", "openmpi", "--sizes", "4,4Ki", "--models",
                          "tiny1000", "--rounds", "1", "--max-rounds", "2", "--repeats", "2", "--timeout", "60")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads((Path(folder) / "peers.json").read_text())
            self.assertEqual(done.stdout, (Path(folder) / "peers.md").read_text())
            self.assertNotEqual("no matplotlib" in done.stderr or "nothing is drawn" in done.stderr,
                                (Path(folder) / "peers.png").exists())
        self.assertTrue(result["peers"]["openmpi"]["present"])
        self.assertFalse(result["peers"]["mpich"]["present"])
        self.assertIn("MPICH is absent: left out by --peers", done.stdout)
        first = [run for run in result["runs"] if run["round"] == 0]
        setups = ["horo", "openmpi", *(setup.label for setup in detection.OPENMPI_TUNINGS)]
        self.assertEqual([(run["case"], run["setup"]) for run in first],
                         [(case, setup) for case in ("allreduce", "tiny1000") for setup in setups])
        for run in first:
            if run["case"] == "allreduce":
                keys = ["4", "4096"]
            elif run["setup"] == "horo":
                keys = [""]
            else:
                keys = ["one call per tensor", "packed in 2 MiB", "packed in 4 MiB", "one flat buffer"]
            if run["setup"] == "horo":
                keys += [f"arena{key}" for key in keys]
            self.assertEqual(list(run["us"]), keys)
            self.assertTrue(all(us > 0 for us in run["us"].values()))


if __name__ == "__main__":
    unittest.main()
