#!/usr/bin/env python3
"""Tests the judge of scripts/chaos.py: a job with the documented end passes, and every deviation is found.

usage: chaos_test.py SCRIPTS_FOLDER
"""
import subprocess
import sys
import time
import unittest
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from chaos.expectations import DEAD_LIMIT_S, LATE_LIMIT_S, TABLE, TIMEOUT_S
from chaos.judge import Outcome, ranks_named_by, judge, launcher_verdicts
from chaos.links import KINDS, LinkScenario, draw_link, judge_link
from chaos.report import last_line
from chaos.sandbox import Sandbox, is_record
from chaos.scenario import FAULTS, PLACES, Scenario, combinations, draw

KILLED = "hororun: rank 1 (host a) was killed by signal 9 (Killed)\nhororun: more: hororun doctor /tmp/x\n"
NOTICED = "mpirun noticed that process rank {} with PID 0 on node a exited on signal 9 (Killed).\n"


def scenario(fault="kill", place="before_ready", **fields):
    return replace(Scenario(0, fault, place, 4, (1,), "hororun", "one", 0, 0, 0), **fields)


def outcome(exit_code=137, output=KILLED, **fields):
    return replace(Outcome(exit_code, output, 1.0, False, [(1, "at", 10.0)], []), **fields)


class Drawing(unittest.TestCase):
    def test_round_depends_on_seed_and_number_alone(self):
        self.assertEqual(draw(7, 3), draw(7, 3))
        self.assertNotEqual(draw(7, 3), replace(draw(8, 3), number=3))

    def test_rounds_cover_all_scenarios(self):
        drawn = [draw(1, number) for number in range(2000)]
        self.assertEqual({(one.fault, one.place) for one in drawn}, {pair for pair in TABLE if pair[0] in FAULTS})
        self.assertEqual({one.launcher for one in drawn}, {"hororun", "mpirun"})
        self.assertEqual({one.hosts for one in drawn}, {"one", "pretended", "lab"})
        self.assertEqual({one.ranks for one in drawn}, set(range(2, 9)))
        for one in drawn:
            self.assertIn(len(one.victims), (1, 2, 3))
            self.assertLess(len(one.victims), one.ranks)
            self.assertLess(max(one.victims), one.ranks)

    def test_only_option_restricts_rounds(self):
        self.assertEqual(combinations(["kill@in_init"]), [("kill", "in_init")])
        self.assertEqual(combinations(["stuck@in_wait"]), [("stuck", "in_wait")])
        self.assertEqual(len(combinations(["kill", "@in_init"])), len(PLACES) + len(FAULTS) - 1)
        with self.assertRaisesRegex(ValueError, "no such fault or place"):
            combinations(["kil"])


class Reading(unittest.TestCase):
    def test_blamed_rank_is_subject_of_sentence(self):
        for text, ranks in (
                ("rank 1 (host a) was killed by signal 9 (Killed)", {1}),
                ("ranks 0, 2-4 and 6 (host a, pids 1, 2) are stopped; ranks 1 and 5 have waited 2 s for them",
                 {0, 2, 3, 4, 6}),
                ("rank 0 (host a, pid 5) failed (the first of 2 ranks that failed): rank 1 never submitted 'x'", {0}),
                ("ranks 0-1 (host b, pids 6, 7) have waited 3 s in horo::init() for rank 2, which has not called it", {2}),
                ("rank 3 (host b, pid 6) has waited 3 s in horo::init() for other ranks; 1 of the 2 ranks of this host", set()),
                ("rank 3 (host b, pid 6) has waited 3 s in horo::init(): all ranks of the job have called it", set()),
                ("'x' cannot complete: rank 2 (host b) has shut down", {2}),
                ("shutdown: 'x' of process set {0, 2} cannot complete: rank 2 (host b) has shut down", {2}),
                ("gradients 'net': rank 2 (host b) has left after 3 steps, but rank 0 (host b) exchanges another step", {2}),
                ("'x' has waited 8.1 s for rank 2 (host b), rank 3 (host a; host c) to submit it", {2, 3}),
                ("waited 8.1 s for rank 2 (host b) to enter a collective (HORO_TIMEOUT is 8 s)", set()),
                ("rank 1 (pid 8) (and 1 more) exited without completing horo::init(), in which ranks 0 and 2 wait", {1}),
                ("a subset of ranks is in one collective and the rest in another: rank 1 (host b) in allreduce", set()),
                ("ended after rank 1 (host a) was killed by signal 9 (Killed)", set()),
                ("the job failed with exit code 1; mpirun did not name a rank", set())):
            self.assertEqual(ranks_named_by(text), ranks, text)

    def test_only_lines_about_cause_are_verdicts(self):
        self.assertEqual(launcher_verdicts("rank 0 is dead\n" + KILLED),
                         ["rank 1 (host a) was killed by signal 9 (Killed)"])


