"""Rounds in which the network between emulated hosts fails, or a whole host freezes."""
import os
import random
import re
import signal
import subprocess
import time
from dataclasses import asdict, dataclass

from .expectations import ANY_FAILURE, LATE_LIMIT_S, WELL
from .judge import Findings, Outcome, ranks_named_by, describe_codes, exceptions_of_others, judge_good_end, \
    launcher_verdicts, numbers_in, statements
from .runner import MORE_S, START_LIMIT_S, close, job_environment, mpi_command

KINDS = ("short cut", "cut", "loss", "freeze")
CUT_S = 2  # of a short cut
LOSS = 0.02
STEPS = 1000
WELL_LIMIT_S = 90  # of a job that continues, on a busy machine
THAW_GRACE_S = 15
# For plain mpirun, which does not detect a lost host by itself: docs/internals/watchdog.md, "When a link is cut".
KEEPALIVE = [word for name, value in (("time", 4), ("intvl", 1), ("probes", 3))
             for word in ("--mca", f"oob_tcp_keepalive_{name}", str(value))]
# hororun prints the first one before the findings of the records. The second one is from the watchdog.
LOST_HOST = re.compile(r"(?:mpirun has lost the connection to host|the connection to the watchdog of node \d+ \(host) host"
                       r"(\d+)\b[^;]*(?:; |$)")
INIT_WAIT = re.compile(r"ranks? ([-\d, and]+)(?: \([^)]*\))* (?:has|have) waited [^;]*? in horo::init\(\) for "
                       r"ranks of other hosts, which have not called it")
NETWORK = ": the exchange makes no progress (the network, "
EVENT = r"no heartbeat|stopped|lost|connection|network|link|did not (send|receive|answer)|has not (sent|received)|" \
        r"never (submitted|marked|registered)|not called"


@dataclass(frozen=True)
class LinkScenario:
    number: int
    fault: str  # one of KINDS
    place: str  # "host" (its link to the others), "pair" (between two hosts) or "all"
    hosts: int
    per_node: int
    launcher: str
    targets: tuple  # indices of hosts
    after_s: float  # from when all processes run

    @property
    def ranks(self):
        return self.hosts * self.per_node

    def ranks_of(self, hosts):
        return {rank for host in hosts for rank in range(host * self.per_node, (host + 1) * self.per_node)}

    def suspect_hosts(self):
        """The hosts that a verdict may name: those behind the link. If host 0 is on neither side, both sides are allowed."""
        return set(range(self.hosts) if 0 in self.targets and self.place == "host" else self.targets)

    def suspects(self):
        """The ranks that a verdict may name."""
        return self.ranks_of(self.suspect_hosts())

    def describe(self):
        targets = " and ".join(f"host{host}" for host in self.targets)
        return f"{self.fault} of {self.place} {targets}, {self.hosts} hosts of {self.per_node}, {self.launcher}, " \
               f"after {self.after_s:.1f} s"

    def as_dict(self):
        return asdict(self)


def draw_link(seed, number):
    """The same in every run. The kinds alternate."""
    numbers = random.Random(f"links/{seed}/{number}")
    fault = KINDS[number % len(KINDS)]
    hosts = numbers.randint(2, 4)
    place = {"loss": "all", "freeze": "host"}.get(fault) or numbers.choice(("host", "pair"))
    # On host 0 the launcher itself would be frozen.
    targets = {"all": lambda: range(hosts), "pair": lambda: numbers.sample(range(hosts), 2),
               "host": lambda: [numbers.randrange(1 if fault == "freeze" else 0, hosts)]}[place]()
    return LinkScenario(number, fault, place, hosts, numbers.randint(1, 2), numbers.choice(("hororun", "mpirun")),
                        tuple(sorted(targets)), numbers.uniform(0.1, 3.0))


