"""How a job must end, for each fault and place: the documented promises as one table."""
from dataclasses import dataclass, replace

from .scenario import FAULTS, NOT_DRAWN, PLACES

TIMEOUT_S = 8  # HORO_TIMEOUT of every round
WARNING_S = 2  # HORO_STALL_WARNING
DEAD_LIMIT_S = 10
LATE_LIMIT_S = TIMEOUT_S + 15

STUCK = 75
ANY_FAILURE = frozenset(range(1, 256))


@dataclass(frozen=True)
class Expectation:
    limit_s: float  # from the first fault to the launcher's end
    codes: frozenset
    event: str  # regular expression: the right kind of event in the verdict; "" if the job ends well
    sentence: str
    text: str = ""  # regular expression: what else the output must have
    is_stopped_by_user: bool = False  # the job does not end by itself: the driver stops it with SIGTERM


LATE = (r"never (submitted|marked|registered|called|entered)|not (called|reached|entered|returned|finished|exited|ended)|"
        r"stuck|(is|are) late|does not (return|end)|callback|no sign of life")

BY_FAULT = {
    "kill": Expectation(DEAD_LIMIT_S, frozenset({137}), r"signal 9|SIGKILL|\bdead\b",
                        "mpirun or the watchdog sees the death"),
    "segv": Expectation(DEAD_LIMIT_S, frozenset({139}), r"signal 11|SIGSEGV|Segmentation fault",
                        "the signal is the cause"),
    "abort": Expectation(DEAD_LIMIT_S, frozenset({134}), r"signal 6|SIGABRT|Aborted", "the signal is the cause"),
    "terminate": Expectation(DEAD_LIMIT_S, frozenset({134}), r"signal 6|SIGABRT|Aborted|terminate",
                             "std::terminate() ends in SIGABRT"),
    "exit": Expectation(DEAD_LIMIT_S, ANY_FAILURE, r"exited|exit code 0|ended|shut ?down|exit\(",
                        "a rank that exits without shutdown() fails the job, whatever its exit code"),
    "_exit": Expectation(DEAD_LIMIT_S, frozenset({3}), r"exit code 3|exited|\bdead\b", "mpirun sees the exit code"),
    "throw": Expectation(DEAD_LIMIT_S, frozenset({1}), r"failed|exit code 1|exited with code 1|injected failure",
                         "main() prints the exception and returns 1", text=r"injected failure of rank {victim}\b"),
    "stop": Expectation(LATE_LIMIT_S, frozenset({1, STUCK}), rf"stopped|{LATE}",
                        "the watchdog names the stopped process, and ends the job after HORO_TIMEOUT"),
    "loop": Expectation(LATE_LIMIT_S, frozenset({1, STUCK}), LATE,
                        "the rank is late, and the job ends after HORO_TIMEOUT"),
}
BY_FAULT["stuck"] = BY_FAULT["loop"]

WELL = frozenset({0})


def exceptions_for(fault, place):
    """What differs from BY_FAULT, as a dictionary of fields; None: nothing."""
    inside = place.startswith("in_") and place != "in_callback"
    if fault == "throw" and place == "in_callback":
        return {"codes": WELL, "event": "", "text": "",
                "sentence": "an exception of a callback is logged and disturbs no operation"}
    if fault == "throw" and inside:
        return {"codes": frozenset({134}), "event": r"signal 6|SIGABRT|Aborted|terminate|injected failure",
                "sentence": "the exception leaves a thread of the program, so std::terminate() is called"}
    if fault == "exit" and place == "end_of_main":
        return {"codes": WELL, "event": "", "sentence": "the rank has shut down: exit(0) is a return from main()"}
    if fault in ("exit",) and place == "before_init":
        return {"limit_s": LATE_LIMIT_S,
                "sentence": "no horo runs in the rank: the others end in init() after HORO_TIMEOUT at the latest"}
    if fault in ("stop", "loop") and place == "end_of_main":
        return {"codes": ANY_FAILURE, "event": "", "is_stopped_by_user": True,
                "sentence": "the rank has left horo and may run on for as long as it likes; the user stops the job"}
    return None


TABLE = {(fault, place): replace(BY_FAULT[fault], **(exceptions_for(fault, place) or {}))
         for fault in FAULTS + NOT_DRAWN for place in PLACES}


def horo_cannot_see(fault, place):
    """Whether no code of horo runs in the rank when it dies: mpirun alone sees the death, and ends the others at once."""
    if place in ("before_init", "end_of_main"):
        return True
    # There is no job yet whose watchdog could see the death; crashes are recorded by the rank itself.
    return place == "in_init" and fault in ("kill", "_exit")


def expectation_of(scenario):
    expected = TABLE[scenario.fault, scenario.place]
    dies = expected.limit_s == DEAD_LIMIT_S
    if scenario.launcher == "mpirun" and dies and horo_cannot_see(scenario.fault, scenario.place):
        return replace(expected, event="", text="",
                       sentence=f"{expected.sentence}; plain mpirun does not always name a rank: only its exit code is "
                                "promised")
    return expected
