"""Summarises the results of the rounds."""
import json
from collections import defaultdict


def round_line(scenario, outcome, findings):
    line = f"[{scenario.number}] {scenario.describe()}: exit {outcome.exit_code}, {outcome.seconds:.1f} s"
    return line + "".join(f"\n    {problem}" for problem in findings.describe())


def table(rounds):
    """One markdown row for each fault and place with a problem, and one for all rounds."""
    counts = defaultdict(lambda: [0, 0, 0, 0, 0])
    for scenario, _, findings in rounds:
        for key in ((scenario.fault, scenario.place), ("all", "")):
            for i, is_so in enumerate((True, findings.hang, findings.leftovers, findings.wrong, findings.end_of_mpirun)):
                counts[key][i] += bool(is_so)
    rows = ["| fault | place | rounds | hangs | leftovers | wrong | mpirun failed |", "|---|---|---|---|---|---|---|"]
    for (fault, place), numbers in sorted(counts.items(), key=lambda item: (item[0][0] == "all", item[0])):
        if fault == "all" or any(numbers[1:]):
            rows.append(f"| {fault} | {place} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(rows)


def last_line(rounds):
    def count(name):
        return sum(bool(getattr(findings, name)) for _, _, findings in rounds)

    return f"rounds {len(rounds)} hangs {count('hang')} leftovers {count('leftovers')} wrong {count('wrong')}"


def as_json(seed, rounds):
    return json.dumps({"seed": seed, "summary": last_line(rounds), "rounds": [
        {**scenario.as_dict(), "exit_code": outcome.exit_code, "seconds": round(outcome.seconds, 2),
         "problems": findings.describe()} for scenario, outcome, findings in rounds]}, indent=1)
