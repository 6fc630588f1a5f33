#!/usr/bin/env python3
"""Runs a program on several numbers of ranks and reports how well it scales.

usage: scaling.py [OPTIONS] -- PROGRAM [ARGS...]

  scripts/scaling.py --ranks 1,2,4 --json-key samples_per_second -- build/release/bin/train_mnist --epochs 1

hororun starts the program with "--json FILE" added. The program must write a JSON report to FILE. The script reads the
figure of --json-key from the report. Repeats are interleaved (1,2,4,1,2,4,...), so that a load on the machine does not
affect one number of ranks alone. Output: PREFIX.json with every run, PREFIX.png with speed-up and efficiency, and a
markdown table on standard output.

For weak scaling, {ranks} and {ranks*K} in ARGS are replaced by numbers:

  scripts/scaling.py --mode weak --ranks 1,2,4 -- build/release/bin/train_mnist --global-batch '{ranks*64}'
"""
import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import command_line
from command_line import MOST_RANKS, counted

REPOSITORY = Path(__file__).resolve().parent.parent
SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's python3-matplotlib is installed for it


class ScalingError(Exception):
    pass


def rank_list(text):
    try:
        ranks = [int(word) for word in text.split(",")]
    except ValueError:
        ranks = []
    if not ranks or min(ranks) < 1 or max(ranks) > MOST_RANKS or len(set(ranks)) != len(ranks):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers of ranks, such as 1,2,4; the most is "
                                         f"{MOST_RANKS}")
    return sorted(ranks)


def parse_arguments():
    parser = command_line.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                 usage=argparse.SUPPRESS)
    add = parser.add_argument
    add("--ranks", type=rank_list, default=[1, 2], metavar="N,N,...", help="default: 1,2")
    add("--repeat", type=command_line.count, default=3, metavar="N", help="runs of each number of ranks (default 3)")
    add("--mode", choices=["strong", "weak"], default="strong",
        help="strong: the same work on all ranks together (default); weak: the same on each")
    add("--json-key", default="samples_per_second", metavar="KEY",
        help="figure of the report, with dots into nested objects (default samples_per_second)")
    add("--lower-is-better", action="store_true", help="the figure is a time, not a rate")
    add("--json-option", default="--json", metavar="OPTION", help="the program's option for the report's file")
    add("--launcher", metavar="COMMAND", help="what starts ranks, given -np N (default: hororun of this build)")
    add("--timeout", type=command_line.seconds, default=1800, metavar="SECONDS", help="for one run (default 1800)")
    add("--out", default="scaling", metavar="PREFIX", help="of the files written (default: scaling)")
    add("program", nargs="+", metavar="PROGRAM [ARGS...]", help="after --")
    return parser.parse_args()


def import_pyplot():
    """matplotlib.pyplot with a file backend, or None."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot


def restart_where_matplotlib_is():
    """Restarts with the system's Python if only that one has matplotlib."""
    if import_pyplot() is not None or "HORO_SCALING_RESTARTED" in os.environ or not Path(SYSTEM_PYTHON).exists():
        return
    if subprocess.run([SYSTEM_PYTHON, "-c", "import matplotlib"], stderr=subprocess.DEVNULL).returncode == 0:
        os.execve(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv], {**os.environ, "HORO_SCALING_RESTARTED": "1"})


def find_launcher(text):
    if text:
        return shlex.split(text)
    for candidate in (REPOSITORY / "build/release/bin/hororun", shutil.which("hororun")):
        if candidate and Path(candidate).exists():
            return [str(candidate)]
    raise ScalingError("there is no build/release/bin/hororun; build it with: scripts/test.sh release, or give --launcher")


def with_ranks(words, ranks):
    """The words with {ranks} and {ranks*K} replaced."""
    return [re.sub(r"\{ranks(?:\*(\d+))?\}", lambda match: str(ranks * int(match.group(1) or 1)), word)
            for word in words]


def figure_of(report, key):
    value = report
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ScalingError(f"the report has no '{key}'; at '{part}' it has: "
                               f"{', '.join(value) if isinstance(value, dict) else value}")
        value = value[part]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ScalingError(f"'{key}' of the report is not a number above 0: {value}")
    return float(value)


