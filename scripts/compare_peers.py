#!/usr/bin/env python3
"""Runs horo, Open MPI, MPICH, Intel MPI, oneCCL, Gloo, PyTorch DDP and Horovod in turn, to compare them.

  scripts/compare_peers.py --ranks 2 --models resnet50
  scripts/compare_peers.py --hosts 4 --rate 1gbit --mpi intel=/opt/intel/mpi

Each peer needs its own processes, so a round is one short run of each peer for each case: a few sizes of allreduce, or
one gradient set. The script repeats the rounds and reports the median over them. The regime of the machine is whether its
cores share a cache. horo's benchmark determines the regime before and after each run, and the figures are grouped by it.
A run during which the regime changes is not counted, so use short runs. After --rounds, the script repeats the runs that
a regime lacks, up to --max-rounds.

A goal (--goals) is RATIO@SIZE, RATIO@SIZE-SIZE or RATIO@MODEL. It is met if the fastest MPI or Gloo, at its
defaults, takes at least RATIO times as long as horo.

The script detects peers and does not install them. It names each absent peer and its package. It writes to DIR:
peers.json with every run, peers.md with the tables, and peers.png. If it is interrupted (Ctrl-C or kill), it reports the
runs so far.
"""
import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import command_line
import mpi_prefix
from peers import detection, goals, places, report, running, summary
from scaling import import_pyplot, restart_where_matplotlib_is

MODELS = ["resnet50", "bert-base", "tiny1000"]
SIZES = "4,1Ki,16Ki,256Ki,1Mi,4Mi,16Mi,64Mi,128Mi"


def size_list(text):
    units = dict(report.UNITS)
    sizes = []
    for word in [] if text == "none" else text.split(","):
        digits, factor = (word[:-2], units[word[-2:]]) if word[-2:] in units else (word, 1)
        size = int(digits) * factor if digits.isascii() and digits.isdigit() else 0
        if size == 0 or size % 4:
            raise argparse.ArgumentTypeError(f"'{word}' is not a size in bytes that 4 divides, such as 4, 16Ki or 64Mi")
        sizes.append(size)
    return sorted(set(sizes))


def goal_list(text):
    try:
        return goals.parse(text, MODELS)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error))


def list_from(known):
    def parse(text):
        words = [] if text == "none" else text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"'{word}' is not known: use {', '.join(known)} or none")
        return [word for word in known if word in words]
    return parse


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ranks", type=command_line.whole_number(2, command_line.MOST_RANKS), metavar="N",
        help="at least 2 (default): one rank exchanges nothing; with --hosts, a multiple of it (default: one per host)")
    add("--hosts", type=command_line.whole_number(2, 99), metavar="N",
        help="emulated hosts (scripts/cluster_lab.sh; needs root); default: this machine alone")
    add("--rate", default="1gbit", metavar="RATE", help="of each link between the hosts and the switch, or none; default 1gbit")
    add("--sizes", type=size_list, default=size_list(SIZES), metavar="BYTES,...", help=f"or none; default: {SIZES}")
    add("--models", type=list_from(MODELS), default=MODELS, metavar="MODEL,...",
        help=f"gradient sets, or none; default: {','.join(MODELS)}")
    add("--peers", type=list_from(detection.PEER_KEYS), default=detection.PEER_KEYS, metavar="PEER,...",
        help=f"default: {','.join(detection.PEER_KEYS)}")
    add("--mpi", type=mpi_prefix.parse, action="append", default=[], metavar="NAME=DIR", help=mpi_prefix.HELP)
    add("--oneccl", type=Path, metavar="DIR", help="oneCCL and its folder, which has include/oneapi and lib; it needs an Intel MPI of --mpi")
    add("--rounds", type=command_line.count, default=5, metavar="N", help="default 5")
    add("--max-rounds", type=command_line.count, metavar="N",
        help="rounds after which to stop waiting for a regime (default: three times --rounds)")
    add("--sizes-per-run", type=command_line.count, default=3, metavar="N",
        help="sizes per run (default 3); with fewer, more runs stay within one regime")
    add("--goals", type=goal_list, metavar="GOAL,...", help=f"or none, as with --hosts; default: {goals.DEFAULT}")
    add("--repeats", type=command_line.count, default=5, metavar="N", help="measurements within one run (default 5)")
    add("--patience", type=command_line.seconds, metavar="SECONDS",
        help="longest wait before each run until other programs leave the cores idle (default: none)")
    add("--timeout", type=command_line.seconds, default=300, metavar="SECONDS", help="for one run (default 300)")
    add("--out", default="build/peers", metavar="DIR", help="where the report goes (default: build/peers)")
    add("--bin", default="build/release/bin", metavar="DIR", help="horo's programs (default: build/release/bin)")
    add("--python", metavar="PATH", help="the interpreter that has torch (default: this one, then the system's)")
    add("--horovod-python", metavar="PATH", help="the interpreter that has Horovod (default: as for --python)")
    arguments = parser.parse_args()
    arguments.ranks = arguments.ranks or arguments.hosts or 2
    if arguments.hosts and arguments.ranks % arguments.hosts:
        parser.error(f"--ranks {arguments.ranks} is not a multiple of --hosts {arguments.hosts}")
    if arguments.goals is None:
        arguments.goals = [] if arguments.hosts else goal_list(goals.DEFAULT)
    arguments.max_rounds = arguments.max_rounds or 3 * arguments.rounds
    if arguments.max_rounds < arguments.rounds:
        parser.error("--max-rounds must not be less than --rounds")
    if not arguments.sizes and not arguments.models:
        parser.error("there is nothing to measure: give --sizes or --models")
    parser.require_programs(arguments.bin, ("hororun", "allreduce_bench", "gradient_bench"),
                            "build it with: cmake --preset release && cmake --build --preset release")
    parser.make_out(arguments.out)
    return arguments


