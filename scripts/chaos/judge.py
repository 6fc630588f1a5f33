"""Whether a job ended as documented: in time, with the right exit code, the true cause, and nothing left."""
import re
from dataclasses import dataclass, field

from .expectations import expectation_of

RANKS = re.compile(r"\branks? (\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)")
LAUNCHER_LINE = re.compile(r"^hororun: (.*)")
SAME_MOMENT_S = 1
# What hororun prints besides the verdict.
NO_VERDICT = re.compile(r"^(more: |stopped by signal|note: )")
LOG_LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ (?:warning|error) \[[^]]*\] (.*)")
EXCEPTION_LINE = re.compile(r"^chaos_job: rank (\d+): (.*)")
MPIRUN_SIGNAL = re.compile(r"noticed that process rank (\d+) .*exited on signal (\d+)")
MPIRUN_CODE = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+)")
# "ranks 0-1 (host b, pids 6, 7) have waited 3s in horo::init() for rank 2, ...": rank 2 is the cause.
WAITING = re.compile(r"^ranks? [-\d, and]+ (?:\([^)]*\) )?(?:has|have) waited [^;]*? for (?=ranks? \d)")


@dataclass
class Outcome:
    """What the runner saw."""
    exit_code: int
    output: str
    seconds: float  # from the first fault, or else from the start, to the end
    was_killed: bool  # by the runner, as it did not end
    injected: list = field(default_factory=list)  # (rank, where, time in seconds), in order of time
    left: list = field(default_factory=list)

    def failed_ranks(self):
        return {rank for rank, _, _ in self.injected}

    def first_causes(self):
        """The ranks that failed first; which of several within a moment was the first, nobody can tell."""
        return {rank for rank, _, at in self.injected if at - self.injected[0][2] <= SAME_MOMENT_S}


@dataclass
class Findings:
    hang: str = ""
    leftovers: list = field(default_factory=list)
    wrong: list = field(default_factory=list)

    def is_good(self):
        return not (self.hang or self.leftovers or self.wrong)

    def describe(self):
        return ([f"HANG: {self.hang}"] if self.hang else []) + [f"LEFT: {thing}" for thing in self.leftovers] \
            + [f"WRONG: {problem}" for problem in self.wrong]


def numbers_in(text):
    """{0, 2, 3} of "0 and 2-3"."""
    found = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return found


def blamed_by(text):
    """The ranks that a sentence names as the cause; empty: it names none."""
    match = RANKS.search(WAITING.sub("", text, count=1))
    return numbers_in(match.group(1)) if match else set()


def launcher_verdicts(output):
    """hororun's lines about what ended the job."""
    lines = (LAUNCHER_LINE.match(line) for line in output.splitlines())
    return [line.group(1) for line in lines if line and not NO_VERDICT.match(line.group(1))]


def exceptions_of_others(output, victims):
    """What ranks that are not victims printed as the reason of their end."""
    lines = (EXCEPTION_LINE.match(line) for line in output.splitlines())
    return [line.group(2) for line in lines if line and int(line.group(1)) not in victims]


def statements(output):
    """All sentences about a cause in the output of a job without hororun, mpirun's own among them."""
    found = [f"rank {rank} ended with signal {signal}" for rank, signal in MPIRUN_SIGNAL.findall(output)]
    found += [f"rank {rank} ended with exit code {code}" for rank, code in MPIRUN_CODE.findall(output)]
    for line in output.splitlines():
        text = line
        if match := LOG_LINE.match(line):
            text = match.group(1)
        elif match := EXCEPTION_LINE.match(line):
            text = match.group(2)
        found.append(text)
    return found


def blames_only_failed(text, outcome):
    blamed = blamed_by(text)
    return bool(blamed) and blamed <= outcome.failed_ranks()


def names_cause(text, outcome, event):
    return blames_only_failed(text, outcome) and bool(blamed_by(text) & outcome.first_causes()) \
        and re.search(event, text) is not None


def judge_hororun(outcome, event):
    verdicts = [text for text in launcher_verdicts(outcome.output) if blamed_by(text) or "nothing is wrong" in text]
    if not verdicts:
        return ["hororun names no rank"]
    problems = []
    if not names_cause(verdicts[0], outcome, event):
        problems.append(f"hororun's verdict is not the cause: {verdicts[0]}")
    return problems + [f"hororun contradicts the cause: {text}" for text in verdicts[1:]
                       if not blames_only_failed(text, outcome)]


def judge_mpirun(outcome, event):
    problems = []
    if not any(names_cause(text, outcome, event) for text in statements(outcome.output)):
        problems.append("no line names the cause")
    return problems + [f"a rank blames another cause: {text}"
                       for text in exceptions_of_others(outcome.output, outcome.failed_ranks())
                       if blamed_by(text) and not blames_only_failed(text, outcome)]


def judge_verdict(scenario, outcome, expectation):
    if not expectation.event:
        return []
    judged = judge_hororun if scenario.launcher == "hororun" else judge_mpirun
    problems = judged(outcome, expectation.event)
    texts = [expectation.text.format(victim=victim) for victim in sorted(outcome.first_causes())]
    if expectation.text and not any(re.search(text, outcome.output) for text in texts):
        problems.append(f"'{' or '.join(texts)}' is not in the output")
    return problems


def judge(scenario, outcome):
    """The findings of one round."""
    expectation = expectation_of(scenario)
    findings = Findings(leftovers=list(outcome.left))
    if not outcome.injected:
        findings.wrong.append(f"the fault did not happen (exit code {outcome.exit_code})")
        return findings
    if outcome.was_killed or outcome.seconds > expectation.limit_s:
        findings.hang = f"{'not ended' if outcome.was_killed else 'ended'} after {outcome.seconds:.1f} s, " \
                        f"more than {expectation.limit_s} s"
    if not outcome.was_killed and outcome.exit_code not in expectation.codes:
        findings.wrong.append(f"exit code {outcome.exit_code}, expected {describe_codes(expectation.codes)}")
    if not outcome.was_killed:
        findings.wrong += judge_verdict(scenario, outcome, expectation)
    return findings


def describe_codes(codes):
    return " or ".join(map(str, sorted(codes))) if len(codes) < 10 else "any but 0"
