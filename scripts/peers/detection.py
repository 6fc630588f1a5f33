"""Detects the peers on this machine and how to start them."""
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import mpi_prefix

SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's python3-torch installs torch for it


@dataclass(frozen=True)
class Peer:
    """A peer of horo. If `version` is empty, the peer is absent, and `package` provides it."""
    name: str
    package: str = ""
    version: str = ""
    compiler: str = ""  # of an MPI library
    compile_arguments: tuple = ()  # for a library that is used beside MPI
    launcher: str = ""
    python: str = ""  # the interpreter that has torch
    family: str = ""  # of the MPI library that it is or uses: openmpi, mpich or intel
    environment: dict = field(default_factory=dict)  # of a job with an MPI of --mpi
    why_absent: str = ""


@dataclass(frozen=True)
class Setup:
    """One way to run a peer: the peer's key in the result of find_peers(), or "horo", and its settings."""
    peer: str
    settings: str = ""  # in words; empty for the defaults
    arguments: tuple = ()
    environment: dict = field(default_factory=dict)
    only_within_host: bool = False  # the settings have no effect on messages between hosts

    @property
    def label(self):
        return f"{self.peer}: {self.settings}" if self.settings else self.peer

    @property
    def is_tuned(self):
        return bool(self.settings)


def forced(algorithm, segment_bytes=0):
    """The arguments of Open MPI that select the algorithm of allreduce by its number."""
    values = {"use_dynamic_rules": 1, "allreduce_algorithm": algorithm}
    if segment_bytes:
        values["allreduce_algorithm_segmentsize"] = segment_bytes
    return tuple(word for name, value in values.items() for word in ("--mca", f"coll_tuned_{name}", str(value)))


# The C library keeps freed memory instead of returning it to the kernel, which would cause page faults later.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
OPENMPI_TUNINGS = [
    Setup("openmpi", "memory kept", (), KEEP_MEMORY, only_within_host=True),
    Setup("openmpi", "segmented ring", forced(5, 1 << 20)),
    Setup("openmpi", "segmented ring, memory kept", forced(5, 1 << 20), KEEP_MEMORY, only_within_host=True),
    Setup("openmpi", "ring, memory kept", forced(4), KEEP_MEMORY),
    Setup("openmpi", "emulated single copy", ("--mca", "btl_vader_single_copy_mechanism", "emulated"), only_within_host=True),
]
TUNINGS_OF_FAMILY = {
    "openmpi": OPENMPI_TUNINGS,
    "mpich": [Setup("mpich", "memory kept", (), KEEP_MEMORY, only_within_host=True)],
    "intel": [Setup("intel", "memory kept", (), KEEP_MEMORY, only_within_host=True),
              Setup("intel", "yields", (), {"I_MPI_THREAD_YIELD": "2"})],
}
MPI_LIBRARIES = {  # key: name, suffix of Debian's programs, text in `mpirun --version`, packages
    "openmpi": ("Open MPI", "openmpi", r"\((?:Open MPI|OpenRTE)\) (\S+)", "openmpi-bin libopenmpi-dev"),
    "mpich": ("MPICH", "mpich", r"HYDRA build details:\s+Version:\s+(\S+)", "mpich libmpich-dev"),
}
FAMILIES = {  # of the libraries of --mpi: name, text in `mpiexec --version`
    "openmpi": ("Open MPI", r"\((?:Open MPI|OpenRTE)\) (\S+)"), "mpich": ("MPICH", r"HYDRA build details:\s+Version:\s+(\S+)"),
    "intel": ("Intel MPI", r"Intel\(R\) MPI Library.*?Version (\S+)")}
ONECCL_TUNINGS = [Setup("oneccl", "without workers", (), {"CCL_WORKER_OFFLOAD": "0"}, only_within_host=True)]
TORCH_PEERS = {"gloo": "Gloo", "ddp": "PyTorch DDP"}
TORCH_PACKAGE = "python3-torch"
ONECCL = "oneccl"
HOROVOD = "horovod"
HOROVOD_TUNINGS = [
    Setup(HOROVOD, "cycle 0.1 ms", (), {"HOROVOD_CYCLE_TIME": "0.1"}),
    Setup(HOROVOD, "cycle 0.1 ms, fusion 2 MiB", (), {"HOROVOD_CYCLE_TIME": "0.1",
                                                     "HOROVOD_FUSION_THRESHOLD": str(2 << 20)}),
]
PEER_KEYS = [*MPI_LIBRARIES, *TORCH_PEERS, HOROVOD]


