#!/usr/bin/env python3
"""Compares the figures of one run of gpu_check.sh with their goals, and those of horo with those of PyTorch.

usage: gpu_verdicts.py FOLDER [--json FILE]

FOLDER has the reports device_bench.json, train_step_bench.json, train_step_bench_float32.json and baseline.json. Prints one line
per figure: what it is, goal, measured value, verdict. A verdict is "met", "missed", "not measured" (no figure in the reports), or
"not comparable" (horo and PyTorch ran with different settings). A goal that is missed is no error.

Exit code: 0; 1 if FOLDER does not exist; 2 for wrong usage.
"""
import json
import sys
from pathlib import Path

import command_line

NETWORKS = ("mlp-784-4096-4096-10", "cnn-train_mnist", "resnet20-cifar", "resnet18-cifar")
# Least rate of a move relative to a copy, by model and wire type.
MOVE_GOALS = {("resnet50", "float32"): 0.85, ("gpt2", "float32"): 0.9, ("resnet50", "bfloat16"): 0.8, ("gpt2", "bfloat16"): 0.88}
# Settings that must be equal in the reports of horo and of PyTorch.
SETTINGS = ("steps_per_sample", "cudnn_search", "is_deterministic", "allow_tf32", "divide")


def row_of(report, key, **fields):
    """The first row of report[key] with these fields, or an empty one."""
    for row in report.get(key, []):
        if all(row.get(name) == value for name, value in fields.items()):
            return row
    return {}


def get(row, *names):
    """row[names[0]][names[1]]..., or None if it is missing."""
    for name in names:
        row = row.get(name) if isinstance(row, dict) else None
    return row


def verdict(what, value, goal, unit="", at_least=False):
    """A line of the table. `unit` is empty for ratios, "%" for fractions that are shown in percent."""
    def shown(number):
        return f"{100 * number:.1f} %" if unit == "%" else f"{number:.2f}{' ' * bool(unit)}{unit}"

    line = {"what": what, "goal": f"{'at least' if at_least else 'at most'} {shown(goal)}", "value": value}
    if value is None:
        return line | {"measured": "", "verdict": "not measured"}
    return line | {"measured": shown(value), "verdict": "met" if (value >= goal if at_least else value <= goal) else "missed"}


def ratio_verdict(what, horo_ms, torch_ms, goal):
    """horo's time divided by PyTorch's."""
    line = verdict(what, horo_ms / torch_ms if horo_ms and torch_ms else None, goal)
    times = [f"{name} {ms:.3f} ms" for name, ms in (("horo", horo_ms), ("PyTorch", torch_ms)) if ms]
    if times:
        line["measured"] = f"{line['measured']} ({', '.join(times)})".strip()
    return line


def device_verdicts(report):
    """The figures of device_bench."""
    for (model, wire), goal in MOVE_GOALS.items():
        for kind in ("pack", "unpack"):
            rows = [row for row in report.get("moves", []) if str(row.get("what")).startswith(kind + " ")]
            yield verdict(f"{kind} {model} as {wire}, of the copy", get(row_of({"rows": rows}, "rows", model=model, wire=wire), "per_copy"), goal,
                          "%", at_least=True)
    small = report.get("small_tensors", {})
    yield verdict("512 tensors of 12 KB, one launch", get(small, "one_launch_us", "median"), 15, "us")
    yield verdict("512 tensors of 12 KB, copies per launch", get(small, "copies_per_launch"), 20, at_least=True)
    yield verdict("AdamW, one launch, of the copy", get(report, "adamw", "per_copy"), 0.85, "%", at_least=True)
    for count in (4, 4096, 1048576):
        latency = row_of(report, "latency", bytes=count)
        yield verdict(f"enqueue to done, {count} bytes, median", get(latency, "p50_us"), 25, "us")
        yield verdict(f"enqueue to done, {count} bytes, 99 of 100", get(latency, "p99_us"), 60, "us")
    for call in ("record of an event", "wait for an event"):
        yield verdict(f"host time, {call}", get(row_of(report, "host_times", call=call), "us", "median"), 2, "us")
    moves = [get(row, "us", "median") for row in report.get("moves", []) if (row.get("model"), row.get("wire")) == ("resnet50", "float32")]
    exchange = get(report, "exchange", "us", "median")
    yield verdict("exchange of resnet50, per pack and unpack", exchange / sum(moves) if exchange and len(moves) == 2 else None, 1)
    yield verdict("exchange of resnet50, host time", get(report, "exchange", "host_us", "median"), 150, "us")