def say(text):
    print(f"compare_peers.py: {text}", file=sys.stderr, flush=True)


def compile_peers(runner, peers):
    """The peers. Those that cannot be compiled are marked as absent."""
    for key in [key for key, peer in peers.items() if peer.compiler]:
        if peers[key].version:
            try:
                runner.compile(key)
            except running.RunError as error:
                peers = {**peers, key: detection.Peer(peers[key].name, peers[key].package,
                                                      why_absent=f"its program does not compile: {error}")}
    return peers


@dataclass(frozen=True)
class Piece:
    """The work of one run: some sizes of allreduce, or one gradient set."""
    case: str
    sizes: tuple = ()

    @property
    def name(self):
        return " ".join([self.case, *(report.size_name(size) for size in self.sizes)])


def pieces_of(sizes, models, sizes_per_run):
    return [*(Piece("allreduce", tuple(sizes[at:at + sizes_per_run])) for at in range(0, len(sizes), sizes_per_run)),
            *(Piece(model) for model in models)]


class Rounds:
    """The samples of all rounds so far, and the setups that failed."""

    def __init__(self, runner, setups, arguments):
        self.runner = runner
        self.setups = setups
        self.arguments = arguments
        self.samples = []
        self.failed = {}
        self.reading = None
        self.count = 0  # rounds begun

    def labels(self, case):
        return [setup.label for setup in self.setups
                if detection.takes_part(setup, case) and setup.label not in self.failed]

    def measure(self, pieces):
        for index in range(self.arguments.max_rounds):
            due = {piece: self.labels(piece.case) for piece in pieces}
            if index >= self.arguments.rounds:
                due = {piece: summary.missing_labels(self.samples, piece.name, labels) for piece, labels in due.items()}
            self.count += any(due.values())
            for piece, labels in due.items():
                for setup in self.setups:
                    if setup.label in labels and setup.label not in self.failed:
                        self.sample(index, piece, setup)

    def sample(self, index, piece, setup):
        place = self.runner.place
        if self.arguments.patience:
            running.wait_for_calm(self.arguments.patience)
        if self.reading is None or self.arguments.patience:
            self.reading = self.runner.probe()
        # The processes on emulated hosts are no children of this one, so the load is measured before the run.
        foreign_cores = running.foreign_cores_during(0.3) if place.hosts else None
        load = running.ForeignLoad()
        start = time.monotonic()
        try:
            times = self.runner.run(setup, piece.case, piece.sizes)
            if place.hosts and summary.outruns_links(times, self.runner.bytes_of(piece.case) if not piece.sizes else 0, place.hosts,
                                                     place.link_gbps):
                raise running.RunError("it was faster than the links, so its messages did not use them")
        except running.RunError as error:
            if setup.peer == "horo":
                raise
            self.failed[setup.label] = str(error)
            say(f"{setup.label} failed and is not run again: {error}")
            self.reading = None
            return
        if foreign_cores is None:
            foreign_cores = load.cores()
        seconds = time.monotonic() - start
        before, self.reading = self.reading, self.runner.probe()
        met = summary.regime_between(before["core_to_core_gbps"], self.reading["core_to_core_gbps"])
        self.samples.append({"round": index, "case": piece.case, "piece": piece.name, "setup": setup.label,
                             "regime": met,
                             "core_to_core_gbps": [before["core_to_core_gbps"], self.reading["core_to_core_gbps"]],
                             "streaming_copy_gbps": before["streaming_copy_gbps"],
                             "foreign_cores": round(foreign_cores, 3), "us": times})
        say(f"round {index + 1}, {piece.name}: {setup.label}, {seconds:.1f} s; core to core "
            f"{before['core_to_core_gbps']:.1f} then {self.reading['core_to_core_gbps']:.1f} GB/s ({met}); others kept "
            f"{foreign_cores:.2f} cores busy")


