#!/usr/bin/env python3
"""Checks the driver of scripts/chaos.py: a job that ended as documented passes, and every planted mistake is found.

usage: chaos_test.py SCRIPTS_FOLDER
"""
import subprocess
import sys
import time
import unittest
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from chaos.expectations import DEAD_LIMIT_S, LATE_LIMIT_S, TABLE
from chaos.judge import Outcome, blamed_by, judge, launcher_verdicts
from chaos.links import KINDS, LinkScenario, draw_link, judge_link
from chaos.report import last_line
from chaos.sandbox import Sandbox
from chaos.scenario import FAULTS, PLACES, Scenario, combinations, draw

KILLED = "hororun: rank 1 (host a) ended first: killed by signal 9 (Killed)\nhororun: more: hororun doctor /tmp/x\n"
NOTICED = "mpirun noticed that process rank {} with PID 0 on node a exited on signal 9 (Killed).\n"


def scenario(fault="kill", place="before_ready", **fields):
    return replace(Scenario(0, fault, place, 4, (1,), "hororun", "one", 0, 0, 0), **fields)


def outcome(exit_code=137, output=KILLED, **fields):
    return replace(Outcome(exit_code, output, 1.0, False, [(1, "at", 10.0)], []), **fields)


class Drawing(unittest.TestCase):
    def test_round_depends_on_seed_and_number_alone(self):
        self.assertEqual(draw(7, 3), draw(7, 3))
        self.assertNotEqual(draw(7, 3), replace(draw(8, 3), number=3))

    def test_rounds_cover_all_faults_places_and_launchers_within_limits(self):
        drawn = [draw(1, number) for number in range(2000)]
        self.assertEqual({(one.fault, one.place) for one in drawn}, {pair for pair in TABLE if pair[0] in FAULTS})
        self.assertEqual({one.launcher for one in drawn}, {"hororun", "mpirun"})
        self.assertEqual({one.hosts for one in drawn}, {"one", "pretended", "lab"})
        self.assertEqual({one.ranks for one in drawn}, set(range(2, 9)))
        for one in drawn:
            self.assertIn(len(one.victims), (1, 2, 3))
            self.assertLess(len(one.victims), one.ranks)
            self.assertLess(max(one.victims), one.ranks)

    def test_only_restricts_the_rounds(self):
        self.assertEqual(combinations(["kill@in_init"]), [("kill", "in_init")])
        self.assertEqual(combinations(["stuck@in_wait"]), [("stuck", "in_wait")])
        self.assertEqual(len(combinations(["kill", "@in_init"])), len(PLACES) + len(FAULTS) - 1)
        with self.assertRaisesRegex(ValueError, "no such fault or place"):
            combinations(["kil"])


class Reading(unittest.TestCase):
    def test_blamed_ranks_are_the_subject_of_a_sentence(self):
        for text, ranks in (
                ("rank 1 (host a) ended first: killed by signal 9 (Killed)", {1}),
                ("ranks 0, 2-4 and 6 (host a, pids 1, 2) are stopped; ranks 1 and 5 have waited 2 s for them",
                 {0, 2, 3, 4, 6}),
                ("rank 0 (host a, pid 5) failed (the first of 2 ranks that failed): rank 1 never submitted 'x'", {0}),
                ("ranks 0-1 (host b, pids 6, 7) have waited 3s in horo::init() for rank 2, which has not called it", {2}),
                ("rank 3 (host b, pid 6) has waited 3s in horo::init() for other ranks", {3}),
                ("'x' cannot complete: rank 2 (host b) has shut down", {2}),
                ("the job failed with exit code 1; mpirun did not name a rank", set())):
            self.assertEqual(blamed_by(text), ranks, text)

    def test_only_lines_about_the_cause_are_verdicts(self):
        self.assertEqual(launcher_verdicts("rank 0 is dead\n" + KILLED),
                         ["rank 1 (host a) ended first: killed by signal 9 (Killed)"])