def differing_settings(report, baseline):
    return [name for name in SETTINGS if report.get(name) != baseline.get(name)]


def step_verdicts(report, baseline, precision):
    """The steps of train_step_bench, compared with PyTorch."""
    def pair(name, mode, torch_mode, check_finite, goal):
        what = f"{name}, {precision}{', checked' if check_finite else ''}: {mode} / {torch_mode}"
        horo = get(row_of(report, "rows", case=name, mode=mode, check_finite=check_finite), "median_ms")
        torch = get(row_of(baseline, "rows", case=name, mode=torch_mode, precision=precision, check_finite=check_finite), "median_ms")
        line = ratio_verdict(what, horo, torch, goal)
        differing = differing_settings(report, baseline)
        if torch_mode == "eager-benchmark":  # differs on purpose
            differing = [setting for setting in differing if setting not in ("cudnn_search", "is_deterministic")]
        if differing and horo and torch:
            line |= {"verdict": "not comparable", "measured": f"{line['measured']}; differs: {', '.join(differing)}"}
        return line

    for name in NETWORKS:
        for check_finite in (False, True):
            yield pair(name, "plain", "eager", check_finite, 1)
            if precision == "bfloat16":
                yield pair(name, "graph", "compiled", check_finite, 1.2 if name.startswith("resnet") else 1)
        if precision == "bfloat16":
            if not name.startswith("mlp"):
                yield pair(name, "plain", "eager-benchmark", False, 1)
            plain = row_of(report, "rows", case=name, mode="plain", check_finite=False)
            exposed, step = get(plain, "exposed_us"), get(plain, "median_ms")
            yield verdict(f"{name}, {precision}: exposed communication, of the step", exposed / step / 1e3 if step and exposed is not None else None,
                          0.01, "%")


def verdicts(folder):
    reports = {}
    for name in ("device_bench", "train_step_bench", "train_step_bench_float32", "baseline"):
        try:
            reports[name] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            reports[name] = {}
    device, baseline = reports["device_bench"], reports["baseline"]
    lines = list(device_verdicts(device))
    adamw_us = get(device, "adamw", "us", "median")
    lines.append(ratio_verdict("AdamW, 124,439,808 values: horo / PyTorch, fused", adamw_us / 1e3 if adamw_us else None,
                               get(row_of(baseline, "rows", case="adamw-124m"), "median_ms"), 1))
    for name, precision in (("train_step_bench", "bfloat16"), ("train_step_bench_float32", "float32")):
        lines += step_verdicts(reports[name], baseline, precision)
    return lines


def main():
    parser = command_line.Parser(prog="gpu_verdicts.py", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", default="", help="also write the lines to this file")
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"gpu_verdicts.py: {options.folder} is not a folder", file=sys.stderr)
        return 1
    lines = verdicts(options.folder)
    for line in lines:
        print(f"{line['what']:66} {line['goal']:17} {line['verdict']:14} {line['measured']}".rstrip())
    counts = [f"{sum(line['verdict'] == kind for line in lines)} {kind}" for kind in ("met", "missed", "not measured", "not comparable")]
    print(f"{command_line.counted(len(lines), 'goal')}: {', '.join(counts)}")
    if options.json:
        Path(options.json).write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
