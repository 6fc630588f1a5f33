"""Evaluates the samples: regimes of the machine, statistics over rounds, the fastest peer. No I/O."""
import statistics

SHARED_CACHE_GBPS = 5  # from core to core: more if the cores share a cache; the benchmarks' threshold
CALM_CORES = 0.2  # a run during which other programs kept fewer cores busy counts as undisturbed
FLOOR_FROM_BYTES = 16 << 20  # smaller buffers stay in a cache, so the memory rate is no lower bound
REGIMES = {"shared": "the cores share a cache", "apart": "the cores share no cache"}
CHANGING = "changing"
OTHERS = ["horo", "ddp", "horovod"]  # exchange gradients, or are compared separately; the others are compared at their defaults


def regime(core_to_core_gbps):
    return "shared" if core_to_core_gbps > SHARED_CACHE_GBPS else "apart"


def regime_between(before_gbps, after_gbps):
    """The regime of a run between two readings, or CHANGING if they differ."""
    return regime(before_gbps) if regime(before_gbps) == regime(after_gbps) else CHANGING


def statistics_of(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values), "runs": len(values)}


def with_differences(times):
    """The times, and for each way of DDP the time minus the backward of the same run."""
    alone = times.get("backward alone")
    if alone is None:
        return times
    return {**times, **{f"{way}, less backward": us - alone for way, us in times.items() if way.startswith("DDP")}}


def summarise(samples):
    """{regime: {case: {setup's label: {key: statistics}}}} in microseconds.

    A key is a number of bytes, as text, or a way to exchange gradients. Runs disturbed by other programs are
    used only if there are no undisturbed ones ("calm" is then false). Runs during which the regime changed are not used.
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
    """The best rate of the streaming copy in a regime, in GB/s per rank; 0 if no run was in that regime."""
    return max((sample["streaming_copy_gbps"] for sample in samples if sample["regime"] == met), default=0)


def copy_floor_us(size, gbps):
    """The time of a streaming copy of `size` bytes by all ranks at once; None if it is not a lower bound."""
    return size / gbps / 1e3 if gbps and size >= FLOOR_FROM_BYTES else None


def link_floor_us(size, hosts, gbps):
    """The time in which links of `gbps` carry an allreduce of `size` bytes; None if their rate is not limited.

    In each half of the allreduce each host sends and receives the (hosts - 1) / hosts of the values that other hosts sum.
    """
    return 2 * (hosts - 1) / hosts * size / gbps / 1e3 if gbps else None


def outruns_links(times, bytes_of_set, hosts, gbps):
    """Whether a run was faster than the links between the hosts allow, so that its messages took another path.

    `times`: {key: microseconds}; a key that is no number of bytes stands for a set of `bytes_of_set` bytes. The queue of a link passes
    short messages at once, so only large ones count.
    """
    for key, us in times.items():
        if "backward" in key:
            continue
        size = int(key) if key.isdigit() else bytes_of_set
        floor = link_floor_us(size, hosts, gbps)
        if floor and size >= 1 << 20 and us < 0.8 * floor:
            return True
    return False


def missing_labels(samples, piece, labels):
    """The setups that lack a sample of this piece of work in a regime."""
    seen = {(sample["regime"], sample["setup"]) for sample in samples if sample["piece"] == piece}
    return [label for label in labels if any((met, label) not in seen for met in REGIMES)]


def never_met(samples):
    return [met for met in REGIMES if not any(sample["regime"] == met for sample in samples)]


def fastest(setups, key=None):
    """(label, key, statistics) with the least median among `setups`, {label: {key: statistics}}; None if there is none.

    With `key`, only entries with that key are compared.
    """
    candidates = [(label, k, entry) for label, entries in setups.items() for k, entry in entries.items()
                  if key is None or k == key]
    return min(candidates, key=lambda candidate: candidate[2]["median"], default=None)


def at_defaults(of_case):
    """The setups of one case that are peers at their defaults."""
    return {label: entries for label, entries in of_case.items() if ":" not in label and label not in OTHERS}


def of_horovod(of_case):
    """The setups of one case that are Horovod, at its defaults and at every tuning."""
    return {label: entries for label, entries in of_case.items() if label.split(":")[0] == "horovod"}


def of_mpi(of_case):
    """The setups of one case that are an MPI library, at its defaults and at every tuning."""
    return {label: entries for label, entries in of_case.items() if label.split(":")[0] not in (*OTHERS, "gloo", "oneccl")}


def ratio(entry, horo):
    """The time of the entry divided by horo's; None if either is missing."""
    return entry["median"] / horo["median"] if entry and horo else None