def describe_machine(reading):
    return {"cpu": reading["cpu"], "cores": len(os.sched_getaffinity(0)), "system": platform.platform(),
            "load_average": os.getloadavg()}


def place_of(arguments, folder):
    if arguments.hosts:
        return places.EmulatedHosts(arguments.ranks, arguments.hosts, arguments.rate, folder)
    return places.ThisMachine(arguments.ranks)


def compare(arguments):
    """Measures everything; returns the whole result, with the peers as Peer objects."""
    peers = detection.find_peers(arguments.peers, arguments.python, arguments.horovod_python, arguments.mpi,
                                 arguments.oneccl and arguments.oneccl.resolve())
    with tempfile.TemporaryDirectory(prefix="compare_peers.") as folder, place_of(arguments, folder) as place:
        runner = running.Runner(peers, arguments, place, folder)
        runner.prepare(arguments.models)
        runner.peers = peers = compile_peers(runner, peers)
        for peer in peers.values():
            say(f"{peer.name} {peer.version}" if peer.version else detection.absence(peer))
        rounds = Rounds(runner, detection.setups_of(peers, on_hosts=bool(place.hosts)), arguments)
        try:
            rounds.measure(pieces_of(arguments.sizes, arguments.models, arguments.sizes_per_run))
        except KeyboardInterrupt:
            if not rounds.samples:
                raise
            say("interrupted; reporting what has been measured")
        samples = rounds.samples
        for met in summary.never_met(samples):
            say(f"never observed in {rounds.count} round(s): {summary.REGIMES[met]}")
        return {"command": shlex.join(["scripts/compare_peers.py", *sys.argv[1:]]),
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "machine": describe_machine(rounds.reading or runner.probe()),
                "ranks": arguments.ranks, "hosts": place.hosts, "rate": arguments.rate, "link_gbps": place.link_gbps,
                "sizes": arguments.sizes, "models": arguments.models,
                "model_bytes": {model: runner.bytes_of(model) for model in arguments.models},
                "goals": arguments.goals, "peers": peers, "failed": rounds.failed, "rounds": rounds.count,
                "never_met": summary.never_met(samples),
                "foreign_cores": summary.statistics_of([sample["foreign_cores"] for sample in samples]),
                "runs_by_regime": {met: sum(sample["regime"] == met for sample in samples)
                                   for met in (*summary.REGIMES, summary.CHANGING)},
                "streaming_copy_gbps": {met: summary.streaming_gbps(samples, met) for met in summary.REGIMES},
                "summary": summary.summarise(samples), "runs": samples}


def write(result, folder):
    as_json = {**result, "goals": [asdict(goal) for goal in result["goals"]],
               "peers": {key: {**asdict(peer), "present": bool(peer.version)}
                                   for key, peer in result["peers"].items()}}
    (folder / "peers.json").write_text(json.dumps(as_json, indent=1) + "\n")
    text = report.markdown(result)
    (folder / "peers.md").write_text(text)
    print(text, end="")
    pyplot = import_pyplot()
    if pyplot is None:
        say("there is no matplotlib, so nothing is drawn; apt-get install python3-matplotlib")
    elif not report.draw(pyplot, result, folder / "peers.png"):
        say("no size was measured in a steady regime, so nothing is drawn")


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # so that the running program is ended and the results so far are reported
    arguments = parse_arguments()
    if arguments.python is None and import_pyplot() is None and importlib.util.find_spec("torch"):
        sys.argv += ["--python", sys.executable]  # so that torch is still found after the restart
    restart_where_matplotlib_is()
    os.environ.pop("HORO_SCALING_RESTARTED", None)  # hororun would pass it to the ranks
    result = compare(arguments)
    write(result, Path(arguments.out))
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            sys.exit(main())
        except (running.RunError, places.PlaceError) as error:
            sys.exit(f"compare_peers.py: {error}")
    sys.exit(130)
