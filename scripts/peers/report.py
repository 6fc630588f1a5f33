"""Writes the summary as markdown tables and a picture."""
from peers import detection, goals, summary

FLOOR_OF_MEMORY = "the time of the fastest streaming copy of the bytes by all ranks at once, for buffers that no cache holds"
FLOOR_OF_LINKS = "the time in which the links carry the bytes, at their rate"
UNITS = [("Mi", 1 << 20), ("Ki", 1 << 10)]
LINE_STYLES = {  # by name in lines_of(), so that a peer has one colour in all panels
    "horo": {"color": "black", "linewidth": 2.6},
    "horo, arena": {"color": "black", "linewidth": 2.6, "linestyle": "--"}, "Open MPI": {"color": "tab:blue"},
    "MPICH": {"color": "tab:green"}, "Gloo": {"color": "tab:red"}, "MPI, best settings": {"color": "tab:blue", "linestyle": "--"},
    "floor": {"color": "grey", "linestyle": ":"}}


def size_name(size):
    """A number of bytes in the format of the options: 4, 16Ki, 64Mi."""
    for unit, factor in UNITS:
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(entry, scale=1.0):
    """median (min–max), with ~ where other programs disturbed every run; "–" without an entry."""
    if entry is None:
        return "–"
    low, median, high = (number(entry[key] * scale) for key in ("min", "median", "max"))
    return f"{'' if entry['calm'] else '~'}{median} ({low}–{high})"


def ratio_cell(entry, horo, who=""):
    """The time of the entry divided by horo's, with ~ if other programs disturbed every run of either."""
    ratio = summary.ratio(entry, horo)
    if ratio is None:
        return "–"
    return f"{'' if entry['calm'] and horo['calm'] else '~'}{ratio:.2f}" + (f" ({who})" if who else "")


def table(header, rows):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in rows)]


def settings_of(label):
    """The settings in a label; "defaults" if it has none."""
    return label.partition(": ")[2] or "defaults"


def setup_of(label, peers):
    """The name of the peer in a label, and its settings."""
    return f"{peers[label.partition(':')[0]].name}, {settings_of(label)}"


def horo_settings(of_case):
    """The labels of horo with settings other than the defaults."""
    return [label for label in of_case if label.startswith("horo: ")]


def compared_keys(peers):
    """The keys of the peers with which horo is compared at their defaults."""
    return [key for key in peers if key not in summary.OTHERS]


def floor_of(result, met):
    """The function from a number of bytes to the least time of an allreduce in a regime: of the links between hosts, or of the memory."""
    if result["hosts"]:
        return lambda size: summary.link_floor_us(size, result["hosts"], result["link_gbps"])
    return lambda size: summary.copy_floor_us(size, result["streaming_copy_gbps"][met])


def allreduce_table(of_case, sizes, peers, floor_us):
    """One row per size; microseconds."""
    shown = [key for key in compared_keys(peers) if peers[key].version]
    absent = [key for key in compared_keys(peers) if not peers[key].version]
    tuned = horo_settings(of_case)
    header = ["bytes", "horo", "horo, arena", *(f"horo, {settings_of(label)}" for label in tuned), *(peers[key].name for key in shown),
              *(f"{peers[key].name}: absent" for key in absent), "fastest of them / horo", "MPI, best settings",
              "that / horo", "floor"]
    rows = []
    for size in sizes:
        key = str(size)
        horo = of_case.get("horo", {}).get(key)
        arena = of_case.get("horo", {}).get(f"arena{key}")
        entries = [of_case.get(peer, {}).get(key) for peer in shown]
        first = summary.fastest(summary.at_defaults(of_case), key)
        best = summary.fastest(summary.of_mpi(of_case), key)
        floor = floor_us(size)
        settings = [of_case[label].get(key) for label in tuned]
        rows.append([size_name(size), cell(horo), cell(arena), *map(cell, settings), *map(cell, entries), *("–" for _ in absent),
                     ratio_cell(first[2], horo, peers[first[0]].name) if first else "–",
                     f"{cell(best[2])}, {setup_of(best[0], peers)}" if best else "–",
                     ratio_cell(best[2], horo) if best else "–",
                     number(floor) if floor else "–"])
    return table(header, rows)


