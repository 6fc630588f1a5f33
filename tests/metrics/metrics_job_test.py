#!/usr/bin/env python3
"""Starts jobs with HORO_METRICS and checks their metrics files during and after the run.

usage: metrics_job_test.py HORORUN METRICS_JOB
"""
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HORORUN = JOB = ""
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\["\\n])*",?)*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\["\\n])*)"')


def parse_page(text):
    """Parses a page in Prometheus's text format into {family: [(labels, value)]}. Raises ValueError on an error."""
    kinds, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in kinds or kind not in ("counter", "gauge"):
                raise ValueError(line)
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            if not match or match.group(1) not in kinds:
                raise ValueError(line)
            labels = dict(LABEL.findall(match.group(2) or ""))
            family = samples.setdefault(match.group(1), [])
            if any(labels == other for other, _ in family):
                raise ValueError(f"twice: {line}")
            family.append((labels, float(match.group(3))))
    return samples


class Metrics(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="horo-metrics-")
        self.addCleanup(temporary.cleanup)
        self.base = Path(temporary.name)
        self.metrics = self.base / "metrics"

    def start(self, ranks, *arguments, **variables):
        environment = dict(os.environ, TMPDIR=str(self.base), **{"HORO_METRICS": str(self.metrics), **variables})
        return subprocess.Popen([HORORUN, "-np", str(ranks), JOB, *map(str, arguments)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_job(self, ranks, *arguments, **variables):
        job = self.start(ranks, *arguments, **variables)
        _, errors = job.communicate(timeout=120)
        return job.returncode, errors

    def lines(self, rank):
        text = (self.metrics / f"rank.{rank}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def page(self, rank):
        return parse_page((self.metrics / f"rank.{rank}.prom").read_text())

    def by_rank(self, page, family):
        values = {}
        for labels, value in page.get(family, []):
            values[int(labels["rank"])] = values.get(int(labels["rank"]), 0) + value
        return values

    def assert_names_straggler(self, page, slow, ranks):
        skew = self.by_rank(page, "horo_rank_arrival_skew_seconds_total")
        last = self.by_rank(page, "horo_rank_last_steps_total")
        own = self.by_rank(page, "horo_rank_own_seconds_total")
        for rank in set(range(ranks)) - {slow}:
            self.assertGreater(skew[slow], skew[rank], page)
            self.assertGreater(last[slow], last[rank], page)
            self.assertGreater(own[slow], own[rank], page)
        labels, delay = page["horo_straggler_delay_seconds"][0]
        self.assertEqual((labels["rank"], labels["phase"]), (str(slow), "data"), page)
        self.assertGreater(delay, 0)

    def test_every_rank_writes_every_step(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.metrics = self.base / f"of-{ranks}"
                code, errors = self.run_job(ranks, 30, -1, 1)
                self.assertEqual(code, 0, errors)
                jobs = set()
                for rank in range(ranks):
                    lines = self.lines(rank)
                    self.assertEqual([line["step"] for line in lines], list(range(30)))
                    for line in lines:
                        jobs.add(line["job"])
                        self.assertEqual((line["rank"], line["plan"], line["bytes"]), (rank, "grad", 4 * 50_017))
                        self.assertGreater(line["phases"]["data"], 0)
                        phases = sum(line["phases"].values())
                        self.assertLessEqual(phases, line["step_seconds"] + 1e-6)
                        self.assertTrue(math.isclose(line["own_seconds"] + line["blocked_seconds"],
                                                     line["step_seconds"], abs_tol=1e-6))
                        self.assertTrue(math.isclose(line["busbw"], line["algbw"] * 2 * (ranks - 1) / ranks,
                                                     abs_tol=2))
                    page = self.page(rank)
                    self.assertEqual(page["horo_steps_total"][0][1], 30)
                    self.assertEqual(page["horo_steps_total"][0][0]["plan"], "grad")
                    self.assertEqual(page["horo_running"][0][1], 0)
                    self.assertEqual(page["horo_lost_lines_total"][0][1], 0)
                self.assertEqual(len(jobs), 1)

    def test_slow_rank_is_blamed(self):
        for ranks, slow, nodes in ((2, 0, 0), (2, 1, 0), (4, 3, 0), (4, 2, 2)):
            with self.subTest(ranks=ranks, slow=slow, ranks_per_node=nodes):
                self.metrics = self.base / f"slow-{ranks}-{slow}-{nodes}"
                code, errors = self.run_job(ranks, 100, slow, 30, HORO_RANKS_PER_NODE=str(nodes))
                self.assertEqual(code, 0, errors)
                self.assert_names_straggler(self.page(0), slow, ranks)
                shares = [sum(line["exposed_seconds"] for line in self.lines(rank)) for rank in range(ranks)]
                self.assertEqual(min(range(ranks), key=shares.__getitem__), slow, shares)
                self.assertNotIn("horo_rank_own_seconds_total", self.page(1))

    def test_running_job_is_visible(self):
        flights = self.base / "flights"
        job = self.start(2, 2000, 1, 25, HORO_FLIGHT_DIR=str(flights))
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.send_signal, signal.SIGTERM)
        deadline = time.monotonic() + 60
        page, text = {}, ""
        while time.monotonic() < deadline:
            time.sleep(0.2)
            self.assertIsNone(job.poll(), "it ended early")
            if not (self.metrics / "rank.0.prom").exists():
                continue
            page = self.page(0)
            done = subprocess.run([HORORUN, "stragglers", str(flights)], capture_output=True, text=True, timeout=60)
            text = done.stdout
            named = [labels["rank"] for labels, _ in page.get("horo_straggler_delay_seconds", [])]
            if named[:1] == ["1"] and "\nrank 1 (" in text:
                break
        self.assert_names_straggler(page, 1, 2)
        self.assertEqual(page["horo_running"][0][1], 1)
        self.assertRegex(text, r"^\d+ operations over .*\n(?:.*\n)*rank 1 \(.*\) came last to ")
        self.assertRegex(text, r"in phase '(data|backward)'")

    def test_crash_leaves_complete_lines_and_next_job_appends(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.metrics = self.base / f"crash-{ranks}"
                code, errors = self.run_job(ranks, 200, ranks - 1, 5, "crash")
                self.assertNotEqual(code, 0, errors)
                self.assertGreater(len(self.lines(ranks - 1)), 10)
                with open(self.metrics / "rank.0.jsonl", "a") as file:
                    file.write('{"job": "cut o')
                code, errors = self.run_job(ranks, 20, -1, 1)
                self.assertEqual(code, 0, errors)
                for rank in range(ranks):
                    jobs = [line["job"] for line in self.lines(rank)]
                    self.assertEqual(len(set(jobs)), 2)
                    self.assertEqual(jobs.count(jobs[-1]), 20)

    def test_unwritable_directory_is_rejected(self):
        (self.base / "file").write_text("x")
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                code, errors = self.run_job(ranks, 2, -1, 1, HORO_METRICS=str(self.base / "file" / "sub"))
                self.assertNotEqual(code, 0)
                reports = [line for line in errors.splitlines() if "HORO_METRICS" in line and "metrics_job:" in line]
                self.assertEqual(len(set(reports)), 1, errors)
                self.assertRegex(reports[0], r"HORO_METRICS: rank 0 \(host \S+\) cannot write .*/file/sub: "
                                             r"Not a directory; set it to a directory that every rank can write to")

    def test_off_and_empty(self):
        code, errors = self.run_job(2, 3, -1, 1, HORO_METRICS="off")
        self.assertEqual(code, 0, errors)
        self.assertFalse(self.metrics.exists())
        code, errors = self.run_job(1, 3, -1, 1, HORO_METRICS="")
        self.assertNotEqual(code, 0)
        self.assertIn("HORO_METRICS: an empty text is not a path", errors)


if __name__ == "__main__":
    HORORUN, JOB = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
