#!/usr/bin/env python3
"""Plants causes of long steps in training runs, and checks that the bottleneck report names them and their cost.

  scripts/bottleneck_check.py --rounds 2 --json results.json

Each case is a cause in three severities. Its run is compared with a run to which the first recommendation was applied (its
option, or, where the remedy is no option, without the planted cause): the mean step must be shorter by the promised time
within 25 %. In healthy runs there must be no recommendation. Computation waits, as for an accelerator, so that other
programs on the machine hardly change the result. The causes "small batch", "small buckets" and "slow link" need root: they limit a
link between two emulated hosts (scripts/cluster_lab.sh); without root they are left out. Exit code 1 if fewer than 95 % of the first recommendations are
correct, if a healthy run has one, or if more than 5 % of the promises are missed. Runs whose report names busy cores are not
judged; if these are most of them, the exit code is 77.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import command_line

REPOSITORY = Path(__file__).resolve().parent.parent
LAB = "bottleneck"
TOLERANCE = 0.25
SKIPPED = 77  # exit code
SUSPEND_PERIOD = 0.2  # seconds


@dataclass
class Case:
    cause: str
    severity: int
    words: dict                                  # options of planted_job
    ranks: int = 2
    healthy: dict = field(default_factory=dict)  # options without the cause, where the remedy is no option
    environment: dict = field(default_factory=dict)
    suspended: float = 0                         # share of the time in which rank 1 is stopped
    has_limited_link: bool = False

    def name(self):
        return f"{self.cause} {self.severity}" if self.severity else self.cause


def cases():
    """Steps compute for about 8 ms: 8 samples of 1 ms on each of 2 ranks."""
    base = {"sample-ms": 1, "global-batch": 16}
    result = [Case("none", 0, base), Case("none", 0, {**base, "sample-ms": 0.5}),
              Case("none", 0, {**base, "workers": 2, "decode-ms": 0.05})]
    for i, (read, decode, slow, imbalance, log, share) in enumerate(
            [(1.6, 0.3, 1.25, 0.4, 1.5, 0.2), (2.5, 0.6, 1.6, 0.8, 4, 0.35), (4, 1.2, 2.5, 1.6, 12, 0.5)], 1):
        result += [
            Case("slow reader", i, {**base, "read-ms": read}),
            Case("slow decode", i, {**base, "decode-ms": decode, "workers": 0}, healthy={"decode-ms": 0}),
            Case("slow rank", i, {**base, "slow-rank": 1, "slow-factor": slow}, healthy={"slow-factor": 1}),
            Case("suspended rank", i, base, suspended=share),
            Case("imbalance", i, {**base, "imbalance": imbalance}, healthy={"balanced": True}),
            Case("logging", i, {**base, "log-ms": log}),
            Case("checkpoints", i, {**base, "tensors": 16, "values": [100_000, 200_000, 400_000][i - 1], "checkpoint-every": 1}),
            Case("small batch", i, {"sample-ms": [0.4, 0.2, 0.1][i - 1], "global-batch": 4, "tensors": 8,
                                    "values": 1024}, ranks=1, has_limited_link=True),
            Case("small buckets", i, {**base, "tensors": [1000, 2000, 4000][i - 1], "values": 2}, ranks=1,
                 environment={"HORO_BUCKET_BYTES": "8"}, has_limited_link=True),
            Case("slow link", i, {**base, "tensors": 16, "values": [12_000, 16_000, 24_000][i - 1]}, ranks=1,
                 has_limited_link=True)]
    return result


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=command_line.count, default=2, metavar="N", help="repetitions of all cases; default: 2")
    add("--steps", type=command_line.whole_number(20, 100_000), default=150, metavar="N", help="of each run; default: 150")
    add("--causes", default="", metavar="CAUSE,...", help="only these, such as 'slow reader,none'")
    add("--severities", default="1,2,3", metavar="N,...", help="only these; default: 1,2,3")
    add("--real-time", action="store_true",
        help="as root, give the runs real-time priority (chrt), so that other programs on a busy machine do not disturb them")
    add("--tries", type=command_line.count, default=1, metavar="N",
        help="repeat a run whose ranks waited for cores, up to N runs in all; default: 1")
    add("--healthy-tries", type=command_line.count, default=1, metavar="N",
        help="a false alarm counts only if N runs in a row have one: for a test, in which other programs disturb single runs; "
             "default: 1")
    add("--no-removal", action="store_true", help="do not check the promised times")
    add("--build", type=Path, default=REPOSITORY / "build" / "release", metavar="DIR", help="default: build/release")
    add("--json", type=Path, help="write all results to this file")
    return parser.parse_args()


class Suspender(threading.Thread):
    """Stops rank 1 of a job for a share of each period."""

    def __init__(self, mark, share):
        super().__init__(daemon=True)
        self.mark, self.share, self.ended = mark, share, threading.Event()

    def rank(self):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(b"/planted_job") and self.mark.encode() in words:
                    if b"OMPI_COMM_WORLD_RANK=1\0" in (path.parent / "environ").read_bytes():
                        return int(path.parent.name)
            except OSError:
                continue  # the process has ended
        return None

    def run(self):
        pid = None
        while pid is None and not self.ended.wait(0.05):
            pid = self.rank()
        while not self.ended.wait(SUSPEND_PERIOD * (1 - self.share)):
            try:
                os.kill(pid, signal.SIGSTOP)
                self.ended.wait(SUSPEND_PERIOD * self.share)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                return


def command_of(case, arguments, words, report):
    program = [str(arguments.build / "tests" / "planted_job")]
    for name, value in {**words, "steps": arguments.steps, "json": report}.items():
        program += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    priority = ["chrt", "--rr", "1"] if arguments.real_time and os.geteuid() == 0 else []
    if case.has_limited_link:
        return [*priority, str(REPOSITORY / "scripts" / "cluster_lab.sh"), "run", str(case.ranks), *program]
    return [*priority, str(arguments.build / "bin" / "hororun"), "-np", str(case.ranks), *program]


def run(case, arguments, words, environment, suspended):
    """The report of a run."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        words = dict(words)
        if "checkpoint-every" in words:
            words["checkpoint-dir"] = os.path.join(folder, "checkpoints")
        suspender = Suspender(report, suspended) if suspended else None
        if suspender:
            suspender.start()
        done = subprocess.run(command_of(case, arguments, words, report), text=True, check=False, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "CLUSTER_LAB": LAB, **environment})
        if suspender:
            suspender.ended.set()
            suspender.join()
        if done.returncode != 0:
            sys.exit(f"bottleneck_check.py: {case.name()} ended with code {done.returncode}:\n{done.stdout}")
        with open(report) as file:
            return json.load(file)["bottlenecks"]


