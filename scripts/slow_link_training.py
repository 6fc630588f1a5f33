#!/usr/bin/env python3
"""Trains a small GPT on emulated hosts with slow links, in several ways, and compares speed and loss with one host.

  scripts/slow_link_training.py --data DIR --rate 100mbit --json results.json --picture results.svg

DIR has an input.txt. The ways are: one host (the ranks share its memory), float32 and int8 gradients of every step, and
DiLoCo, whose exchanges overlap with steps and send int8. The global batch is the same in all. Losses are those of the test
set after one run of --steps steps in each way. Speeds are measured in rounds: each trains --speed-steps steps in each way,
and the share of a way is its samples per second divided by those of one host in the same round. The table has medians over
the rounds. Needs root, as scripts/cluster_lab.sh, whose emulated hosts share the cores of this machine.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import command_line
import svg_chart

HERE = Path(__file__).resolve().parent
LAB = HERE / "cluster_lab.sh"
ONE_HOST = "one host"


def ways_of(options):
    """Returns the options of the training program for each way."""
    diloco = ["--update", "diloco", "--local-steps", options.local_steps, "--fragments", options.fragments,
              "--overlap", options.overlap, "--mixing", options.mixing, "--outer-lr", options.outer_lr, "--outer-momentum", options.outer_momentum]
    ways = {ONE_HOST: [], "float32": [], "int8": ["--wire", "int8"], "DiLoCo": [*diloco, "--wire", "int8"]}
    return {way: more for way, more in ways.items() if way in (ONE_HOST, *options.ways.split(","))}


def parse_options():
    parser = command_line.Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"), help="folder of horo's programs")
    parser.add_argument("--data", type=Path, required=True, help="folder with input.txt")
    parser.add_argument("--ways", default="float32,int8,DiLoCo", help="which of them are compared with one host")
    parser.add_argument("--hosts", type=command_line.whole_number(2, 16), default=4)
    parser.add_argument("--rate", default="100mbit", help="of each link, in the format of tc")
    parser.add_argument("--steps", type=command_line.whole_number(0, 1_000_000), default=1600,
                        help="of the runs whose losses are compared; 0: the losses of the last round")
    parser.add_argument("--speed-steps", type=command_line.count, default=240, help="of each run of a round")
    parser.add_argument("--rounds", type=command_line.count, default=5)
    parser.add_argument("--batch", type=command_line.count, default=32, help="samples of a step, over all ranks")
    parser.add_argument("--layers", type=command_line.count, default=2)
    parser.add_argument("--width", type=command_line.count, default=96)
    parser.add_argument("--window", type=command_line.count, default=64, help="characters of a sample")
    parser.add_argument("--lr", default="0.003")
    parser.add_argument("--local-steps", type=command_line.count, default=8, help="of DiLoCo, as the options below")
    parser.add_argument("--fragments", type=command_line.count, default=4)
    parser.add_argument("--overlap", type=command_line.whole_number(0, 1000), default=1)
    parser.add_argument("--mixing", default="0.2")
    parser.add_argument("--outer-lr", default="0.7")
    parser.add_argument("--outer-momentum", default="0.5")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--picture", type=Path, help="write a picture of speeds and losses to this SVG file")
    return parser.parse_args()


def bytes_sent():
    """Returns the bytes that each host has sent."""
    listed = subprocess.run([LAB, "bytes"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(line.split()[1]) for line in listed.splitlines()]


def train(options, way, more, steps, folder):
    """Trains once and returns the report, with the bytes that a host has sent per step."""
    report = Path(folder) / "report.json"
    program = [options.bin / "train_gpt", "--data", options.data, "--steps", steps,
               "--global-batch", options.batch, "--layers", options.layers, "--width", options.width, "--heads", 4,
               "--window", options.window, "--lr", options.lr, "--schedule", "constant", "--warm-up", 40, "--sample", 0,
               "--json", report, *more]
    launcher = [options.bin / "hororun", "-np", options.hosts] if way == ONE_HOST else [LAB, "run", 1]
    before = bytes_sent()
    done = subprocess.run([str(word) for word in [*launcher, *program]], env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"slow_link_training.py: {way}: exit code {done.returncode}:\n{done.stdout}")
    result = json.loads(report.read_text())
    sent = [after - start for start, after in zip(before, bytes_sent())]
    kept = {key: result[key] for key in ("samples_per_second", "test_loss", "losses", "step_ms")}
    kept |= {"steps": steps, "sent_per_step": max(sent) / steps, "load": os.getloadavg()[0]}
    print(f"{way}, {steps} steps: {kept['samples_per_second']:.1f} samples/s, test loss {kept['test_loss']:.4f}, "
          f"load {kept['load']:.1f}", flush=True)
    return kept


def summary_of(long_runs, rounds):
    """Returns the loss of each way, and medians over the rounds: speed, its share of that of one host, and bytes."""
    summary = {}
    for way, long_run in long_runs.items():
        shares = [one[way]["samples_per_second"] / one[ONE_HOST]["samples_per_second"] for one in rounds]
        summary[way] = {"share": statistics.median(shares), "shares": shares, "test_loss": long_run["test_loss"],
                        **{key: statistics.median(one[way][key] for one in rounds)
                           for key in ("samples_per_second", "sent_per_step", "load")}}
    return summary


def print_table(summary):
    base = summary[ONE_HOST]["test_loss"]
    print("| | samples/s | share of one host (least, most) | test loss | compared with one host | MB sent per host and step | load |")
    print("|---|---|---|---|---|---|---|")
    for way, one in summary.items():
        share, least, most = (100 * value for value in (one["share"], min(one["shares"]), max(one["shares"])))
        print(f"| {way} | {one['samples_per_second']:.0f} | {share:.1f} % ({least:.1f}, {most:.1f}) | {one['test_loss']:.4f} | "
              f"{100 * (one['test_loss'] / base - 1):+.2f} % | {one['sent_per_step'] / 1e6:.3f} | {one['load']:.1f} |")


def draw(path, options, summary, long_runs):
    speeds = svg_chart.Bars(f"Speed with links of {options.rate}", "% of the speed on one host",
                            {way: 100 * one["share"] for way, one in summary.items()}, goal=90)
    losses = svg_chart.Lines("Training loss", "step", "loss",
                             {way: svg_chart.smooth(run["losses"], max(1, run["steps"] // 40)) for way, run in long_runs.items()})
    svg_chart.write(path, [speeds, losses])


def main():
    options = parse_options()
    ways = ways_of(options)
    done = subprocess.run([LAB, "up", str(options.hosts), options.rate], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"slow_link_training.py: {done.stderr.strip()}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            long_runs = {way: train(options, way, more, options.steps, folder) for way, more in ways.items() if options.steps}
            rounds = [{way: train(options, way, more, options.speed_steps, folder) for way, more in ways.items()}
                      for _ in range(options.rounds)]
    finally:
        subprocess.run([LAB, "down"], check=False)
    long_runs = long_runs or rounds[-1]
    summary = summary_of(long_runs, rounds)
    print_table(summary)
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "long_runs": long_runs, "rounds": rounds}, indent=1) + "\n")
    if options.picture:
        draw(options.picture, options, summary, long_runs)


if __name__ == "__main__":
    main()