def run_once(launcher, arguments, ranks):
    """One run: its figure, wall time, and whole report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [*launcher, "-np", str(ranks), *with_ranks(arguments.program, ranks), arguments.json_option, str(path)]
        start = time.monotonic()
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    errors="replace", timeout=arguments.timeout)
        except subprocess.TimeoutExpired as error:
            output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
            raise ScalingError(f"{shlex.join(command)} took more than {arguments.timeout} s; its output:\n{output}")
        except OSError as error:
            raise ScalingError(f"cannot start {command[0]}: {error.strerror}")
        seconds = time.monotonic() - start
        if result.returncode != 0:
            raise ScalingError(f"{shlex.join(command)} ended with exit code {result.returncode}; its output:\n"
                               f"{result.stdout}")
        try:
            report = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ScalingError(f"{shlex.join(command)} wrote no JSON report ({error}); its output:\n{result.stdout}")
    return {"ranks": ranks, "figure": figure_of(report, arguments.json_key), "wall_seconds": round(seconds, 3),
            "report": report}


def run_all(launcher, arguments):
    runs = []
    for repeat in range(arguments.repeat):
        for ranks in arguments.ranks:
            run = {"repeat": repeat, **run_once(launcher, arguments, ranks)}
            runs.append(run)
            print(f"scaling.py: repeat {repeat + 1} of {arguments.repeat}, {counted(ranks, 'rank')}: "
                  f"{arguments.json_key} {run['figure']:.4g} ({run['wall_seconds']:.1f} s)", file=sys.stderr)
    return runs


def summarise(runs, mode, lower_is_better):
    """For each number of ranks: the median, minimum and maximum figure, and the speed-ups and efficiencies.

    A speed-up is the work per time, relative to the median of the smallest number of ranks. In weak mode the work of a
    run is proportional to its ranks.
    """
    figures = {}
    for run in runs:
        figures.setdefault(run["ranks"], []).append(run["figure"])
    base_ranks = min(figures)
    base = statistics.median(figures[base_ranks])
    rows = []
    for ranks in sorted(figures):
        def speedup_of(figure):
            if not lower_is_better:
                return figure / base
            return base / figure * (ranks / base_ranks if mode == "weak" else 1)

        median, least, most = statistics.median(figures[ranks]), min(figures[ranks]), max(figures[ranks])
        speedup = speedup_of(median)
        slowest, fastest = sorted([speedup_of(least), speedup_of(most)])
        rows.append({"ranks": ranks, "median": median, "min": least, "max": most, "speedup": speedup,
                     "speedup_min": slowest, "speedup_max": fastest, "efficiency": speedup * base_ranks / ranks})
    return rows


def markdown(rows, key, mode, cores, repeats):
    lines = [f"| ranks | {key}, median (min to max) of {repeats} | speed-up | {mode} scaling efficiency |",
             "|---:|---:|---:|---:|"]
    for row in rows:
        mark = " *" if row["ranks"] > cores else ""
        lines.append(f"| {row['ranks']}{mark} | {row['median']:.4g} ({row['min']:.4g} to {row['max']:.4g}) | "
                     f"{row['speedup']:.2f} | {100 * row['efficiency']:.0f} % |")
    if any(row["ranks"] > cores for row in rows):
        lines += ["", f"\\* more ranks than this machine's {counted(cores, 'core')}"]
    return "\n".join(lines)


def plot_speedups(axes, rows, factors, **options):
    """Draws the medians times the factors, each with a bar from minimum to maximum."""
    medians = [row["speedup"] * factor for row, factor in zip(rows, factors)]
    below = [(row["speedup"] - row["speedup_min"]) * factor for row, factor in zip(rows, factors)]
    above = [(row["speedup_max"] - row["speedup"]) * factor for row, factor in zip(rows, factors)]
    axes.errorbar([row["ranks"] for row in rows], medians, yerr=[below, above], fmt="o-", capsize=3, **options)


def draw(pyplot, rows, arguments, cores, path):
    ranks = [row["ranks"] for row in rows]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    left.plot(ranks, [n / ranks[0] for n in ranks], "--", color="grey", label="ideal")
    plot_speedups(left, rows, [1] * len(rows), label="median, min to max")
    left.set(xlabel="ranks", ylabel=f"speed-up over {counted(ranks[0], 'rank')}", xticks=ranks)
    left.legend()
    plot_speedups(right, rows, [100 * ranks[0] / n for n in ranks])
    right.set(xlabel="ranks", ylabel="efficiency (%)", xticks=ranks)
    right.set_ylim(0, max(110, right.get_ylim()[1]))
    figure.suptitle(f"{Path(arguments.program[0]).name}: {arguments.mode} scaling of {arguments.json_key}, "
                    f"{counted(cores, 'core')}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    arguments = parse_arguments()
    restart_where_matplotlib_is()
    prefix = Path(arguments.out)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    runs = run_all(find_launcher(arguments.launcher), arguments)
    rows = summarise(runs, arguments.mode, arguments.lower_is_better)
    result = {"program": arguments.program, "mode": arguments.mode, "key": arguments.json_key,
              "lower_is_better": arguments.lower_is_better,
              "machine": {"cores": cores, "system": platform.platform()},
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "summary": rows, "runs": runs}
    Path(f"{prefix}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(markdown(rows, arguments.json_key, arguments.mode, cores, arguments.repeat))
    pyplot = import_pyplot()
    if pyplot is None:
        print("scaling.py: there is no matplotlib, so nothing is drawn; apt-get install python3-matplotlib",
              file=sys.stderr)
    else:
        draw(pyplot, rows, arguments, cores, f"{prefix}.png")


if __name__ == "__main__":
    try:
        main()
    except ScalingError as error:
        sys.exit(f"scaling.py: {error}")