def changed(case, remedy):
    """The options, the environment and the suspended share with the remedy of a recommendation."""
    words, environment, suspended = dict(case.words), dict(case.environment), case.suspended
    buckets = re.search(r"HORO_BUCKET_BYTES=(\S+)", remedy)
    options = re.findall(r"--(workers|prefetch|global-batch|checkpoint-every|log-every|wire) (\w+)", remedy)
    if buckets:
        environment["HORO_BUCKET_BYTES"] = buckets.group(1)
    words.update(options)
    if not buckets and not options:
        words.update(case.healthy)
        suspended = 0
    return words, environment, suspended


def regained(case, arguments, before, one):
    """The time regained per step by the remedy of a recommendation."""
    words, environment, suspended = changed(case, one["remedy"])
    after = run(case, arguments, words, environment, suspended)["step_ms"]
    scale = int(words["global-batch"]) / case.words["global-batch"]
    return before["step_ms"] - after / scale


def run_undisturbed(case, arguments):
    """The report of a run whose ranks did not wait for cores, or of the last try."""
    for _ in range(arguments.tries):
        report = run(case, arguments, case.words, case.environment, case.suspended)
        if all(one["cause"] != "busy cores" for one in report["recommendations"]):
            break
    return report


def examine(case, arguments):
    for _ in range(arguments.healthy_tries if case.cause == "none" else 1):
        report = run_undisturbed(case, arguments)
        if not report["recommendations"]:
            break
    first = report["recommendations"][0] if report["recommendations"] else None
    named = first["cause"] if first else "none"
    result = {"cause": case.cause, "severity": case.severity, "named": named, "is_correct": named == case.cause,
              "step_ms": report["step_ms"], "recommendations": report["recommendations"], "promised_ms": None,
              "regained_ms": None}
    if first and result["is_correct"] and not arguments.no_removal:
        result["promised_ms"], result["regained_ms"] = first["regained_ms"], regained(case, arguments, report, first)
    return result