class Judging(unittest.TestCase):
    def assert_finds(self, findings, kind, text):
        self.assertRegex("\n".join(findings.describe()), rf"(?m)^{kind}: .*{text}")

    def test_job_with_documented_end_passes(self):
        self.assertTrue(judge(scenario(), outcome()).is_good())
        self.assertTrue(judge(scenario(launcher="mpirun"), outcome(output=NOTICED.format(1))).is_good())
        self.assertTrue(judge(scenario("throw", "in_callback"), outcome(
            0, "10:00:00.000 error [rank 1] a completion callback threw: injected failure of rank 1\n")).is_good())
        stopped = "10:00:00.000 warning [rank 0] rank 1 (host a, pid 7) is stopped (SIGSTOP, or a debugger)\n"
        self.assertTrue(judge(scenario("stop", launcher="mpirun"), outcome(1, stopped, seconds=9.0)).is_good())

    def test_late_end_is_hang(self):
        self.assert_finds(judge(scenario(), outcome(seconds=DEAD_LIMIT_S + 0.1)), "HANG", "ended after 10.1 s")
        self.assert_finds(judge(scenario("stop"), outcome(seconds=LATE_LIMIT_S + 0.1)), "HANG", "ended after 23.1 s")
        self.assert_finds(judge(scenario(), outcome(-9, was_killed=True, seconds=15)), "HANG", "not ended")

    def test_another_exit_code_is_wrong(self):
        for code in (0, 1, 9, 143):
            self.assert_finds(judge(scenario(), outcome(code)), "WRONG", f"exit code {code}, expected 137")
        self.assert_finds(judge(scenario("exit"), outcome(0, "hororun: rank 1 exited\n")), "WRONG", "exit code 0")
        self.assert_finds(judge(scenario("throw", "in_callback"), outcome(1, "")), "WRONG", "exit code 1, expected 0")

    def test_another_rank_or_event_is_wrong(self):
        for text in ("rank 0 (host a) was killed by signal 9 (Killed)", "ranks 0-1 (host a) are dead",
                     "rank 1 (host a) exited with code 1"):
            self.assert_finds(judge(scenario(), outcome(output=f"hororun: {text}\n")), "WRONG", "is not the cause")
            self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=f"{text}\n")), "WRONG", "no line names")
        self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=NOTICED.format(2))), "WRONG", "no line names")

    def test_first_failed_rank_is_cause(self):
        both = scenario(victims=(1, 2))
        late = [(2, "at", 10.0), (1, "at", 12.0)]
        self.assertTrue(judge(both, outcome(injected=[(2, "at", 10.0), (1, "at", 10.1)])).is_good())
        self.assert_finds(judge(both, outcome(injected=late)), "WRONG", "is not the cause")
        self.assert_finds(judge(both, outcome(injected=late[:1])), "WRONG", "is not the cause")
        named = KILLED.replace("rank 1", "ranks 1-2")
        self.assertTrue(judge(both, outcome(output=named, injected=late)).is_good())

    def test_no_verdict_is_wrong(self):
        for output in ("", "hororun: more: hororun doctor /tmp/rank 1\n", "hororun: the job failed with exit code 137\n"):
            self.assert_finds(judge(scenario(), outcome(output=output)), "WRONG", "no verdict|is not the cause")
            self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=output)), "WRONG", "no line names")

    def test_rank_that_is_not_subject_is_not_blamed(self):
        for text in ("ended after rank 1 (host a) was killed by signal 9 (Killed)", "signal 9: see rank 1"):
            self.assert_finds(judge(scenario(), outcome(output=f"hororun: {text}\n")), "WRONG", "is not the cause")
            self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=f"horo: {text}\n")), "WRONG", "no line names")

    def test_hororun_gives_one_verdict(self):
        crash = "hororun: mpirun itself was killed by signal 11 (Segmentation fault)\n"
        self.assertTrue(judge(scenario(), outcome(output=KILLED + crash)).is_good())
        self.assertFalse(judge(scenario(), outcome(output=crash)).is_good())
        for second in ("rank 0 (host a) failed: x", "nothing is wrong as far as these files show",
                       "rank 1 (host a, pid 7) is dead", "no rank of the job runs any more; hororun ended the job"):
            self.assert_finds(judge(scenario(), outcome(output=f"{KILLED}hororun: {second}\n")), "WRONG",
                              "more than one verdict: ")

    def test_crash_of_plain_mpirun_is_counted_separately(self):
        left = ["$TMPDIR/ompi.vm.0/pid.7", "/dev/shm/vader_segment.vm.0.1.0"]
        crash = judge(scenario(launcher="mpirun"), outcome(-11, NOTICED.format(1), left=left))
        self.assertTrue(crash.is_good(), crash.describe())
        self.assertEqual(crash.end_of_mpirun, "was killed by signal 11")
        self.assertFalse(judge(scenario(launcher="mpirun"), outcome(-11, "")).is_good())
        self.assertFalse(judge(scenario(launcher="mpirun"), outcome(-11, NOTICED.format(1), left=["process 7"])).is_good())
        self.assertFalse(judge(scenario(), outcome(-11, KILLED)).is_good())
        self.assertFalse(judge(scenario(launcher="mpirun"), outcome(-9, NOTICED.format(1))).is_good())
        hung = NOTICED.format(1) + "chaos: still there: process 5 (S, mpirun -np 4)\n"
        rank = "chaos: still there: process 6 (S, /x/chaos_job kill)\n"
        for launcher, output, is_good in (("mpirun", hung, True), ("mpirun", hung + rank, False), ("hororun", hung, False)):
            judged = judge(scenario(launcher=launcher), outcome(-9, output, was_killed=True, seconds=15))
            self.assertEqual(judged.is_good(), is_good, judged.describe())

    def test_node_without_rank_0_may_report_silent_ranks(self):
        stopped = "10:00:00.000 error [rank 1] rank 0 (host a, pid 7) is stopped (SIGSTOP, or a debugger)\n"
        silent = "10:00:00.000 error [rank 2] ranks 0-1 (host a) have sent no heartbeat for 9 s\n"
        for victim, is_good in ((0, True), (1, False)):
            judged = judge(scenario("stop", launcher="mpirun", victims=(victim,)),
                           outcome(75, stopped.replace("rank 0", f"rank {victim}") + silent, seconds=9.0,
                                   injected=[(victim, "at", 10.0)]))
            self.assertEqual(judged.is_good(), is_good, judged.describe())

    def test_plain_mpirun_may_return_code_of_secondary_failure(self):
        self.assertTrue(judge(scenario(launcher="mpirun"), outcome(1, NOTICED.format(1))).is_good())
        self.assertFalse(judge(scenario(), outcome(1)).is_good())

    def test_ranks_must_not_blame_other_rank(self):
        blame = "chaos_job: rank 2: rank 3 (host a) is dead\n"
        self.assert_finds(judge(scenario(launcher="mpirun"), outcome(output=NOTICED.format(1) + blame)), "WRONG",
                          "a rank reports another cause: rank 3")

        for line in ("10:00:00.000 error [rank 2] rank 3 (host a) is dead", "horo: rank 2 (host a) exited with code 1"):
            for launcher, verdict in (("mpirun", NOTICED.format(1)), ("hororun", KILLED)):
                self.assert_finds(judge(scenario(launcher=launcher), outcome(output=f"{verdict}{line}\n")), "WRONG",
                                  "a rank reports another cause: rank [23]")
        no_blame = "10:00:00.000 error [rank 0] the records of the ranks are in /tmp/rank 2; read them with: " \
                   "hororun doctor /tmp/rank 2\nchaos_job: rank 0: rank 1 is dead\n"
        self.assertTrue(judge(scenario(), outcome(output=KILLED + no_blame)).is_good())

    def test_waiting_rank_is_not_cause(self):
        text = "10:00:00.000 warning [rank 1] rank 1 (host a, pid 7) has waited 3 s in horo::init() for other ranks\n"
        self.assert_finds(judge(scenario("stop", launcher="mpirun"), outcome(1, text, seconds=9)), "WRONG", "no line names")

    def test_end_before_timeout_is_not_timeout(self):
        stopped = "hororun: rank 1 (host a, pid 7) is stopped (SIGSTOP, or a debugger)\n"
        late = "hororun: rank 1 (host a, pid 7) never submitted 'x'; rank 0 has waited 8 s for it\n"
        for fault, text in (("stop", stopped), ("loop", late)):
            self.assertTrue(judge(scenario(fault), outcome(1, text, seconds=TIMEOUT_S)).is_good())
            self.assert_finds(judge(scenario(fault), outcome(1, text, seconds=TIMEOUT_S - 1.1)), "WRONG", "before HORO_TIMEOUT")
        # The other ranks wait in init() from their start, so their waiting time does not depend on the fault.
        early = scenario("loop", "before_init")
        text = "hororun: ranks 0 and 2-3 (host a) have waited 8 s in horo::init() for rank 1, which has not called it\n"
        self.assertTrue(judge(early, outcome(75, text, seconds=5.0, seconds_since_start=9.0)).is_good())
        self.assert_finds(judge(early, outcome(75, text, seconds=5.0, seconds_since_start=6.0)), "WRONG", "ended after 6.0 s")

    def test_ranks_of_same_node_report_stopped_rank(self):
        late = "hororun: rank 1 (host a, pid 7) never submitted 'x'; rank 0 has waited 8 s for it\n"
        silent = "hororun: rank 1 (host a, pid 7) has sent no heartbeat for 8 s\n"
        two, alone = ({"hosts": "pretended", "per_node": count} for count in (2, 1))
        for fields in ({}, two, alone):
            self.assert_finds(judge(scenario("stop", **fields), outcome(1, late, seconds=9)), "WRONG", "is not the cause")
        for fields in ({}, two):
            self.assertFalse(judge(scenario("stop", **fields), outcome(1, silent, seconds=9)).is_good())
        self.assertTrue(judge(scenario("stop", **alone), outcome(1, silent, seconds=9)).is_good())
        self.assertTrue(judge(scenario("stop", victims=(0, 1), **two), outcome(
            1, silent, seconds=9, injected=[(1, "at", 10.0), (0, "at", 10.0)])).is_good())

    def test_exit_is_reported_with_code(self):
        named = "hororun: rank 1 (host a, pid 7) exited with code 0 without calling Context::shutdown()\n"
        self.assertTrue(judge(scenario("exit"), outcome(1, named)).is_good())
        self.assertTrue(judge(scenario("_exit0"), outcome(1, named)).is_good())
        for text in ("rank 1 (host a, pid 7) ended", "rank 1 (host a) exited with code 1", "rank 1 (host a) exited"):
            for fault in ("exit", "_exit0"):
                self.assert_finds(judge(scenario(fault), outcome(1, f"hororun: {text}\n")), "WRONG", "is not the cause")
        gone = "hororun: rank 1 (host a, pid 7) is dead: the process is gone without an error message\n"
        self.assertFalse(judge(scenario("_exit"), outcome(3, gone)).is_good())
        seen = gone.replace("hororun: ", "chaos_job: rank 0: ")
        self.assertTrue(judge(scenario("_exit", launcher="mpirun"), outcome(3, seen)).is_good())
        for code in (3, 75, 143):
            self.assert_finds(judge(scenario("exit"), outcome(code, named)), "WRONG", f"exit code {code}, expected 1")
        self.assert_finds(judge(scenario("_exit0", "after_shutdown"), outcome(1, named)), "WRONG", "is not the cause")
        self.assertFalse(judge(scenario("exit", "after_shutdown"), outcome(1, named)).is_good())
        self.assertTrue(judge(scenario("exit", "after_shutdown"), outcome(0, "")).is_good())
        self.assertTrue(judge(scenario("exit", "in_shutdown"), outcome(1, named)).is_good())
        self.assertTrue(judge(scenario("exit", "in_shutdown"), outcome(0, "")).is_good())
        self.assertFalse(judge(scenario("exit", "in_shutdown"), outcome(1, "")).is_good())
        self.assertFalse(judge(scenario("exit", "in_shutdown"), outcome(0, named)).is_good())
        dead = "hororun: rank 1 (host a, pid 7) is dead: the process is gone without an error message\n"
        self.assertFalse(judge(scenario("exit"), outcome(1, dead)).is_good())
        self.assertFalse(judge(scenario("_exit0"), outcome(1, dead)).is_good())
        self.assertFalse(judge(scenario("_exit0"), outcome(0, "")).is_good())
        improper = "mpirun has exited due to process rank {} with PID 0 on\nnode a exiting improperly. There are\n"
        self.assertTrue(judge(scenario("_exit0", launcher="mpirun"), outcome(1, improper.format(1))).is_good())
        self.assertFalse(judge(scenario("_exit0", launcher="mpirun"), outcome(1, improper.format(2))).is_good())

    def test_missing_rank_may_be_unnamed_on_several_hosts(self):
        counts = "10:00:00.000 error [horo] ranks 0-1 (host a) have waited 8 s in horo::init() for ranks of other hosts\n"
        for fault in ("stop", "loop"):
            early = scenario(fault, "before_init", launcher="mpirun")
            end = {"exit_code": 75, "seconds_since_start": 9.0}
            self.assertTrue(judge(replace(early, hosts="lab", per_node=2), outcome(output=counts, **end)).is_good())
            self.assertFalse(judge(replace(early, hosts="lab", per_node=2), outcome(output="", **end)).is_good())
            self.assert_finds(judge(early, outcome(output=counts, **end)), "WRONG", "no line names")
            blame = "10:00:00.000 error [rank 2] rank 3 (host a) is dead\n"
            self.assertFalse(judge(replace(early, hosts="lab", per_node=2), outcome(output=counts + blame, **end)).is_good())

    def test_successful_job_has_no_verdict_and_no_error(self):
        thrown = "10:00:00.000 error [rank 1] a completion callback threw: injected failure of rank 1\n"
        callback, left = scenario("throw", "in_callback"), scenario("exit", "end_of_main")
        self.assertTrue(judge(callback, outcome(0, thrown)).is_good())
        self.assertTrue(judge(left, outcome(0, "")).is_good())
        self.assert_finds(judge(callback, outcome(0, "")), "WRONG", "is not in the output")
        for line in ("hororun: nothing is wrong as far as these files show", "10:00:00.000 error [rank 0] shutdown: x",
                     "hororun: rank 1 (host a) failed: x", "horo: rank 1 (host a) exited with code 0"):
            self.assert_finds(judge(callback, outcome(0, f"{thrown}{line}\n")), "WRONG", "that ended well")
            self.assert_finds(judge(left, outcome(0, f"{line}\n")), "WRONG", "that ended well")
        self.assert_finds(judge(left, outcome(0, thrown)), "WRONG", "an error in a job that ended well")

    def test_interrupted_job_blames_no_rank(self):
        endless = scenario("loop", "end_of_main")
        stopped = "hororun: stopped by signal 15 (Terminated)\n"
        self.assertTrue(judge(endless, outcome(143, stopped)).is_good())
        self.assertFalse(judge(endless, outcome(143, "")).is_good())
        self.assertFalse(judge(endless, outcome(1, stopped)).is_good())
        self.assert_finds(judge(endless, outcome(143, f"{stopped}hororun: rank 0 (host a) is dead\n")), "WRONG",
                          "is not the cause")

    def test_exception_text_is_required(self):
        verdict = "hororun: rank 1 (host a) exited with code 1\n"
        self.assert_finds(judge(scenario("throw"), outcome(1, verdict)), "WRONG", "is not in the output")
        text = "chaos_job: rank 1: injected failure of rank 1\n"
        self.assertTrue(judge(scenario("throw"), outcome(1, text + verdict)).is_good())

    def test_plain_mpirun_need_not_name_rank_without_horo(self):
        early = scenario(place="before_init", launcher="mpirun")
        self.assertTrue(judge(early, outcome(output="")).is_good())
        self.assertFalse(judge(early, outcome(0, output="")).is_good())
        self.assertFalse(judge(replace(early, launcher="hororun"), outcome(output="")).is_good())
        for fault in ("exit", "_exit0"):
            self.assertTrue(judge(replace(early, fault=fault), outcome(1, output="")).is_good())
            self.assertFalse(judge(replace(early, fault=fault), outcome(137, output="")).is_good())
            self.assertFalse(judge(replace(early, fault=fault, launcher="hororun"), outcome(1, output="")).is_good())
            self.assertFalse(judge(replace(early, fault=fault), outcome(1, "horo: rank 2 (host a) is dead\n")).is_good())
        self.assertTrue(judge(replace(early, place="in_init"), outcome(output="")).is_good())
        self.assertFalse(judge(replace(early, place="in_init", fault="segv"), outcome(139, output="")).is_good())
        self.assertFalse(judge(replace(early, place="after_init"), outcome(output="")).is_good())

    def test_leftovers_are_reported(self):
        self.assert_finds(judge(scenario(), outcome(left=["/dev/shm/horo-1"])), "LEFT", "/dev/shm/horo-1")

    def test_missing_fault_is_wrong(self):
        self.assert_finds(judge(scenario(), outcome(injected=[])), "WRONG", "did not happen")

    def test_last_line_counts_rounds_by_kind(self):
        rounds = [(scenario(), outcome(), judge(scenario(), one)) for one in
                  (outcome(), outcome(seconds=99), outcome(1, left=["a", "b"]), outcome(left=["a"]), outcome(1, ""))]
        self.assertEqual(last_line(rounds), "rounds 5 hangs 1 leftovers 2 wrong 2")


