"""The scenario of one round, drawn from the seed."""
import random
from dataclasses import asdict, dataclass

FAULTS = ("kill", "stop", "segv", "abort", "terminate", "exit", "_exit", "_exit0", "throw", "loop")
# Only if --only names it: the main thread stays inside the call. No verdict names the rank yet, because the records show
# every rank in the operation.
NOT_DRAWN = ("stuck",)
# The name of a place inside a collective call begins with "in_", except the callback, which runs on another thread.
PLACES = ("before_init", "in_init", "after_init", "in_allocate", "in_registration", "before_ready", "after_ready",
          "in_wait", "in_callback", "in_join", "in_set", "before_shutdown", "in_shutdown", "after_shutdown",
          "end_of_main")
MOST_VICTIMS = 3
LAB_HOSTS = 4


@dataclass(frozen=True)
class Scenario:
    number: int
    fault: str
    place: str
    ranks: int
    victims: tuple  # ascending; at least one rank is not a victim
    launcher: str  # "hororun" or "mpirun"
    hosts: str  # "one", "pretended" (HORO_RANKS_PER_NODE) or "lab" (network namespaces)
    per_node: int  # ranks per host; 0: all ranks on one host
    lag_ms: int  # time by which the others enter the call after the victims
    delay_ms: int  # time from the victim's call to the fault

    def is_inside(self):
        return self.place.startswith("in_") and self.place != "in_callback"

    def describe(self):
        where = "on one host" if self.hosts == "one" else f"on {self.hosts} hosts of {self.per_node}"
        timing = f", lag {self.lag_ms} ms, delay {self.delay_ms} ms" if self.is_inside() else ""
        return (f"{self.fault}@{self.place} of rank{'s' if len(self.victims) > 1 else ''} "
                f"{','.join(map(str, self.victims))} of {self.ranks} {where}, {self.launcher}{timing}")

    def as_dict(self):
        return asdict(self)


def combinations(only):
    """The (fault, place) pairs that `only`, a list of FAULT, @PLACE or FAULT@PLACE, allows. An empty list allows all."""
    chosen = []
    for fault in FAULTS + tuple(fault for fault in NOT_DRAWN if any(word.startswith(fault) for word in only)):
        for place in PLACES:
            if not only or any(word in (fault, f"@{place}", f"{fault}@{place}") for word in only):
                chosen.append((fault, place))
    if not chosen:
        raise ValueError(f"{' '.join(only)}: no such fault or place; faults: {', '.join(FAULTS)}; "
                         f"places: {', '.join(PLACES)}")
    return chosen


def draw_timing(numbers, place):
    """(lag, delay): in most rounds the victim certainly waits inside the call; in the others all ranks enter together."""
    if not place.startswith("in_") or place == "in_callback":
        return 0, 0
    slow = place == "in_init"
    if numbers.random() < 0.6:
        return (800, numbers.randrange(500)) if slow else (500, numbers.randrange(300))
    return 0, numbers.randrange(250 if slow else 20)


def draw(seed, number, only=(), most_victims=MOST_VICTIMS):
    """Round `number` of `seed`: the same in every run, independent of the other rounds."""
    numbers = random.Random(f"{seed}/{number}")
    fault, place = numbers.choice(combinations(only))
    ranks = numbers.randint(2, 8)
    victims = numbers.sample(range(ranks), numbers.randint(1, min(most_victims, ranks - 1)))
    launcher = numbers.choice(("hororun", "mpirun"))
    hosts = numbers.choices(("one", "pretended", "lab"), (50, 35, 15))[0]
    least = -(-ranks // LAB_HOSTS) if hosts == "lab" else 1
    per_node = 0 if hosts == "one" else numbers.randint(least, max(least, ranks - 1))
    lag_ms, delay_ms = draw_timing(numbers, place)
    return Scenario(number, fault, place, ranks, tuple(sorted(victims)), launcher, hosts, per_node, lag_ms, delay_ms)