def output_of(command, environment=()):
    """The output of the command; empty if it cannot be started or fails."""
    try:
        done = subprocess.run(command, env={**os.environ, **dict(environment)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_mpi(name, suffix, pattern, package, which, output):
    for ending in (f".{suffix}", ""):
        compiler, launcher = which(f"mpicxx{ending}"), which(f"mpirun{ending}")
        version = re.search(pattern, output([launcher, "--version"])) if compiler and launcher else None
        if version:
            return Peer(name, package, version.group(1), compiler=compiler, launcher=launcher, family=suffix)
    return Peer(name, package, why_absent=f"there is no mpicxx and mpirun of {name}")


def find_mpi_in(prefix, output):
    """The MPI library that is installed in a folder of --mpi. Its name has the major version."""
    mpi_prefix.complete_compiler_scripts(prefix)
    compiler, launcher = (mpi_prefix.program_of(prefix, name) for name in ("mpicxx", "mpiexec"))
    if not compiler or not launcher:
        return Peer(str(prefix), why_absent=f"{prefix}/bin has no mpicxx and mpiexec")
    environment = mpi_prefix.environment_of(prefix)
    text = output([str(launcher), "--version"], environment)
    for family, (name, pattern) in FAMILIES.items():
        if version := re.search(pattern, text, re.DOTALL):
            return Peer(f"{name} {version.group(1).split('.')[0]}", "", version.group(1), compiler=str(compiler),
                        launcher=str(launcher), family=family, environment=environment)
    return Peer(str(prefix), why_absent=f"{launcher} --version names no Open MPI, MPICH or Intel MPI")


def find_oneccl(prefix, mpis):
    """oneCCL in a folder, for CPUs, with the first Intel MPI among the peers `mpis`."""
    name = "oneCCL"
    folder = next((folder for folder in (prefix / "lib/ccl/cpu/lib", prefix / "lib") if (folder / "libccl.so").exists()), None)
    config = prefix / "include/oneapi/ccl/config.h"
    if not folder or not config.exists():
        return Peer(name, why_absent=f"{prefix} has no libccl.so and include/oneapi/ccl/config.h")
    intel = next((peer for peer in mpis if peer.family == "intel"), None)
    if not intel:
        return Peer(name, why_absent="it needs an Intel MPI: --mpi intel=DIR")
    version = ".".join(re.findall(r"define CCL_(?:MAJOR|MINOR|UPDATE)_VERSION\s+(\d+)", config.read_text()))
    environment = {**intel.environment, "CCL_ROOT": str(prefix), "CCL_ATL_TRANSPORT": "mpi", "CCL_LOG_LEVEL": "error",
                   "LD_LIBRARY_PATH": f"{folder}:{Path(intel.launcher).parent.parent / 'lib'}"}
    return replace(intel, name=name, version=version, environment=environment,
                   compile_arguments=(f"-I{prefix / 'include'}", f"-L{folder}", "-lccl"))


def find_torch(name, python, output):
    question = "import torch, torch.distributed as d; print('torch', torch.__version__, d.is_available())"
    candidates = [python] if python else [sys.executable, SYSTEM_PYTHON]
    for candidate in candidates:
        words = output([candidate, "-c", question]).split()
        if words[-1:] == ["True"]:
            return Peer(name, TORCH_PACKAGE, f"torch {words[-2]}", python=candidate)
    return Peer(name, TORCH_PACKAGE, why_absent=f"{' and '.join(dict.fromkeys(candidates))}: no torch with "
                                                "torch.distributed; --python names another interpreter")


def find_horovod(python, launcher, output):
    """`launcher` is the mpirun of Open MPI. Horovod is assumed to be built for it."""
    question = "import horovod, horovod.torch as h; print('horovod', horovod.__version__, h.mpi_built())"
    if not launcher:
        return Peer("Horovod", why_absent="there is no mpirun of Open MPI to start it")
    candidates = [python] if python else [sys.executable, SYSTEM_PYTHON]
    for candidate in candidates:
        words = output([candidate, "-c", question]).split()
        if words[-1:] == ["True"]:
            return Peer("Horovod", "", words[-2], python=candidate, launcher=launcher, family="openmpi")
    return Peer("Horovod", why_absent=f"{' and '.join(dict.fromkeys(candidates))}: no horovod.torch built with MPI; "
                                      "--horovod-python names another interpreter")


def find_peers(chosen, python=None, horovod_python=None, mpis=(), oneccl=None, which=shutil.which, output=output_of):
    """Every peer by its key: those of PEER_KEYS, then `mpis`, pairs of a key and a folder, then oneCCL in the folder `oneccl`. Those of
    PEER_KEYS that are not in `chosen` are marked as absent."""
    peers = {}
    for key in PEER_KEYS:
        name = MPI_LIBRARIES[key][0] if key in MPI_LIBRARIES else TORCH_PEERS.get(key, "Horovod")
        if key not in chosen:
            peers[key] = Peer(name, why_absent="left out by --peers")
        elif key in MPI_LIBRARIES:
            peers[key] = find_mpi(*MPI_LIBRARIES[key], which, output)
        elif key == HOROVOD:
            launcher = find_mpi(*MPI_LIBRARIES["openmpi"], which, output).launcher
            peers[key] = find_horovod(horovod_python, launcher, output)
        else:
            peers[key] = find_torch(name, python, output)
    peers.update({key: find_mpi_in(prefix, output) for key, prefix in mpis})
    if oneccl:
        peers[ONECCL] = find_oneccl(oneccl, peers.values())
    return peers


def absence(peer):
    """One sentence about an absent peer."""
    remedy = f"; apt-get install {peer.package}" if peer.package else ""
    return f"{peer.name} is absent: {peer.why_absent}{remedy}"


def setups_of(peers, on_hosts=False):
    """horo and every present peer, at its defaults and at each tuning that has an effect there."""
    setups = [Setup("horo")]
    if on_hosts:
        setups.append(Setup("horo", "sockets", (), {"HORO_MESSAGES": "sockets"}))
    for key, peer in peers.items():
        if peer.version:
            setups.append(Setup(key))
            of_key = {HOROVOD: HOROVOD_TUNINGS, ONECCL: ONECCL_TUNINGS}
            tunings = of_key.get(key) or TUNINGS_OF_FAMILY.get(peer.family, [])
            setups += [replace(tuning, peer=key) for tuning in tunings if not (on_hosts and tuning.only_within_host)]
    return setups


def takes_part(setup, case):
    """DDP and Horovod exchange gradients only."""
    return setup.peer not in ("ddp", HOROVOD) or case != "allreduce"