class Judging(unittest.TestCase):
    def assert_finds(self, findings, kind, text):
        self.assertRegex("\n".join(findings.describe()), rf"(?m)^{kind}: .*{text}")

    def test_a_job_that_ended_as_documented_passes(self):
        self.assertTrue(judge(scenario(), outcome()).is_good())
        self.assertTrue(judge(scenario(launcher="mpirun"), outcome(output=NOTICED.format(1))).is_good())
        self.assertTrue(judge(scenario("throw", "in_callback"), outcome(0, "")).is_good())
        stopped = "10:00:00.000 warning [rank 0] rank 1 (host a, pid 7) is stopped (SIGSTOP, or a debugger)\n"
        self.assertTrue(judge(scenario("stop", launcher="mpirun"), outcome(1, stopped, seconds=9.0)).is_good())

    def test_a_late_end_is_a_hang(self):
        self.assert_finds(judge(scenario(), outcome(seconds=DEAD_LIMIT_S + 0.1)), "HANG", "ended after 10.1 s")
        self.assert_finds(judge(scenario("stop"), outcome(seconds=LATE_LIMIT_S + 0.1)), "HANG", "ended after 23.1 s")
        self.assert_finds(judge(scenario(), outcome(-9, was_killed=True, seconds=15)), "HANG", "not ended")

    def test_another_exit_code_is_wrong(self):
        for code in (0, 1, 9, 143):
            self.assert_finds(judge(scenario(), outcome(code)), "WRONG", f"exit code {code}, expected 137")
        self.assert_finds(judge(scenario("exit"), outcome(0, "hororun: rank 1 exited\n")), "WRONG", "exit code 0")
        self.assert_finds(judge(scenario("throw", "in_callback"), outcome(1, "")), "WRONG", "exit code 1, expected 0")

    def test_another_rank_or_event_is_wrong(self):
        for text in ("rank 0 (host a) ended first: killed by signal 9 (Killed)", "ranks 0-1 (host a) are dead",
                     "rank 1 (host a) ended first: exit code 1"):
            self.assert_finds(judge(scenario(), outcome(output=f"hororun: {text}\n")), "WRONG", "is not the cause")
            self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=f"{text}\n")), "WRONG", "no line names")
        self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=NOTICED.format(2))), "WRONG", "no line names")

    def test_of_several_ranks_that_failed_the_first_is_the_cause(self):
        both = scenario(victims=(1, 2))
        late = [(2, "at", 10.0), (1, "at", 12.0)]
        self.assertTrue(judge(both, outcome(injected=[(2, "at", 10.0), (1, "at", 10.1)])).is_good())
        self.assert_finds(judge(both, outcome(injected=late)), "WRONG", "is not the cause")
        self.assert_finds(judge(both, outcome(injected=late[:1])), "WRONG", "is not the cause")
        named = KILLED.replace("rank 1", "ranks 1-2")
        self.assertTrue(judge(both, outcome(output=named, injected=late)).is_good())

    def test_no_verdict_is_wrong(self):
        for launcher, text in (("hororun", "hororun names no rank"), ("mpirun", "no line names")):
            for output in ("", "hororun: more: hororun doctor /tmp/rank 1\n", "hororun: the job failed with exit code 137\n"):
                self.assert_finds(judge(scenario(launcher=launcher), outcome(output=output)), "WRONG", text)

    def test_a_second_verdict_may_not_contradict_the_first(self):
        for second in ("rank 0 (host a) failed: x", "nothing is wrong as far as these files show"):
            self.assert_finds(judge(scenario(), outcome(output=f"{KILLED}hororun: {second}\n")), "WRONG", "contradicts")
        both = f"{KILLED}hororun: rank 1 (host a, pid 7) is dead\n"
        self.assertTrue(judge(scenario(), outcome(output=both)).is_good())

    def test_ranks_may_not_blame_another_rank(self):
        blame = "chaos_job: rank 2: rank 3 (host a) is dead\n"
        self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=NOTICED.format(1) + blame)), "WRONG",
                          "a rank blames another cause: rank 3")

    def test_a_rank_that_waits_is_not_the_cause(self):
        text = "10:00:00.000 warning [rank 1] rank 1 (host a, pid 7) has waited 3s in horo::init() for other ranks\n"
        self.assert_finds(judge(scenario("stop", launcher="mpirun"), outcome(1, text)), "WRONG", "no line names")

    def test_the_text_of_an_exception_must_be_there(self):
        verdict = "hororun: rank 1 (host a) ended first: exit code 1\n"
        self.assert_finds(judge(scenario("throw"), outcome(1, verdict)), "WRONG", "is not in the output")
        text = "chaos_job: rank 1: injected failure of rank 1\n"
        self.assertTrue(judge(scenario("throw"), outcome(1, text + verdict)).is_good())

    def test_plain_mpirun_need_not_name_a_rank_in_which_horo_does_not_run(self):
        early = scenario(place="before_init", launcher="mpirun")
        self.assertTrue(judge(early, outcome(output="")).is_good())
        self.assertFalse(judge(early, outcome(0, output="")).is_good())
        self.assertFalse(judge(replace(early, launcher="hororun"), outcome(output="")).is_good())
        self.assertFalse(judge(replace(early, fault="exit"), outcome(output="")).is_good())
        self.assertTrue(judge(replace(early, place="in_init"), outcome(output="")).is_good())
        self.assertFalse(judge(replace(early, place="in_init", fault="segv"), outcome(139, output="")).is_good())
        self.assertFalse(judge(replace(early, place="after_init"), outcome(output="")).is_good())

    def test_leftovers_are_reported(self):
        self.assert_finds(judge(scenario(), outcome(left=["/dev/shm/horo-1"])), "LEFT", "/dev/shm/horo-1")

    def test_a_fault_that_did_not_happen_is_wrong(self):
        self.assert_finds(judge(scenario(), outcome(injected=[])), "WRONG", "did not happen")

    def test_last_line_counts_rounds_by_kind(self):
        rounds = [(scenario(), outcome(), judge(scenario(), one)) for one in
                  (outcome(), outcome(seconds=99), outcome(1, left=["a", "b"]), outcome(left=["a"]), outcome(1, ""))]
        self.assertEqual(last_line(rounds), "rounds 5 hangs 1 leftovers 2 wrong 2")


