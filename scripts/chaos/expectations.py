"""How a job must end for each fault and place: the documented guarantees in one table."""
from dataclasses import dataclass, replace

from .scenario import FAULTS, NOT_DRAWN, PLACES

TIMEOUT_S = 8  # HORO_TIMEOUT of every round
WARNING_S = 2  # HORO_STALL_WARNING
DEAD_LIMIT_S = 10
ABORT_LIMIT_S = 15  # hororun ends an mpirun that aborts the job and may wait for another host
LATE_LIMIT_S = TIMEOUT_S + 15
LATE_LEAST_S = TIMEOUT_S - 1  # HORO_TIMEOUT does not end a job before this

STUCK = 75
ANY_FAILURE = frozenset(range(1, 256))


@dataclass(frozen=True)
class Expectation:
    limit_s: float  # from the first fault to the launcher's end
    codes: frozenset
    event: str  # regular expression of the event in the verdict; "" if no verdict must name a rank
    sentence: str
    text: str = ""  # regular expression of other required output
    least_s: float = 0  # the job may not end earlier
    is_stopped_by_user: bool = False  # the job does not end by itself: the driver stops it with SIGTERM


LATE = (r"never (submitted|marked|called)|(has|have) not called it|(has|have) been in the completion callback|"
        r"(is|are) late with")
STOPPED = r"(is|are) stopped \(SIGSTOP"
SILENT = r"(has|have) sent no heartbeat"
# How reports describe a rank that ends without a record of horo, including the report of mpirun if there is one.
GONE = r"(is|are) dead: the process is gone"
BY_CODE = r"(exited with code|ended with exit code|the job failed with exit code) {}\b"
IMPROPER = r"ended improperly"  # mpirun's report of exit code 0 without MPI_Finalize

BY_FAULT = {
    "kill": Expectation(DEAD_LIMIT_S, frozenset({137}), rf"signal 9\b|{GONE}", "mpirun or the watchdog detects the death"),
    "segv": Expectation(DEAD_LIMIT_S, frozenset({139}), r"signal 11\b", "the signal is the cause"),
    "abort": Expectation(DEAD_LIMIT_S, frozenset({134}), r"signal 6\b", "the signal is the cause"),
    "terminate": Expectation(DEAD_LIMIT_S, frozenset({134}), r"signal 6\b|std::terminate\(\)",
                             "std::terminate() ends in SIGABRT"),
    "exit": Expectation(DEAD_LIMIT_S, frozenset({1}), rf"{BY_CODE.format(0)}|{IMPROPER}",
                        "exit(0) without shutdown() fails the job: the exception that the other ranks get makes them "
                        "return 1, and mpirun returns 1 for an exit without MPI_Finalize"),
    "_exit": Expectation(DEAD_LIMIT_S, frozenset({3}), rf"{BY_CODE.format(3)}|{GONE}", "mpirun detects the exit code"),
    "_exit0": Expectation(DEAD_LIMIT_S, frozenset({1}), rf"{BY_CODE.format(0)}|{IMPROPER}|{GONE}",
                          "as exit(0), but no code of horo runs in the rank: mpirun or the watchdog detects its end"),
    "throw": Expectation(DEAD_LIMIT_S, frozenset({1}), rf"failed with an exception|{BY_CODE.format(1)}|injected failure",
                         "main() prints the exception and returns 1", text=r"injected failure of rank {victim}\b"),
    "stop": Expectation(LATE_LIMIT_S, frozenset({1, STUCK}), STOPPED,
                        "the watchdog names the stopped process, and ends the job after HORO_TIMEOUT",
                        least_s=LATE_LEAST_S),
    "loop": Expectation(LATE_LIMIT_S, frozenset({1, STUCK}), LATE,
                        "the rank is late, and the job ends after HORO_TIMEOUT", least_s=LATE_LEAST_S),
}
BY_FAULT["stuck"] = BY_FAULT["loop"]

WELL = frozenset({0})


