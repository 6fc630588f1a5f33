#!/usr/bin/env python3
"""Starts jobs in which ranks fail at random places, and checks how each job ends.

  scripts/chaos.py --rounds 300 --seed 1 --jobs 2 --json chaos.json
  scripts/chaos.py --seed 1 --round 17            # round 17 of seed 1 again, with its output
  scripts/chaos.py --rounds 20 --only kill@in_init --only throw
  sudo scripts/chaos.py --links 20                # 20 rounds for each kind of failure of the network

Each round draws a fault, a place, 1 to 3 victims, 2 to 8 ranks, one or several hosts, and hororun or mpirun. A job must
end in time with the documented exit code, the verdict must name the true first cause, and no process, file or socket may
be left. scripts/chaos/expectations.py is the table of what is expected. Exit code 1 if any round fails. The last line is
"rounds N hangs H leftovers L wrong W".
"""
import argparse
import concurrent.futures
import sys
from dataclasses import replace
from pathlib import Path

import command_line
from chaos.emulated_hosts import LabOnDemand
from chaos.judge import judge
from chaos.links import KINDS, draw_link, judge_link, run_link
from chaos.report import as_json, last_line, round_line, table
from chaos.runner import Programs, run
from chaos.sandbox import Sandbox
from chaos.scenario import LAB_HOSTS, MOST_VICTIMS, combinations, draw

REPOSITORY = Path(__file__).resolve().parent.parent
SKIPPED = 77


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=command_line.count, default=20, metavar="N", help="default: 20")
    add("--seed", type=command_line.seed, default=1, metavar="S", help="seed of all random choices; default: 1")
    add("--round", type=command_line.whole_number(0, 1_000_000), metavar="K", help="only round K of the seed, with its output")
    add("--only", action="append", default=[], metavar="FAULT[@PLACE]", help="draw only these; also @PLACE")
    add("--victims", type=int, default=MOST_VICTIMS, choices=range(1, MOST_VICTIMS + 1), metavar="V",
        help=f"draw at most V victims; default: {MOST_VICTIMS}")
    add("--links", type=command_line.count, metavar="N",
        help="instead: N rounds for each of a link cut for 2 s, one cut for good, packet loss, a frozen host; needs root")
    add("--jobs", type=command_line.whole_number(1, 1024), default=1, metavar="J", help="rounds that run at the same time; default: 1")
    add("--build", type=Path, default=REPOSITORY / "build" / "release", metavar="DIR", help="default: build/release")
    add("--json", type=Path, metavar="FILE", help="write every round there")
    add("--keep", type=Path, metavar="DIR", help="write the outputs of failed rounds there")
    arguments = parser.parse_args()
    try:
        combinations(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    return arguments


class Driver:
    """Runs rounds and shows each one."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.programs = Programs.of(arguments.build.resolve())
        # The links have no rate limit, because the filter that drops packets replaces the one that limits the rate.
        self.lab = LabOnDemand(LAB_HOSTS, "none" if arguments.links else "1gbit")
        self.without_lab = 0

    def run_all(self, run_one, numbers):
        try:
            with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
                return list(pool.map(run_one, numbers))
        finally:
            self.lab.stop()

    def run_link_round(self, number):
        scenario = draw_link(self.arguments.seed, number)
        outcome = self.lab.run(lambda sandbox: run_link(self.programs, scenario, sandbox))
        if outcome is None:
            return None
        findings = judge_link(scenario, outcome)
        self.show(scenario, outcome, findings)
        return scenario, outcome, findings

    def run_round(self, number):
        scenario = draw(self.arguments.seed, number, self.arguments.only, self.arguments.victims)
        outcome = None
        if scenario.hosts == "lab":
            outcome = self.lab.run(lambda sandbox: run(self.programs, scenario, sandbox))
            if outcome is None:
                self.without_lab += 1
                scenario = replace(scenario, hosts="pretended")
        if outcome is None:
            with Sandbox() as sandbox:
                outcome = run(self.programs, scenario, sandbox)
        findings = judge(scenario, outcome)
        self.show(scenario, outcome, findings)
        return scenario, outcome, findings

    def show(self, scenario, outcome, findings):
        line = round_line(scenario, outcome, findings)
        print(line + (f"\n{outcome.output}" if self.arguments.round is not None else ""), flush=True)
        if self.arguments.keep and not findings.is_good():
            self.arguments.keep.mkdir(parents=True, exist_ok=True)
            name = f"seed{self.arguments.seed}-round{scenario.number}.txt"
            (self.arguments.keep / name).write_text(f"{line}\n{outcome.output}")


def main():
    arguments = parse_arguments()
    try:
        driver = Driver(arguments)
    except FileNotFoundError as error:
        print(f"chaos.py: {error}", file=sys.stderr)
        return 2
    try:
        with Sandbox():
            pass
    except OSError as error_text:
        print(f"SKIPPED: {error_text}")
        return SKIPPED
    run_one, count = driver.run_round, arguments.rounds
    if arguments.links:
        run_one, count = driver.run_link_round, len(KINDS) * arguments.links
    rounds = driver.run_all(run_one, range(count) if arguments.round is None else [arguments.round])
    if None in rounds:
        print(f"SKIPPED, no emulated hosts here: {driver.lab.error_text}")
        return SKIPPED
    if arguments.json:
        arguments.json.write_text(as_json(arguments.seed, rounds) + "\n")
    if driver.without_lab:
        print(f"\n{driver.without_lab} rounds drawn for hosts with their own network ran on pretended hosts: "
              f"{driver.lab.error_text}")
    print(f"\n{table(rounds)}\n\n{last_line(rounds)}")
    return 0 if all(findings.is_good() for _, _, findings in rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