class Links(unittest.TestCase):
    CUT = LinkScenario(1, "cut", "host", 4, 2, "hororun", (2,), 1.0)
    TEXT = "hororun: ranks 4-5 (host host2) have given no sign of life for 3 s: the way to it is in trouble\n"

    def judge(self, exit_code=1, output=TEXT, scenario=CUT, **fields):
        return judge_link(scenario, outcome(exit_code, output, **fields))

    def test_kinds_take_turns(self):
        self.assertEqual([draw_link(1, number).fault for number in range(8)], [*KINDS, *KINDS])
        for number in range(200):
            drawn = draw_link(1, number)
            self.assertLess(max(drawn.targets), drawn.hosts)
            self.assertFalse(drawn.fault == "freeze" and 0 in drawn.targets)

    def test_ranks_behind_the_link_are_the_cause(self):
        self.assertTrue(self.judge().is_good())
        self.assertFalse(self.judge(output=self.TEXT.replace("4-5", "2-3")).is_good())
        self.assertFalse(self.judge(output=self.TEXT.replace("4-5", "3-5")).is_good())
        self.assertFalse(self.judge(output="").is_good())
        ended = "hororun: no rank of the job runs any more, but mpirun did not end; hororun ended the job\n"
        self.assertFalse(self.judge(output=ended).is_good())
        self.assertTrue(self.judge(output=ended + self.TEXT).is_good())
        self.assertFalse(self.judge(output=self.TEXT + "hororun: rank 0 failed\n").is_good())

    def test_under_mpirun_no_rank_may_blame_another_host(self):
        scenario = replace(self.CUT, launcher="mpirun")
        text = self.TEXT.replace("hororun: ", "chaos_job: rank 0: ")
        self.assertTrue(self.judge(output=text, scenario=scenario).is_good())
        self.assertFalse(self.judge(output=text + "chaos_job: rank 1: waited 9s for rank 0 (host host0)\n",
                                    scenario=scenario).is_good())
        self.assertFalse(self.judge(output="rank 1 failed\n", scenario=scenario).is_good())

    def test_a_cut_ends_the_job_in_time_and_a_short_one_need_not(self):
        self.assertFalse(self.judge(0).is_good())
        self.assertFalse(self.judge(seconds=LATE_LIMIT_S + 1).is_good())
        short = replace(self.CUT, fault="short cut")
        self.assertTrue(self.judge(0, "", scenario=short, seconds=40).is_good())
        self.assertTrue(self.judge(scenario=short).is_good())
        self.assertFalse(self.judge(output="", scenario=short).is_good())

    def test_lost_packets_end_no_job(self):
        loss = replace(self.CUT, fault="loss", place="all", targets=(0, 1, 2, 3))
        self.assertTrue(self.judge(0, "", scenario=loss, seconds=40).is_good())
        self.assertFalse(self.judge(1, scenario=loss).is_good())
        self.assertFalse(self.judge(0, "", scenario=loss, left=["host1:/shm/x"]).is_good())


class Sandboxes(unittest.TestCase):
    def test_what_a_job_leaves_is_found(self):
        try:
            sandbox = Sandbox().__enter__()
        except OSError as reason:
            self.skipTest(str(reason))
        self.addCleanup(sandbox.__exit__)
        self.assertEqual(sandbox.left(), [])
        make = "touch /dev/shm/left $TMPDIR/left; mkdir -p $TMPDIR/horo-$(id -u); exec sleep 100 >/dev/null"
        job = subprocess.Popen(sandbox.wrap(["sh", "-c", make]), env={"PATH": "/usr/bin:/bin", **sandbox.environment()})
        deadline = time.monotonic() + 30
        while len(sandbox.left()) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        left = "\n".join(sandbox.left())
        self.assertRegex(left, rf"process {job.pid} ")
        self.assertIn("/dev/shm/left", left)
        self.assertIn("$TMPDIR/left", left)
        self.assertNotIn("horo-", left)
        self.assertFalse(Path("/dev/shm/left").exists())
        sandbox.kill_all()
        job.wait(10)
        self.assertEqual([thing for thing in sandbox.left() if thing.startswith("process")], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