def exceptions_for(fault, place):
    """The differences from BY_FAULT, as a dictionary of fields; None if there are none."""
    inside = place.startswith("in_") and place != "in_callback"
    is_endless = fault in ("stop", "loop", "stuck")
    if fault == "throw" and place == "in_callback":
        return {"codes": WELL, "event": "", "text": r"a completion callback threw: injected failure of rank {victim}\b",
                "sentence": "an exception of a callback is logged and affects no operation"}
    if fault == "throw" and inside:
        return {"codes": frozenset({134}), "event": r"signal 6\b|ended with an uncaught exception",
                "sentence": "the exception leaves a thread of the program, so std::terminate() is called"}
    if fault in ("exit", "_exit0") and place == "end_of_main" or (fault, place) == ("exit", "after_shutdown"):
        return {"codes": WELL, "event": "", "sentence": "the rank has shut down: its exit is a return from main()"}
    if (fault, place) == ("exit", "in_shutdown"):
        return {"codes": frozenset({0, 1}), "sentence": f"{BY_FAULT[fault].sentence}; unless shutdown() had ended"}
    if (fault, place) == ("_exit0", "after_shutdown"):
        return {"event": rf"{BY_CODE.format(0)}(?! without calling Context::shutdown)|{IMPROPER}|{GONE}",
                "sentence": f"{BY_FAULT[fault].sentence}; the rank has called shutdown(), and exited before MPI_Finalize"}
    if fault in ("exit", "_exit0") and place == "before_init":
        return {"limit_s": LATE_LIMIT_S, "codes": frozenset({1, STUCK}),
                "event": rf"{BY_CODE.format(0)}|{IMPROPER}|exited without completing horo::init\(\)|not called it",
                "sentence": "no code of horo runs in the rank: mpirun's report ends the job with 1, or hororun or the others' "
                            "init() with 75, after HORO_TIMEOUT at the latest"}
    if fault in ("exit", "_exit0") and place == "in_init":
        return {"limit_s": LATE_LIMIT_S, "codes": frozenset({1, STUCK}),
                "event": rf"{BY_FAULT[fault].event}|exited without completing horo::init\(\)",
                "sentence": "mpirun reports the exit only if the rank had completed MPI_Init; otherwise hororun ends the "
                            "job with 75"}
    if is_endless and place == "end_of_main":
        return {"codes": ANY_FAILURE, "event": "", "least_s": 0, "is_stopped_by_user": True,
                "sentence": "the rank has shut down and may run without limit; the user stops the job"}
    if is_endless and place == "before_init":
        return {"codes": frozenset({STUCK}), "event": r"not called it",
                "sentence": "the others wait in init(), which ends the job with 75 after HORO_TIMEOUT"}
    if fault == "stop" and place == "in_init":
        return {"event": rf"{STOPPED}|not called it",
                "sentence": "as after init(); a rank that is stopped before others detect it in init() is reported as not having called it"}
    if is_endless and place == "after_shutdown":
        return {"codes": frozenset({STUCK}),
                "sentence": "the others wait in MPI_Finalize, and end with 75 after HORO_TIMEOUT"}
    return None


TABLE = {(fault, place): replace(BY_FAULT[fault], **(exceptions_for(fault, place) or {}))
         for fault in FAULTS + NOT_DRAWN for place in PLACES}


def horo_cannot_see(fault, place):
    """Whether no code of horo runs in the rank when it dies. Only mpirun then detects the death, and ends the others at once."""
    if place in ("before_init", "end_of_main"):
        return True
    # No watchdog runs yet that could detect the death, and exit() runs no code of horo yet. The rank itself records a crash.
    return place == "in_init" and fault in ("kill", "exit", "_exit", "_exit0")


def is_stopped_alone(scenario):
    """Whether a victim is stopped and no other rank of its node is left to detect it."""
    if scenario.per_node == 0:
        return False

    def node_is_stopped(node):
        ranks = range(node * scenario.per_node, min((node + 1) * scenario.per_node, scenario.ranks))
        return set(ranks) <= set(scenario.victims)

    return any(node_is_stopped(victim // scenario.per_node) for victim in scenario.victims)


def expectation_of(scenario):
    expected = TABLE[scenario.fault, scenario.place]
    if scenario.launcher == "hororun":
        # hororun has a process per rank that reports how the rank ended. From another host the report may be late.
        if scenario.hosts != "lab":
            expected = replace(expected, event=expected.event.replace(f"|{GONE}", ""))
        elif expected.limit_s == DEAD_LIMIT_S:
            expected = replace(expected, limit_s=ABORT_LIMIT_S)
    ends = not (expected.least_s or expected.is_stopped_by_user)  # the rank, by itself
    if scenario.launcher == "mpirun" and ends and expected.codes != WELL:
        # The exit code of the rank whose end mpirun notices first. The other ranks end with 1 because of the victim.
        expected = replace(expected, codes=expected.codes | {1})
    if expected.is_stopped_by_user and scenario.launcher == "hororun":
        return replace(expected, codes=frozenset({143}), text=r"hororun: stopped by signal 15 \(Terminated\)")
    if scenario.launcher == "mpirun" and ends and expected.codes != WELL and horo_cannot_see(scenario.fault, scenario.place):
        return replace(expected, event="", text="",
                       sentence=f"{expected.sentence}; plain mpirun does not always name a rank: only its exit code is "
                                "promised")
    if scenario.hosts == "lab" and scenario.place in ("before_init", "in_init") and expected.limit_s == LATE_LIMIT_S:
        silent = f"|{SILENT}" if scenario.fault == "stop" and is_stopped_alone(scenario) else ""
        return replace(expected, event="", text=rf"(?:has|have) waited .* in horo::init\(\)|{expected.event}{silent}",
                       sentence=f"{expected.sentence}; on several hosts the line of init() counts the missing ranks")
    if scenario.fault == "stop" and expected.event and is_stopped_alone(scenario):
        return replace(expected, event=rf"{expected.event}|{SILENT}",
                       sentence=f"{expected.sentence}; where no rank of its node is left, it sends no heartbeat")
    return expected
