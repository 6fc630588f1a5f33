"""Runs a tutorial: its blocks in their order, in one folder.

- A block after `<!-- file: NAME -->` is saved there as NAME.
- A sh block runs, with the variables that earlier blocks export, and succeeds. After `<!-- fails -->` it fails.
- A block after `<!-- output -->` has lines of the output of the sh block before it, in their order; `...` is any text.
- A block after `<!-- not run: REASON -->` is not used.
$HOME/horo is an installation of horo, and the folder looks like the repository.
"""
import os
import re
import subprocess
from pathlib import Path

STATE = ".exported"


class Session:
    """The folder of a tutorial, and what its commands find there."""

    def __init__(self, folder, prefix, python, source):
        self.folder = Path(folder)
        home = self.folder / ".home"
        (home / "bin").mkdir(parents=True)
        (home / "horo").symlink_to(prefix)
        # The packages of an interpreter in a virtual environment are found by its own path only.
        wrapper = home / "bin/python3"
        wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        wrapper.chmod(0o755)
        self.environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}",
                            "PYTHONPATH": f"{source}/horo/python", "LD_LIBRARY_PATH": f"{home}/horo/lib", "OMP_NUM_THREADS": "1",
                            "CLUSTER_LAB": f"docs{os.getpid()}"}

    def run(self, text):
        """Runs commands. Returns the exit code and the output."""
        script = f"if [ -f {STATE} ]; then . ./{STATE}; fi\ntrap 'export -p > {STATE}' EXIT\n{text}"
        try:
            run = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=self.environment, timeout=100,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        except subprocess.TimeoutExpired as error:
            return "none after 100 s", (error.stdout or b"").decode(errors="replace")
        return run.returncode, run.stdout


def missing_lines(expected, output):
    """Returns the lines of `expected` that `output` does not have after the line found for the one before."""
    missing, rest = [], output.splitlines()
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.compile(r"\s+".join(".*".join(map(re.escape, word.split("..."))) for word in line.split()))
        found = next((number for number, candidate in enumerate(rest) if pattern.search(candidate)), None)
        if found is None:
            missing.append(line)
        else:
            rest = rest[found + 1:]
    return missing


def problems_of(blocks, session):
    """Runs the blocks of a tutorial. Returns what is wrong; ends at the first command with an unexpected exit code."""
    problems, output = [], ""
    for block in blocks:
        if name := re.fullmatch(r"file: (\S+)", block.marker):
            file = session.folder / name[1]
            if file.is_symlink():
                raise ValueError(f"{block.place}: {name[1]} is a file of the repository")
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.text)
        elif block.marker == "output":
            problems += [f"{block.place}: the output has no line '{line}':\n{output[-3000:]}"
                         for line in missing_lines(block.text, output)]
        elif block.language == "sh" and not block.marker.startswith("not run"):
            status, output = session.run(block.text)
            if isinstance(status, str) or (status != 0) != (block.marker == "fails"):
                return [*problems, f"{block.place}: exit code {status}:\n{output[-3000:]}"]
    return problems