class Links(unittest.TestCase):
    CUT = LinkScenario(1, "cut", "host", 4, 2, "hororun", (2,), 1.0)
    TEXT = "hororun: ranks 4-5 (host host2) have sent no heartbeat for 3 s: the network to it may have failed\n"

    def judge(self, exit_code=1, output=TEXT, scenario=CUT, **fields):
        return judge_link(scenario, outcome(exit_code, output, **fields))

    def test_kinds_alternate(self):
        self.assertEqual([draw_link(1, number).fault for number in range(8)], [*KINDS, *KINDS])
        for number in range(200):
            drawn = draw_link(1, number)
            self.assertLess(max(drawn.targets), drawn.hosts)
            self.assertFalse(drawn.fault == "freeze" and 0 in drawn.targets)

    def test_ranks_behind_link_are_cause(self):
        self.assertTrue(self.judge().is_good())
        self.assertFalse(self.judge(output=self.TEXT.replace("4-5", "2-3")).is_good())
        self.assertFalse(self.judge(output=self.TEXT.replace("4-5", "3-5")).is_good())
        self.assertFalse(self.judge(output="").is_good())
        ended = "hororun: no rank of the job runs any more, but mpirun did not end; hororun ended the job\n"
        self.assertFalse(self.judge(output=ended).is_good())
        self.assertFalse(self.judge(output=ended + self.TEXT).is_good())
        for second in ("rank 0 failed", "nothing is wrong as far as these files show"):
            self.assertFalse(self.judge(output=f"{self.TEXT}hororun: {second}\n").is_good())

    def test_link_of_rank_0_is_network_failure(self):
        text = "hororun: ranks 0-7 (host host0) have been in gradient 'g/w' for 8.0 s and every rank has submitted it: " \
               "the exchange makes no progress (the network, or a rank without CPU time) (HORO_TIMEOUT is 8 s)\n"
        pair = replace(self.CUT, place="pair", targets=(1, 3))
        self.assertTrue(self.judge(output=text, scenario=pair).is_good())
        barrier = text.replace("0-7", "0 and 2").replace("every rank has submitted it", "ranks 4 and 6 have finished it")
        self.assertTrue(self.judge(output=barrier, scenario=pair).is_good())
        self.assertFalse(self.judge(output=barrier.replace("0 and 2", "0 and 4"), scenario=pair).is_good())
        self.assertFalse(self.judge(output=text, scenario=replace(pair, targets=(0, 3))).is_good())
        self.assertFalse(self.judge(output=text).is_good())

    def test_link_may_fail_before_ranks_join(self):
        text = "hororun: ranks 0-1 (host host0, pids 7, 8) have waited 8.02 s in horo::init() for ranks of other hosts, " \
               "which have not called it: check whether they run and what they do before init() (HORO_TIMEOUT is 8 s)\n"
        self.assertTrue(self.judge(75, output=text).is_good())
        self.assertFalse(self.judge(75, output=text.replace("0-1", "4-5")).is_good())
        for link in (replace(self.CUT, targets=(0,)), replace(self.CUT, place="pair", targets=(0, 1))):
            self.assertTrue(self.judge(75, output=text, scenario=link).is_good())

    def test_orphaned_daemon_of_plain_mpirun_is_counted_separately(self):
        orted = "process 7 (S, orted -mca ess env)"
        plain = replace(self.CUT, launcher="mpirun")
        found = self.judge(output=self.TEXT.replace("hororun", "chaos_job: rank 0"), scenario=plain,
                           left=[orted, "host2:/tmp/ompi.host2.0/jf.1"])
        self.assertEqual((found.leftovers, found.end_of_mpirun), ([], "left a daemon on a host that it had lost"))
        self.assertFalse(self.judge(scenario=plain, left=["process 8 (S, chaos_job none)"]).is_good())
        self.assertFalse(self.judge(left=[orted]).is_good())

    def test_lost_host_must_be_behind_link(self):
        lost = "hororun: mpirun has lost the connection to host host{}: the host is gone, or the network to it is cut{}\n"
        self.assertTrue(self.judge(output=lost.format(2, "")).is_good())
        self.assertTrue(self.judge(output=lost.format(2, "; rank 5 (host host2) never submitted 'x'")).is_good())
        self.assertFalse(self.judge(output=lost.format(1, "")).is_good())
        self.assertFalse(self.judge(output=lost.format(1, "; rank 5 (host host2) never submitted 'x'")).is_good())
        self.assertFalse(self.judge(output=lost.format(2, "; rank 3 (host host1) never submitted 'x'")).is_good())
        self.assertFalse(self.judge(output="hororun: the network of host2 is cut\n").is_good())

    def test_ranks_under_mpirun_must_not_blame_other_host(self):
        scenario = replace(self.CUT, launcher="mpirun")
        text = self.TEXT.replace("hororun: ", "chaos_job: rank 0: ")
        self.assertTrue(self.judge(output=text, scenario=scenario).is_good())
        self.assertFalse(self.judge(output=text + "chaos_job: rank 1: rank 0 (host host0) is dead\n",
                                    scenario=scenario).is_good())
        self.assertFalse(self.judge(output="rank 1 failed\n", scenario=scenario).is_good())

    def test_cut_ends_job_in_time_unless_short(self):
        self.assertFalse(self.judge(0).is_good())
        self.assertFalse(self.judge(seconds=LATE_LIMIT_S + 1).is_good())
        short = replace(self.CUT, fault="short cut")
        self.assertTrue(self.judge(0, "", scenario=short, seconds=40).is_good())
        self.assertTrue(self.judge(scenario=short).is_good())
        self.assertFalse(self.judge(output="", scenario=short).is_good())

    def test_lost_packets_do_not_end_job(self):
        loss = replace(self.CUT, fault="loss", place="all", targets=(0, 1, 2, 3))
        self.assertTrue(self.judge(0, "", scenario=loss, seconds=40).is_good())
        self.assertFalse(self.judge(1, scenario=loss).is_good())
        self.assertFalse(self.judge(0, "10:00:00.000 error [rank 0] x\n", scenario=loss, seconds=40).is_good())
        self.assertFalse(self.judge(0, "", scenario=loss, left=["host1:/shm/x"]).is_good())


