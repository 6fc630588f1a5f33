"""Runs the checks of the test scripts that start jobs, and prints the results."""
import contextlib
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# The jobs of these tests are idle most of the time, so several run concurrently.
CONCURRENT_JOBS = 3


def report(name, problems, output):
    """Prints the result of one check, and the job's output if there are problems. Returns True if there are none."""
    lines = f"{name}{''.join(f'; PROBLEM: {problem}' for problem in problems)}\n"
    sys.stdout.write(lines + output + "\n" if problems else lines)
    sys.stdout.flush()
    return not problems


@contextlib.contextmanager
def shared_session_directory():
    """Gives the mpiruns of this process a session directory that none of them removes.

    All mpiruns of a user share one directory per host. The one that ends last removes it. An mpirun that starts at that
    moment fails with "orte_session_dir failed".
    """
    with tempfile.TemporaryDirectory(prefix="horo-mpi-", ignore_cleanup_errors=True) as base:
        os.makedirs(os.path.join(base, f"ompi.{os.uname().nodename}.{os.geteuid()}", "keep"))
        os.environ["OMPI_MCA_orte_tmpdir_base"] = base
        try:
            yield
        finally:
            del os.environ["OMPI_MCA_orte_tmpdir_base"]


def run_all(checks):
    """Runs functions without parameters concurrently. Returns the exit code: 0 if all of them return True."""
    with shared_session_directory(), ThreadPoolExecutor(CONCURRENT_JOBS) as pool:
        results = list(pool.map(lambda check: check(), checks))
    print(f"{sum(results)} of {len(results)} passed", flush=True)
    return 0 if all(results) else 1
