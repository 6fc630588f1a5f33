"""Where the ranks of a run are, this machine or emulated hosts, and the commands that start a job there.

Every command is a pair of its words and the environment variables that it needs in addition.
"""
import os
import re
import subprocess
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent / "cluster_lab.sh"
LAB_NAME = "compare-peers"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
BITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


class PlaceError(Exception):
    pass


class ThisMachine:
    """All ranks on this machine."""
    hosts = 0
    link_gbps = 0
    interface = "lo"  # for Gloo

    def __init__(self, ranks):
        self.ranks = ranks

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def horo_job(self, launcher, program, environment):
        return [launcher, "-np", str(self.ranks), *program], environment

    def mpi_job(self, peer, arguments, program, environment):
        command = [peer.launcher, "-np", str(self.ranks), *arguments]
        # The environment of an MPI library of --mpi permits it already.
        if peer.family == "openmpi" and not peer.environment and self.ranks > len(os.sched_getaffinity(0)):
            command.append("--oversubscribe")
        return [*command, *program], {**AS_ROOT, **peer.environment, **environment}

    def process(self, _rank, program, environment):
        return program, environment


class EmulatedHosts:
    """The same number of ranks on each of several hosts of cluster_lab.sh. `folder` holds a temporary script."""
    interface = "eth0"

    def __init__(self, ranks, hosts, rate, folder):
        self.ranks = ranks
        self.hosts = hosts
        self.rate = rate
        self.agent = Path(folder) / "lab_agent"  # what MPICH and Intel MPI call instead of ssh

    def __enter__(self):
        self.agent.write_text(f'#!/bin/sh\nexec {LAB} agent "$@"\n')
        self.agent.chmod(0o755)
        done = self.call("up", str(self.hosts), self.rate)
        if done.returncode:
            raise PlaceError(done.stderr.strip())
        return self

    def __exit__(self, *_):
        self.call("down")

    def call(self, *words):
        return subprocess.run([LAB, *words], env={**os.environ, "CLUSTER_LAB": LAB_NAME}, stderr=subprocess.PIPE, text=True,
                              check=False)

    @property
    def ranks_per_host(self):
        return self.ranks // self.hosts

    def on(self, host, program, environment):
        return [str(LAB), "exec", f"host{host}", *program], {**environment, "CLUSTER_LAB": LAB_NAME}

    def horo_job(self, _launcher, program, environment):
        """The programs of horo are started by the mpirun of cluster_lab.sh."""
        return [str(LAB), "run", str(self.ranks_per_host), *exports(environment), "--bind-to", "none", "--", *program], \
            {**environment, "CLUSTER_LAB": LAB_NAME}

    def mpi_job(self, peer, arguments, program, environment):
        names = [f"host{host}" for host in range(self.hosts)]
        if peer.family == "openmpi":
            places = ",".join(f"{name}:{self.ranks_per_host}" for name in names)
            # Each host has the same cores, so ranks that are bound to the first core of their host would share one.
            more = ["--host", places, "--bind-to", "none", *exports(environment)]
            network = {"PRTE_MCA_plm_ssh_agent": "cluster_lab.sh agent", "PRTE_MCA_prte_if_include": self.interface}
        else:
            more = ["-launcher", "rsh", "-launcher-exec", str(self.agent), "-iface", self.interface, "-hosts", ",".join(names),
                    "-ppn", str(self.ranks_per_host)]
            # UCX would use shared memory between the hosts, which are one machine. oneCCL would bind one thread of each rank to one core.
            network = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": self.interface, "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": self.interface,
                       "I_MPI_FABRICS": "shm:ofi", "I_MPI_PIN": "off", "CCL_WORKER_OFFLOAD": "0"}
        command = [peer.launcher, "-np", str(self.ranks), *arguments, *more, *program]
        return self.on(0, command, {**AS_ROOT, **peer.environment, **network, **environment})

    def process(self, rank, program, environment):
        return self.on(rank // self.ranks_per_host, program, environment)

    @property
    def link_gbps(self):
        """Each direction of each link, in gigabytes per second; 0 if the rate is not limited."""
        words = re.fullmatch(r"([0-9]+)([kmg]?)bit", self.rate)
        return int(words[1]) * BITS[words[2]] / 8e9 if words else 0


def exports(environment):
    """The arguments with which Open MPI passes variables to ranks on other hosts."""
    return [word for name, value in environment.items() for word in ("-x", f"{name}={value}")]