class Records(unittest.TestCase):
    def test_only_files_that_doctor_reads_are_records(self):
        job = "horo-0/18ea952515a852f1"
        for name in ("horo-0", job, f"{job}-13795", f"{job}-13795/rank.11.flight", f"{job}/stopped", f"{job}/ended"):
            self.assertTrue(is_record(name), name)
        for name in ("horo-0/x", f"{job}/rank.1.flight.new", f"{job}/rank.x.flight", f"{job}/socket", f"{job}/ended/x",
                     f"x/{job}", "ompi.a.0", "horo-0.x"):
            self.assertFalse(is_record(name), name)


class Sandboxes(unittest.TestCase):
    def setUp(self):
        try:
            self.sandbox = Sandbox().__enter__()
        except OSError as reason:
            self.skipTest(str(reason))
        self.addCleanup(self.sandbox.__exit__)

    def start(self, *command):
        environment = {"PATH": "/usr/bin:/bin", **self.sandbox.environment()}
        return subprocess.Popen(self.sandbox.wrap(command), env=environment)

    def wait_for(self, condition):
        deadline = time.monotonic() + 30
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertTrue(condition(), self.sandbox.left())

    def test_leftovers_of_job_are_found(self):
        self.assertEqual(self.sandbox.left(), [])
        job = self.start("sh", "-c", "touch /dev/shm/left $TMPDIR/left; exec sleep 100 >/dev/null")
        self.wait_for(lambda: len(self.sandbox.left()) >= 3)
        left = "\n".join(self.sandbox.left())
        self.assertRegex(left, rf"process {job.pid} ")
        self.assertIn("/dev/shm/left", left)
        self.assertIn("$TMPDIR/left", left)
        self.assertFalse(Path("/dev/shm/left").exists())
        self.sandbox.kill_all()
        job.wait(10)
        self.assertEqual([thing for thing in self.sandbox.left() if thing.startswith("process")], [])

    def test_only_failed_job_may_leave_records(self):
        self.start("sh", "-c", "mkdir -p $TMPDIR/horo-0/0123456789abcdef && touch $TMPDIR/horo-0/0123456789abcdef/rank.0.flight"
                   ).wait(10)
        self.assertEqual(self.sandbox.left(has_failed=True), [])
        self.assertIn("$TMPDIR/horo-0/0123456789abcdef/rank.0.flight", self.sandbox.left(has_failed=False))
        self.start("sh", "-c", "touch $TMPDIR/horo-0/0123456789abcdef/x").wait(10)
        self.assertEqual(self.sandbox.left(has_failed=True), ["$TMPDIR/horo-0/0123456789abcdef/x"])

    def test_process_in_own_session_without_environment_is_found(self):
        listener = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + 'x'); s.listen(); time.sleep(100)"
        self.start("sh", "-c", f'setsid env -i {sys.executable} -c "{listener}" & exit 0').wait(10)
        self.wait_for(lambda: any("socket" in thing for thing in self.sandbox.left()))
        self.sandbox.kill_all()
        self.assertEqual(self.sandbox.left(), [])

    def test_socket_with_file_is_found(self):
        self.start(sys.executable, "-c", "import os, socket\n"
                   "socket.socket(socket.AF_UNIX).bind(os.environ['TMPDIR'] + '/any')").wait(10)
        self.assertEqual(self.sandbox.left(), ["$TMPDIR/any"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