class Network:
    """Changes the links of a lab. The end of `with` reverts the changes."""

    def __init__(self, lab):
        self.lab = lab
        self.undo = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.restore()

    def restore(self):
        while self.undo:
            self.undo.pop()()

    def ip(self, namespace, *words):
        subprocess.run(["ip", "-n", namespace, *words], check=True)

    def cut_host(self, host):
        switch = self.lab.namespace("switch")
        self.ip(switch, "link", "set", f"host{host}", "down")

        def connect():
            self.ip(switch, "link", "set", f"host{host}", "up")
            # A request for a link address that began before would otherwise expire and fail the next connection.
            for name in self.lab.names():
                self.ip(self.lab.namespace(name), "neigh", "flush", "dev", "eth0")

        self.undo.append(connect)

    def cut_pair(self, hosts):
        for host, other in (hosts, reversed(hosts)):
            route = ("blackhole", f"10.77.0.{other + 1}/32")
            self.ip(self.lab.namespace(f"host{host}"), "route", "add", *route)
            self.undo.append(lambda host=host, route=route: self.ip(self.lab.namespace(f"host{host}"), "route", "delete",
                                                                    *route))

    def lose_packets(self, hosts):
        """Each packet that a host sends is dropped with probability LOSS: a filter draws a random number."""
        program = f"4,32 0 0 4294963256,37 1 0 {int(LOSS * (1 << 32))},6 0 0 4294967295,6 0 0 0"
        for host in hosts:
            namespace = self.lab.namespace(f"host{host}")
            for words in (["qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1"],
                          ["class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate", "1gbit",
                           "quantum", "100000"],
                          ["class", "add", "dev", "eth0", "parent", "1:", "classid", "1:2", "htb", "rate", "1gbit",
                           "quantum", "100000"],
                          ["qdisc", "add", "dev", "eth0", "parent", "1:2", "bfifo", "limit", "1"],
                          ["filter", "add", "dev", "eth0", "parent", "1:", "bpf", "bytecode", program, "flowid", "1:2"]):
                subprocess.run(["tc", "-n", namespace, *words], check=True)
            self.undo.append(lambda namespace=namespace: subprocess.run(
                ["tc", "-n", namespace, "qdisc", "delete", "dev", "eth0", "root"], check=True))

    def freeze(self, host):
        """Drops all packets too: a machine that does not run does not answer."""
        self.cut_host(host)
        pids = self.lab.processes(f"host{host}")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.undo.append(lambda: thaw(pids))


def thaw(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def disturb(network, scenario):
    if scenario.fault == "loss":
        network.lose_packets(scenario.targets)
    elif scenario.fault == "freeze":
        network.freeze(*scenario.targets)
    elif scenario.place == "pair":
        network.cut_pair(scenario.targets)
    else:
        network.cut_host(*scenario.targets)


def wait_until(condition, deadline):
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.03)
    return condition()


def started(notes):
    return notes.read_text().count("start ") if notes.exists() else 0


def run_link(programs, scenario, sandbox):
    """Runs the job to its end. Checks for leftovers while a link is cut, but only after a frozen host has resumed."""
    words = [str(programs.job), "none", "none", "", "0", "0", str(STEPS), str(sandbox.notes)]
    hosts = ",".join(f"host{host}:{scenario.per_node}" for host in range(scenario.hosts))
    command = mpi_command(programs, scenario, hosts, words, KEEPALIVE)
    with open(sandbox.folder / "output", "wb") as output, Network(sandbox.lab) as network:
        process = subprocess.Popen(sandbox.wrap(command), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=dict(job_environment(), **sandbox.environment()),
                                   start_new_session=True, cwd=sandbox.folder)
        has_ended = lambda: process.poll() is not None
        wait_until(lambda: has_ended() or started(sandbox.notes) == scenario.ranks, time.monotonic() + START_LIMIT_S)
        wait_until(has_ended, time.monotonic() + scenario.after_s)
        begin = time.monotonic()
        injected = [] if has_ended() else [(-1, scenario.place, begin)]
        if injected:
            disturb(network, scenario)
        if scenario.fault == "short cut":
            wait_until(has_ended, begin + CUT_S)
            network.restore()
        goes_on = scenario.fault in ("short cut", "loss")
        was_killed = not wait_until(has_ended, begin + (WELL_LIMIT_S if goes_on else LATE_LIMIT_S) + MORE_S)
        seconds = time.monotonic() - begin
        if scenario.fault == "cut":
            # HORO_TIMEOUT applies on each host: a host that mpirun has lost ends later than mpirun.
            wait_until(lambda: was_killed or not sandbox.left(), begin + LATE_LIMIT_S)
        if scenario.fault == "freeze":
            network.restore()
            wait_until(lambda: not sandbox.left(), time.monotonic() + THAW_GRACE_S)
        left, code, text = close(process, sandbox, was_killed)
    return Outcome(code, text, seconds, was_killed, injected, left)


