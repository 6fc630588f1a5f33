"""What the samples say: regimes of the machine, statistics over rounds, who was fastest. No I/O."""
import statistics

SHARED_CACHE_GBPS = 5  # from core to core: more if the cores share a cache; the benchmarks' threshold
CALM_CORES = 0.2  # a run during which other programs kept fewer cores busy counts as undisturbed
FLOOR_FROM_BYTES = 16 << 20  # smaller buffers stay in a cache, where memory is no floor
REGIMES = {"shared": "the cores share a cache", "apart": "the cores share no cache"}
CHANGING = "changing"
DEFAULT_PEERS = ["openmpi", "mpich", "gloo"]  # those that horo is compared with at their defaults


def regime(core_to_core_gbps):
    return "shared" if core_to_core_gbps > SHARED_CACHE_GBPS else "apart"


def regime_between(before_gbps, after_gbps):
    """That of a run between two readings, or CHANGING if they disagree."""
    return regime(before_gbps) if regime(before_gbps) == regime(after_gbps) else CHANGING


def statistics_of(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values), "runs": len(values)}


def with_differences(times):
    """The times with, for each way of DDP, what is left after the backward of the same run."""
    alone = times.get("backward alone")
    if alone is None:
        return times
    return {**times, **{f"{way}, less backward": us - alone for way, us in times.items() if way.startswith("DDP")}}


def summarise(samples):
    """{regime: {case: {setup's label: {key: statistics}}}} in microseconds.

    A key is a number of bytes, as text, or a way to exchange gradients. Runs disturbed by other programs count only
    where there are no others; "calm" says which it is. Runs while the regime changed do not count.
    """
    groups = {}
    for sample in samples:
        if sample["regime"] in REGIMES:
            groups.setdefault((sample["regime"], sample["case"], sample["setup"]), []).append(sample)
    result = {}
    for (met, case, setup), group in groups.items():
        calm = [sample for sample in group if sample["foreign_cores"] < CALM_CORES]
        times = {}
        for sample in calm or group:
            for key, us in sample["us"].items():
                times.setdefault(key, []).append(us)
        result.setdefault(met, {}).setdefault(case, {})[setup] = {
            key: {**statistics_of(values), "calm": bool(calm)} for key, values in times.items()}
    return result


def streaming_gbps(samples, met):
    """The best rate of the streaming copy in a regime, GB/s per rank; 0 if it was not met."""
    return max((sample["streaming_copy_gbps"] for sample in samples if sample["regime"] == met), default=0)


def floor_us(size, gbps):
    """The time of a streaming copy of `size` bytes by all ranks at once; None where it is no floor."""
    return size / gbps / 1e3 if gbps and size >= FLOOR_FROM_BYTES else None


def missing_labels(samples, piece, labels):
    """The setups that lack a sample of this piece of work in a regime."""
    seen = {(sample["regime"], sample["setup"]) for sample in samples if sample["piece"] == piece}
    return [label for label in labels if any((met, label) not in seen for met in REGIMES)]


def never_met(samples):
    return [met for met in REGIMES if not any(sample["regime"] == met for sample in samples)]


def fastest(setups, key=None):
    """(label, key, statistics) of the least median among `setups`, {label: {key: statistics}}; None if there is none.

    With `key`, only that one is looked at.
    """
    candidates = [(label, k, entry) for label, entries in setups.items() for k, entry in entries.items()
                  if key is None or k == key]
    return min(candidates, key=lambda candidate: candidate[2]["median"], default=None)


def at_defaults(of_case):
    """Of the setups of one case: the peers at their defaults."""
    return {label: entries for label, entries in of_case.items() if label in DEFAULT_PEERS}


def of_horovod(of_case):
    """Of the setups of one case: Horovod at its defaults and at every tuning."""
    return {label: entries for label, entries in of_case.items() if label.split(":")[0] == "horovod"}


def of_openmpi(of_case):
    """Of the setups of one case: Open MPI at its defaults and at every tuning."""
    return {label: entries for label, entries in of_case.items() if label.split(":")[0] == "openmpi"}


def ratio(entry, horo):
    """How many times horo's time the entry's is; None if either is not there."""
    return entry["median"] / horo["median"] if entry and horo else None
