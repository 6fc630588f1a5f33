#!/usr/bin/env python3
"""Compares a DistributedModule of horo (C++) with PyTorch's DistributedDataParallel (DDP, Python, gloo).

  scripts/compare_torch.py --ranks 2 --python PATH

Both train the same model of linear layers and ReLU with SGD. A round is a short run of torch_bench and one of
examples/benchmarks/peers/torch_steps.py. Each run alternates steps without an exchange and steps with it. The exposed
communication of a round is the median of the steps with the exchange less the median of those without it. The script
reports the median, the minimum and the maximum over the rounds, and writes DIR/torch.json with every step.

The goal (--goal) is met if horo's exposed communication is at most 1 / GOAL of that of DDP at its defaults.
"""
import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import command_line
from peers import detection, running

ALONE = "alone"


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ranks", type=command_line.whole_number(2, command_line.MOST_RANKS), default=2, metavar="N", help="default 2")
    add("--layers", type=command_line.count, default=6, metavar="N", help="default 6")
    add("--width", type=command_line.count, default=2048, metavar="N", help="features per layer (default 2048)")
    add("--samples", type=command_line.count, default=16, metavar="N", help="per rank (default 16)")
    add("--rounds", type=command_line.count, default=5, metavar="N", help="default 5")
    add("--steps", type=command_line.count, default=10, metavar="N", help="counted steps per way and run (default 10)")
    add("--warm-up", type=command_line.count, default=3, metavar="N", help="steps before them (default 3)")
    add("--goal", type=command_line.count, default=3, metavar="GOAL", help="default 3")
    add("--timeout", type=command_line.seconds, default=300, metavar="SECONDS", help="for one run (default 300)")
    add("--out", default="build/torch", metavar="DIR", help="where torch.json goes (default: build/torch)")
    add("--bin", default="build/release/bin", metavar="DIR", help="horo's programs (default: build/release/bin)")
    add("--python", metavar="PATH", help="the interpreter that has torch (default: this one, then the system's)")
    arguments = parser.parse_args()
    parser.require_programs(arguments.bin, ("hororun", "torch_bench"), "build horo with libtorch (docs/guides/libtorch.md)")
    parser.make_out(arguments.out)
    return arguments


def steps_of(output):
    """The times of the steps by way, from the lines that a program prints."""
    results = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {result["way"]: result["milliseconds"] for result in results}


def run_horo(arguments):
    command = [f"{arguments.bin}/hororun", "-np", str(arguments.ranks), f"{arguments.bin}/torch_bench"]
    for option in ("layers", "width", "samples", "warm_up"):
        command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
    output = running.run_together([([*command, "--rounds", str(arguments.steps)], {})], arguments.timeout)
    return {"horo " + way: steps for way, steps in steps_of(output).items()}


def run_torch(arguments, python, folder):
    store = Path(folder) / "store"
    store.unlink(missing_ok=True)
    numbers = (arguments.layers, arguments.width, arguments.samples, arguments.steps, arguments.warm_up)
    command = [python, str(running.SOURCES / "peers/torch_steps.py"), str(store), *map(str, numbers)]
    environment = {"WORLD_SIZE": str(arguments.ranks), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    output = running.run_together([(command, {**environment, "RANK": str(rank)}) for rank in range(arguments.ranks)],
                                  arguments.timeout)
    return {"torch " + way: steps for way, steps in steps_of(output).items()}


def exposed(rounds):
    """The exposed communication by way, in milliseconds, one number per round."""
    result = {}
    for steps in rounds:
        medians = {way: statistics.median(values) for way, values in steps.items()}
        for way, median in medians.items():
            library = way.split()[0]
            if way != f"{library} {ALONE}":
                result.setdefault(way, []).append(median - medians[f"{library} {ALONE}"])
    return result


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def table(rounds):
    medians = {}
    for steps in rounds:
        for way, values in steps.items():
            medians.setdefault(way, []).append(statistics.median(values))
    hidden = exposed(rounds)
    lines = ["| | step, ms | exposed communication, ms |", "|---|---|---|"]
    lines += [f"| {way} | {spread(values)} | {spread(hidden[way]) if way in hidden else ''} |"
              for way, values in medians.items()]
    return "\n".join(lines)


def verdict(rounds, goal):
    """Whether the goal is met, and a sentence about it."""
    figures = {way: statistics.median(values) for way, values in exposed(rounds).items()}
    horo, ddp = figures["horo distributed"], figures["torch DDP"]
    is_met = horo * goal <= ddp
    return is_met, (f"exposed communication: horo {horo:.1f} ms, DDP {ddp:.1f} ms; the goal, at most 1/{goal} of DDP, is "
                    f"{'met' if is_met else 'not met'}")


def main():
    arguments = parse_arguments()
    torch = detection.find_torch("PyTorch", arguments.python, detection.output_of)
    if not torch.version:
        sys.exit(f"compare_torch.py: {torch.why_absent}")
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.rounds):
            try:
                rounds.append({**run_horo(arguments), **run_torch(arguments, torch.python, folder)})
            except running.RunError as error:
                sys.exit(f"compare_torch.py: round {number + 1}: {error}")
            print(f"compare_torch.py: round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    report = {"torch": torch.version, "ranks": arguments.ranks, "layers": arguments.layers, "width": arguments.width,
              "samples": arguments.samples, "rounds": rounds}
    (Path(arguments.out) / "torch.json").write_text(json.dumps(report, indent=1) + "\n")
    is_met, sentence = verdict(rounds, arguments.goal)
    print(f"{table(rounds)}\n\n{sentence}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
