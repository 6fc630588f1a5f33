"""Checks whether a job ended as documented: in time, with the correct exit code and cause, and without leftovers."""
import re
import signal
from dataclasses import dataclass, field

from .expectations import SILENT, WELL, expectation_of

# "ranks 0, 2-4 and 6 (host a, pids 1, 2)". Several such parts, separated by ", ", are one subject.
RANKS = re.compile(r"ranks? (\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)(?: \([^)]*\))*")
QUOTED = r"'[^']*'(?: of process set \{[^}]*\})?"
# The words that may precede the subject of a sentence. After other words, no rank is the subject.
BEFORE_SUBJECT = re.compile("|".join((
    r"shutdown: ",
    rf"{QUOTED} cannot complete: ",
    rf"gradients {QUOTED}: ",
    # Not "waited 16 s for rank 6 to send ...": the error of an expired wait names only one peer. That peer may wait itself.
    rf"{QUOTED} has waited \S+(?: \S+)? for (?=rank )",
    # "ranks 0-1 (host b, pids 6, 7) have waited 3 s in horo::init() for rank 2, ...": rank 2 is the cause.
    r"ranks? [-\d, and]+ (?:\([^)]*\) )?(?:has|have) waited [^;]*? in horo::init\(\)(?: for )?",
)))
LAUNCHER_LINE = re.compile(r"^hororun: (.*)")
SAME_MOMENT_S = 1
# Lines of hororun other than the verdict.
NO_VERDICT = re.compile(r"^(more: hororun doctor |stopped by signal |mpirun itself was killed by signal )")
# Crashes of plain mpirun itself. Its end and its files are then not attributed to horo.
CRASHES = (signal.SIGSEGV, signal.SIGPIPE, signal.SIGABRT, signal.SIGBUS)
STILL_THERE = re.compile(r"^chaos: still there: process \d+ \(\w, (.*)\)$", re.M)
PROCESS = re.compile(r"process \d+ \(\w, (.*)\)$")
LAUNCHERS = re.compile(r"(/\S*/)?(mpirun|orted|cluster_lab\.sh)\b")
FILE_OF_MPIRUN = re.compile(r"(\$TMPDIR|host\d+:/tmp)/ompi\.|(/dev|host\d+:)/shm/(vader_segment|open_mpi)\.")
LOG_LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ (warning|error) \[[^]]*\] (.*)")
CRASH_LINE = re.compile(r"^horo: (.*)")  # of a rank that crashes or exits
EXCEPTION_LINE = re.compile(r"^chaos_job: rank (\d+): (.*)")
MPIRUN_SIGNAL = re.compile(r"noticed that process rank (\d+) .*exited on signal (\d+)")
MPIRUN_CODE = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+)")
MPIRUN_IMPROPER = re.compile(r"has exited due to process rank (\d+) with PID \d+ on\s+node \S+ exiting improperly")


@dataclass
class Outcome:
    """The observations of the runner."""
    exit_code: int
    output: str
    seconds: float  # from the first fault, or else from the start, to the end
    was_killed: bool  # by the runner, because it did not end
    injected: list = field(default_factory=list)  # (rank, where, time in seconds), in order of time
    left: list = field(default_factory=list)
    seconds_since_start: float = 0  # of the first rank

    def only_launcher_is_left(self):
        """Whether the launcher did not end although no rank was running."""
        processes = STILL_THERE.findall(self.output)
        return self.was_killed and bool(processes) and all(LAUNCHERS.match(process) for process in processes)

    def left_by_launcher(self):
        """Leftovers of the launcher only: its daemons and its files."""
        return [thing for thing in self.left if FILE_OF_MPIRUN.match(thing)
                or (process := PROCESS.match(thing)) and LAUNCHERS.match(process.group(1))]

    def end_of_launcher(self):
        """How the launcher itself failed; empty if it did not."""
        if self.only_launcher_is_left():
            return "did not end"
        is_crash = not self.was_killed and -self.exit_code in CRASHES
        return f"was killed by signal {-self.exit_code}" if is_crash else ""

    def failed_ranks(self):
        return {rank for rank, _, _ in self.injected}

    def first_causes(self):
        """The ranks that failed first. Several ranks if they failed too close together to order them."""
        return {rank for rank, _, at in self.injected if at - self.injected[0][2] <= SAME_MOMENT_S}


@dataclass
class Findings:
    hang: str = ""
    leftovers: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    end_of_mpirun: str = ""  # how plain mpirun failed by itself; counted separately

    def is_good(self):
        return not (self.hang or self.leftovers or self.wrong)

    def describe(self):
        return ([f"HANG: {self.hang}"] if self.hang else []) + [f"LEFT: {thing}" for thing in self.leftovers] \
            + [f"WRONG: {problem}" for problem in self.wrong] \
            + ([f"mpirun itself {self.end_of_mpirun}"] if self.end_of_mpirun else [])


def numbers_in(text):
    """Returns {0, 2, 3} for "0 and 2-3"."""
    found = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return found


def ranks_named_by(text):
    """The ranks that are the subject of a sentence; empty if it names no rank as the cause."""
    at = 0
    while match := BEFORE_SUBJECT.match(text, at):
        at = match.end()
    found = set()
    while match := RANKS.match(text, at):
        found |= numbers_in(match.group(1))
        at = match.end() + len(", ")
        if text[match.end():at] != ", ":
            break
    return found


def launcher_verdicts(output):
    """hororun's lines about what ended the job."""
    lines = (LAUNCHER_LINE.match(line) for line in output.splitlines())
    return [line.group(1) for line in lines if line and not NO_VERDICT.match(line.group(1))]