def way_rows(regime_cases, models, peers):
    """A row for each way of each peer at its defaults; milliseconds."""
    rows = []
    for key in peers:
        if not peers[key].version:
            rows.append([f"{peers[key].name}: absent", *("–" for _ in models)])
        ways = dict.fromkeys(way for model in models for way in regime_cases.get(model, {}).get(key, {}))
        for way in ways:
            name = way if way.startswith("DDP") else f"{peers[key].name}, {way}"
            rows.append([name, *(cell(regime_cases.get(model, {}).get(key, {}).get(way), 1e-3) for model in models)])
    return rows


def comparison(of_case, peers):
    """One model's comparisons with horo: fastest default, best of Open MPI, that ratio, DDP's, Horovod's."""
    horo = of_case.get("horo", {}).get("")
    first = summary.fastest(summary.at_defaults(of_case))
    best = summary.fastest(summary.of_mpi(of_case))
    ddp = summary.fastest({"ddp": {way: entry for way, entry in of_case.get("ddp", {}).items()
                                   if way.endswith("less backward")}})
    horovod = summary.fastest(summary.of_horovod(of_case))
    return [ratio_cell(first[2], horo, f"{peers[first[0]].name}, {first[1]}") if first else "–",
            f"{cell(best[2], 1e-3)}, {setup_of(best[0], peers)}, {best[1]}" if best else "–",
            ratio_cell(best[2], horo) if best else "–",
            ratio_cell(ddp[2], horo) if ddp else "–",
            ratio_cell(horovod[2], horo, f"{settings_of(horovod[0])}, {horovod[1]}") if horovod else "–"]


def gradients_table(regime_cases, models, peers, floor_us, bytes_of):
    """One column per model; milliseconds."""
    header = ["a step's gradients", *(f"{model}, {bytes_of[model] / 1e6:.0f} MB" for model in models)]
    horo, arena = ([cell(regime_cases.get(model, {}).get("horo", {}).get(key), 1e-3) for model in models]
                   for key in ("", "arena"))
    floors = [floor_us(bytes_of[model]) for model in models]
    compared = [comparison(regime_cases.get(model, {}), peers) for model in models]
    names = ["fastest peer at its defaults / horo", "best settings and way of an MPI", "that / horo",
             "DDP, the better, less backward / horo", "Horovod, best settings and way / horo"]
    settings = dict.fromkeys(label for model in models for label in horo_settings(regime_cases.get(model, {})))
    tuned = [[f"horo, {settings_of(label)}",
              *(cell(regime_cases.get(model, {}).get(label, {}).get(""), 1e-3) for model in models)] for label in settings]
    return table(header, [["horo", *horo], ["horo, arena", *arena], *tuned, *way_rows(regime_cases, models, peers),
                          ["floor", *(number(us / 1e3) if us else "–" for us in floors)],
                          *([name, *cells] for name, cells in zip(names, zip(*compared)))])


def goals_table(regime_cases, wanted, sizes, models, peers):
    """A row for each size and model of a goal."""
    rows = []
    for what, ratio, found in goals.results(wanted, regime_cases, sizes, models):
        shown = f"{'' if found[2] else '~'}{found[0]:.2f} ({peers[found[1]].name})" if found else "–"
        rows.append([what if isinstance(what, str) else size_name(what), f"{ratio:.2f}", shown,
                     goals.verdict(ratio, found)])
    return table(["what", "at least", "fastest peer at its defaults / horo", ""], rows)