def keeps_promise(result):
    return abs(result["regained_ms"] - result["promised_ms"]) <= TOLERANCE * result["promised_ms"]


def describe(case, result):
    text = f"{case.name():18} step {result['step_ms']:7.2f} ms  named: {result['named']:15}"
    if result["promised_ms"] is not None:
        text += (f" promised {result['promised_ms']:6.2f} ms, regained {result['regained_ms']:6.2f} ms"
                 f"{'' if keeps_promise(result) else '  MISSED'}")
    return text + ("" if result["is_correct"] else "  WRONG")


def lab(*words):
    return subprocess.run([str(REPOSITORY / "scripts" / "cluster_lab.sh"), *words], check=False,
                          env={**os.environ, "CLUSTER_LAB": LAB}, stdout=subprocess.DEVNULL).returncode == 0


def chosen(arguments):
    causes = [cause for cause in arguments.causes.split(",") if cause]
    severities = [int(severity) for severity in arguments.severities.split(",")] + [0]
    return [case for case in cases() if case.severity in severities and (not causes or case.cause in causes)]


def main():
    arguments = parse_arguments()
    todo = chosen(arguments)
    needs_lab = any(case.has_limited_link for case in todo)
    if needs_lab and not lab("up", "2", "100mbit"):
        print("bottleneck_check.py: no emulated hosts here: causes on slow links are left out")
        todo = [case for case in todo if not case.has_limited_link]
    results = []
    try:
        for _ in range(arguments.rounds):
            for case in todo:
                results.append(examine(case, arguments))
                print(describe(case, results[-1]), flush=True)
    finally:
        if needs_lab:
            lab("down")
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
    return judge(results)


def is_disturbed(result):
    return result["named"] == "busy cores"


def judge(all_results):
    results = [result for result in all_results if not is_disturbed(result)]
    if disturbed := len(all_results) - len(results):
        print(f"{command_line.counted(disturbed, 'run')} not judged: the ranks waited for cores that other programs used")
    if 2 * len(results) < len(all_results):
        print("bottleneck_check.py: skipped: this machine is too busy")
        return SKIPPED
    planted = [result for result in results if result["cause"] != "none"]
    false_alarms = sum(not result["is_correct"] for result in results if result["cause"] == "none")
    correct = sum(result["is_correct"] for result in planted)
    promises = [result for result in results if result["promised_ms"] is not None]
    kept = sum(map(keeps_promise, promises))
    print(f"{command_line.counted(len(results), 'run')}: {correct} of {len(planted)} causes named correctly, "
          f"{false_alarms} false alarms, {kept} of {len(promises)} promises kept within {100 * TOLERANCE:.0f} %")
    return 0 if correct >= 0.95 * len(planted) and false_alarms == 0 and kept >= 0.95 * len(promises) else 1


if __name__ == "__main__":
    start = time.monotonic()
    code = main()
    print(f"{time.monotonic() - start:.0f} s")
    sys.exit(code)