def exceptions_of_others(output, victims):
    """The reasons that ranks other than the victims printed for their end."""
    lines = (EXCEPTION_LINE.match(line) for line in output.splitlines())
    return [line.group(2) for line in lines if line and int(line.group(1)) not in victims]


def lines_of_horo(output, *levels):
    """The texts of log lines of these levels and of crash handlers."""
    found = []
    for line in output.splitlines():
        if match := LOG_LINE.match(line):
            found += [match.group(2)] if match.group(1) in levels else []
        elif match := CRASH_LINE.match(line):
            found.append(match.group(1))
    return found


def statements(output):
    """All sentences about a cause in the output of a job without hororun, including those of mpirun."""
    found = [f"rank {rank} ended with signal {signal}" for rank, signal in MPIRUN_SIGNAL.findall(output)]
    found += [f"rank {rank} ended with exit code {code}" for rank, code in MPIRUN_CODE.findall(output)]
    found += [f"rank {rank} ended improperly" for rank in MPIRUN_IMPROPER.findall(output)]
    return found + lines_of_horo(output, "warning", "error") + exceptions_of_others(output, ())


def names_only_failed(text, outcome):
    named = ranks_named_by(text)
    return bool(named) and (named <= outcome.failed_ranks() or is_silence_without_hub(text, outcome))


def is_silence_without_hub(text, outcome):
    """If rank 0 has failed, the watchdogs of the nodes are not connected, so each reports all other nodes as silent."""
    return 0 in outcome.failed_ranks() & ranks_named_by(text) and re.search(SILENT, text) is not None


def names_cause(text, outcome, event):
    return names_only_failed(text, outcome) and bool(ranks_named_by(text) & outcome.first_causes()) \
        and re.search(event, text) is not None


def false_causes(outcome):
    """Reports about ranks that have not failed."""
    texts = lines_of_horo(outcome.output, "error") + exceptions_of_others(outcome.output, ())
    return [f"a rank reports another cause: {text}" for text in dict.fromkeys(texts)
            if ranks_named_by(text) and not names_only_failed(text, outcome)]


def judge_hororun(outcome, expectation):
    verdicts = launcher_verdicts(outcome.output)
    problems = [f"hororun gives more than one verdict: {text}" for text in verdicts[1:]]
    if not verdicts:
        return [] if expectation.is_stopped_by_user else ["hororun gives no verdict"]
    if expectation.event and not names_cause(verdicts[0], outcome, expectation.event) or \
            ranks_named_by(verdicts[0]) and not names_only_failed(verdicts[0], outcome):
        problems.insert(0, f"hororun's verdict is not the cause: {verdicts[0]}")
    return problems


def judge_mpirun(outcome, expectation):
    if expectation.event and not any(names_cause(text, outcome, expectation.event) for text in statements(outcome.output)):
        return ["no line names the cause"]
    return []


def judge_good_end(outcome, text=""):
    """Findings of a job that must succeed: there may be no verdict, and no error except `text`."""
    problems = [f"hororun gives a verdict on a job that ended well: {line}" for line in launcher_verdicts(outcome.output)]
    return problems + [f"an error in a job that ended well: {line}" for line in lines_of_horo(outcome.output, "error")
                       if not (text and re.match(text, line))]


def judge_output(scenario, outcome, expectation):
    texts = [expectation.text.format(victim=victim) for victim in sorted(outcome.first_causes())]
    text = "|".join(texts) if expectation.text else ""
    if expectation.codes == WELL or outcome.exit_code == 0 and 0 in expectation.codes:
        problems = judge_good_end(outcome, text)
    else:
        judged = judge_hororun if scenario.launcher == "hororun" else judge_mpirun
        problems = judged(outcome, expectation) + false_causes(outcome)
    if not re.search(text, outcome.output):
        problems.append(f"'{text}' is not in the output")
    return problems


def judge_time(scenario, outcome, expectation, findings):
    if outcome.was_killed or outcome.seconds > expectation.limit_s:
        findings.hang = f"{'not ended' if outcome.was_killed else 'ended'} after {outcome.seconds:.1f} s, " \
                        f"more than {expectation.limit_s} s"
    # Other ranks may have waited in init() before the fault.
    is_early = scenario.place in ("before_init", "in_init")
    seconds = outcome.seconds_since_start if is_early else outcome.seconds
    if not outcome.was_killed and seconds < expectation.least_s:
        findings.wrong.append(f"ended after {seconds:.1f} s, before HORO_TIMEOUT")


def judge(scenario, outcome):
    """The findings of one round."""
    expectation = expectation_of(scenario)
    findings = Findings(leftovers=list(outcome.left))
    if not outcome.injected:
        findings.wrong.append(f"the fault did not happen (exit code {outcome.exit_code})")
        return findings
    if scenario.launcher == "mpirun":
        findings.end_of_mpirun = outcome.end_of_launcher()
        if outcome.only_launcher_is_left():
            return findings
    judge_time(scenario, outcome, expectation, findings)
    if findings.end_of_mpirun:
        findings.leftovers = [thing for thing in findings.leftovers if not FILE_OF_MPIRUN.match(thing)]
    elif not outcome.was_killed and outcome.exit_code not in expectation.codes:
        findings.wrong.append(f"exit code {outcome.exit_code}, expected {describe_codes(expectation.codes)}")
    if not outcome.was_killed:
        findings.wrong += judge_output(scenario, outcome, expectation)
    return findings


def describe_codes(codes):
    return " or ".join(map(str, sorted(codes))) if len(codes) < 10 else "any but 0"
