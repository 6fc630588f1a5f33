"""Goals for horo's ratios, and whether they are met. No I/O."""
import re
from dataclasses import dataclass

from peers import summary

UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20}
DEFAULT = "1@4-1Ki,1.5@16Ki-256Ki,1.3@1Mi-4Mi,2@16Mi,4@64Mi-128Mi,2@resnet50,2@bert-base,3@tiny1000"


@dataclass(frozen=True)
class Goal:
    """The fastest peer at its defaults should take at least `ratio` times horo's time."""
    ratio: float
    model: str = ""  # or, if empty, an allreduce of `least` to `most` bytes
    least: int = 0
    most: int = 0

    def covers(self, size):
        return not self.model and self.least <= size <= self.most


def size_of(text):
    words = re.fullmatch(r"([1-9][0-9]*)(Ki|Mi|)", text, re.ASCII)
    return int(words[1]) * UNITS[words[2]] if words else 0


def parse(text, models):
    """Parses "RATIO@SIZE, RATIO@SIZE-SIZE or RATIO@MODEL, ..." or "none". Raises ValueError."""
    goals = []
    for word in [] if text == "none" else text.split(","):
        ratio, _, what = word.partition("@")
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", ratio, re.ASCII) or not what:
            raise ValueError(f"'{word}' is not a goal such as 1.5@16Ki, 2@64Ki-128Mi or 1.5@resnet50")
        if what in models:
            goals.append(Goal(float(ratio), model=what))
            continue
        ends = [size_of(end) for end in what.split("-")]
        if not 1 <= len(ends) <= 2 or not all(ends) or ends[0] > ends[-1]:
            raise ValueError(f"'{what}' is no size, range of sizes or gradient set: use 16Ki, 64Ki-128Mi or "
                             f"{', '.join(models)}")
        goals.append(Goal(float(ratio), least=ends[0], most=ends[-1]))
    return goals


def measured(of_case, key):
    """(ratio, peer's label, whether both were undisturbed) of the fastest peer at its defaults; None if not measured.

    `key`: a number of bytes as text, or None for a gradient set, whose fastest method is used.
    """
    horo = of_case.get("horo", {}).get(key or "")
    first = summary.fastest(summary.at_defaults(of_case), key)
    if not horo or not first:
        return None
    return summary.ratio(first[2], horo), first[0], first[2]["calm"] and horo["calm"]


def results(goals, regime_cases, sizes, models):
    """[(case, ratio of the goal, measured() or None)] for each size and model of each goal."""
    rows = []
    for goal in goals:
        if goal.model in models:
            rows.append((goal.model, goal.ratio, measured(regime_cases.get(goal.model, {}), None)))
        rows += [(size, goal.ratio, measured(regime_cases.get("allreduce", {}), str(size)))
                 for size in sizes if goal.covers(size)]
    return rows


def verdict(ratio, found):
    """"met", "missed" or "not measured"."""
    if found is None:
        return "not measured"
    return "met" if found[0] >= ratio else "missed"