def names_network(text, scenario):
    """Whether a sentence names the network and a suspect. This suffices for a cut link between two hosts that reach all
    others. A rank that has sent its part over the link may have completed the exchange, so a later rank can be named."""
    return scenario.place == "pair" and 0 not in scenario.targets and NETWORK in text and \
        bool(ranks_named_by(text) & scenario.suspects())


def names_wait_in_init(text, scenario):
    """Whether a sentence is a wait in init() that the link explains. Before init() completes, ranks detect only that ranks
    of other hosts are missing. A host without a link has missing ranks itself, unless the launcher runs there."""
    wait = INIT_WAIT.match(text)
    missing = scenario.ranks_of(scenario.targets) if scenario.place == "host" and 0 not in scenario.targets else set()
    return bool(wait) and not numbers_in(wait.group(1)) & missing


def names_link(text, scenario):
    """Whether a sentence names only ranks or hosts behind the link."""
    if names_network(text, scenario) or names_wait_in_init(text, scenario):
        return True
    lost = LOST_HOST.match(text)
    if lost and int(lost.group(1)) not in scenario.suspect_hosts():
        return False
    named = ranks_named_by(text[lost.end():] if lost else text)
    return named <= scenario.suspects() and (bool(lost) or bool(named))


def judge_link(scenario, outcome):
    findings = Findings(leftovers=list(outcome.left))
    must_go_on = scenario.fault == "loss"
    limit_s = WELL_LIMIT_S if outcome.exit_code == 0 or must_go_on else LATE_LIMIT_S
    if not outcome.injected:
        findings.wrong.append(f"the job ended before the disturbance (exit code {outcome.exit_code})")
        return findings
    if scenario.launcher == "mpirun" and scenario.fault in ("cut", "freeze"):
        judge_lost_daemons(outcome, findings)
        if outcome.only_launcher_is_left():
            return findings
    if outcome.was_killed or outcome.seconds > limit_s:
        findings.hang = f"{'not ended' if outcome.was_killed else 'ended'} after {outcome.seconds:.1f} s, " \
                        f"more than {limit_s} s"
    if outcome.was_killed:
        return findings
    codes = {"loss": WELL, "short cut": WELL | ANY_FAILURE}.get(scenario.fault, ANY_FAILURE)
    if scenario.place == "pair" and 0 not in scenario.targets:
        codes |= WELL  # An allreduce of few ranks may not use the link.
    if outcome.exit_code not in codes:
        findings.wrong.append(f"exit code {outcome.exit_code}, expected {describe_codes(codes)}")
    findings.wrong += judge_good_end(outcome) if outcome.exit_code == 0 else judge_link_verdict(scenario, outcome)
    return findings


def judge_lost_daemons(outcome, findings):
    """Plain mpirun and its daemons wait for lost connections as long as the kernel retransmits."""
    left = outcome.left_by_launcher()
    findings.leftovers = [thing for thing in findings.leftovers if thing not in left]
    if outcome.only_launcher_is_left():
        findings.end_of_mpirun = outcome.end_of_launcher()
    elif left:
        findings.end_of_mpirun = "left a daemon on a host that it had lost"


def judge_link_verdict(scenario, outcome):
    if scenario.launcher == "hororun":
        verdicts = launcher_verdicts(outcome.output)
        problems = [f"hororun gives more than one verdict: {text}" for text in verdicts[1:]]
        if not verdicts:
            return ["hororun gives no verdict"]
        if not (names_link(verdicts[0], scenario) and re.search(EVENT, verdicts[0])):
            problems.insert(0, f"hororun's verdict is not the cause: {verdicts[0]}")
        return problems
    problems = []
    if not any(names_link(text, scenario) and re.search(EVENT, text) for text in statements(outcome.output)):
        problems.append("no line names the cause")
    # A rank behind the link can reach the other ranks behind it.
    return problems + [f"a rank reports another cause: {text}"
                       for text in exceptions_of_others(outcome.output, scenario.ranks_of(scenario.targets))
                       if ranks_named_by(text) and not names_link(text, scenario)]