def markdown(result):
    """The whole report; `result` is what compare_peers.py writes as JSON, with `peers` as Peer objects."""
    peers = result["peers"]
    machine = result["machine"]
    foreign = result["foreign_cores"]
    where = f" on {result['hosts']} emulated hosts with links of {result['rate']}" if result["hosts"] else ""
    lines = [f"{result['ranks']} ranks{where}, float32, sum in place; {result['rounds']} round(s); {result['date']}", "",
             f"Command: `{result['command']}`", "",
             f"Machine: {machine['cpu']}, {machine['cores']} cores, {machine['system']}. Meanwhile other programs "
             f"kept {foreign['median']:.2f} cores busy (median of {foreign['runs']} runs; at most "
             f"{foreign['max']:.2f}).", "",
             "Peers: " + ", ".join(f"{peer.name} {peer.version}" for peer in peers.values() if peer.version) + "."]
    lines += [f"- **{detection.absence(peer)}**" for peer in peers.values() if not peer.version]
    lines += [f"- **{label} failed and was not run again**: {why}" for label, why in result["failed"].items()]
    lines += ["", "Each figure is the median over rounds of the medians of the runs, with minimum and maximum. Each rank writes its buffers before each sample. ~: other "
              "programs disturbed every run, so compare the figure with care. Floor: "
              f"{FLOOR_OF_LINKS if result['hosts'] else FLOOR_OF_MEMORY}. Gloo is measured through PyTorch's all_reduce, over "
              f"{'the links' if result['hosts'] else 'the loopback'}. horo, arena: on memory of Context::allocate."]
    if result["models"]:
        lines += ["The time of DDP includes its backward, which only adds a ready gradient to that of each "
                  "parameter; \"less backward\" is the time minus that of the backward alone. horo and DDP average; "
                  "the others sum."]
    for met, words in summary.REGIMES.items():
        cases = result["summary"].get(met)
        if cases is None:
            lines += ["", f"## Never observed: {words}"]
            continue
        gbps = result["streaming_copy_gbps"][met]
        floor_us = floor_of(result, met)
        lines += ["", f"## {words[0].upper()}{words[1:]}",
                  f"Runs in this regime: {result['runs_by_regime'][met]}. Fastest streaming copy by all ranks at "
                  f"once: {gbps:.1f} GB/s per rank."]
        if result["sizes"]:
            lines += ["", "### One allreduce (µs)",
                      *allreduce_table(cases.get("allreduce", {}), result["sizes"], peers, floor_us)]
        if result["models"]:
            lines += ["", "### The gradients of a step, until all are exchanged (ms)",
                      *gradients_table(cases, result["models"], peers, floor_us, result["model_bytes"])]
        if result["goals"]:
            lines += ["", "### Goals", *goals_table(cases, result["goals"], result["sizes"], result["models"], peers)]
    changing = result["runs_by_regime"].get(summary.CHANGING, 0)
    if changing:
        lines += ["", f"The regime changed during {changing} more run(s), which are not counted."]
    return "\n".join(lines) + "\n"


def lines_of(of_case, sizes, peers, floor_us):
    """The lines of the picture for one regime: (name, [(bytes, us)]) for each."""
    horo = of_case.get("horo", {})
    arena = {key.removeprefix("arena"): entry for key, entry in horo.items() if key.startswith("arena")}
    tuned = {f"horo, {settings_of(label)}": of_case[label] for label in horo_settings(of_case)}
    entries = {"horo": horo, "horo, arena": arena, **tuned, **{peers[key].name: of_case.get(key, {}) for key in
                                                   compared_keys(peers)}}
    lines = [(name, [(size, times[str(size)]["median"]) for size in sizes if str(size) in times])
             for name, times in entries.items()]
    best = [(size, summary.fastest(summary.of_mpi(of_case), str(size))) for size in sizes]
    lines.append(("MPI, best settings", [(size, found[2]["median"]) for size, found in best if found]))
    floors = [(size, floor_us(size)) for size in sizes]
    lines.append(("floor", [(size, us) for size, us in floors if us]))
    return [(name, points) for name, points in lines if points]


def draw(pyplot, result, path):
    """Draws time over bytes, one panel per regime with results. Returns whether there was anything to draw."""
    met = [name for name in summary.REGIMES if result["summary"].get(name, {}).get("allreduce")]
    if not met:
        return False
    figure, panels = pyplot.subplots(1, len(met), figsize=(6.2 * len(met), 4.6), sharey=True, squeeze=False)
    for panel, name in zip(panels[0], met):
        for line, points in lines_of(result["summary"][name]["allreduce"], result["sizes"], result["peers"],
                                     floor_of(result, name)):
            panel.plot(*zip(*points), marker="o", markersize=4, label=line, **LINE_STYLES.get(line, {}))
        panel.set(xscale="log", yscale="log", xlabel="bytes", title=summary.REGIMES[name])
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    panels[0][0].set(ylabel="µs")
    hosts = f"{result['hosts']} emulated hosts, " if result["hosts"] else ""
    figure.suptitle(f"Allreduce, float32, {result['ranks']} ranks on {hosts}{result['machine']['cores']} cores")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True
