"""Checks that the programs and options in the shell commands of the documentation exist."""
import json
import re
import shlex
import subprocess
from pathlib import Path

import docs_pages

# External programs. Their options are not checked.
EXTERNAL_PROGRAMS = {
    "apt-get", "c++", "cat", "cc", "cd", "chmod", "conan", "conda", "cpack", "curl", "dmesg", "dnf", "docker", "echo", "export", "g++", "gdb", "git",
    "grep", "hostname", "iperf3", "kill", "ldd", "ls", "lslocks", "micromamba", "mkdir", "mkfifo", "module", "mpicc", "mpicxx", "node_exporter", "nsys",
    "perf", "pip", "ping", "salloc", "sbatch", "scp", "sinfo", "spack", "srun", "ssh", "ssh-copy-id", "ssh-keygen", "sudo",
    "tar", "ulimit", "wget",
}
# Placeholders for programs of the reader.
READER_PROGRAMS = {"my_trainer", "./my_trainer", "build/my_trainer"}
# The marker of a block that the test does not run, for example <!-- not run: needs Slurm -->.
NOT_RUN = re.compile(r"not run: (needs (several hosts|Slurm|a GPU|packages|root|a network|your program|a job)|takes minutes)$")


def simple_commands(text):
    """Returns the commands of a shell text as lists of words, without leading assignments and redirections."""
    text = text.replace("\\\n", " ")
    commands = []
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words, skip = [], False
        for word in [*lexer, ";"]:
            if skip:
                skip = False
            elif set(word) <= set("<>&") and set(word) & set("<>"):
                skip = True
            elif set(word) <= set(";|&"):
                while words and re.match(r"[A-Za-z_]\w*=", words[0]):
                    words.pop(0)
                if words:
                    commands.append(words)
                words = []
            else:
                words.append(word)
    return commands


def without_repeats(blocks):
    """Returns the blocks that contain at least one line that no earlier block contains."""
    kept, seen = [], set()
    for block in blocks:
        lines = {re.sub(r"\s+#.*$", "", line).strip() for line in block.text.splitlines()}
        if not lines <= seen:
            kept.append(block)
        seen |= lines
    return kept


def inline_commands(text):
    """Returns the commands that are inline code in sentences."""
    return re.findall(r"`((?:hororun|scripts/[\w.]+|build/release/bin/\w+) [^`\n]*)`", docs_pages.prose_of(text))


def is_option(word):
    return re.match(r"-{1,2}[A-Za-z]", word) is not None


class Programs:
    """Help texts, presets and parameters of the programs of this build, the scripts and the tools."""

    def __init__(self, source, build):
        self.source, self.build = Path(source), Path(build)
        self.helps = {}

    def _output(self, *command):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30,
                             cwd=self.source, stdin=subprocess.DEVNULL, check=False)
        return run.stdout

    def help_of(self, program, words):
        """Returns the help text of a program, or None if the program does not exist."""
        name = program.removeprefix("build/release/bin/")
        binary = self.build / "bin" / name
        if binary.exists():
            extra = words[:1] if name == "hororun" and words[:1] and words[0] in ("doctor", "timeline", "stragglers", "pack") else []
            return self._of((name, *extra), lambda: self._output(binary, *extra, "--help"))
        if program.startswith(("scripts/", ".ci/")) and (self.source / program).exists():
            return self._of(program, lambda: (self.source / program).read_text())
        if program == "mpirun":
            return self._of(program, lambda: self._output(program, "--help", "full"))
        if program in ("cmake", "ctest"):
            return self._of(program, lambda: self._output(program, "--help") + self._output("cmake", "--build")
                            + self._output("cmake", "--install"))
        return None

    def presets(self):
        """Returns the names of the presets of CMake and CTest."""
        presets = json.loads((self.source / "CMakePresets.json").read_text())
        return {preset["name"] for kind in ("configurePresets", "buildPresets", "testPresets")
                for preset in presets[kind]}

    def has_open_mpi_4(self):
        return "v4." in self._of("ompi_info version", lambda: self._output("ompi_info", "--version"))

    def mca_parameters(self):
        """Returns the names of the MCA parameters of the installed Open MPI."""
        listed = self._of("ompi_info", lambda: self._output("ompi_info", "--all", "--parsable"))
        return set(re.findall(r"^mca:[^:]*:[^:]*:param:([^:]+):", listed, re.MULTILINE))

    def _of(self, key, make):
        if key not in self.helps:
            self.helps[key] = make()
        return self.helps[key]


def names_option(help_text, option):
    option = option.partition("=")[0]
    return re.search(r"(?<![\w-])" + re.escape(option) + r"(?![\w-])", help_text) is not None


def problems_of(words, programs):
    """Returns the unknown programs, options, presets and parameters of one command."""
    program, arguments = words[0], words[1:]
    if program.endswith("/bin/hororun") or program == "hororun":
        program = "hororun"
        return _problems_of_hororun(program, arguments, programs)
    if program in EXTERNAL_PROGRAMS or program in READER_PROGRAMS:
        return []
    help_text = programs.help_of(program, arguments)
    if help_text is None:
        return [f"unknown program '{program}'"]
    if "--" in arguments and program.startswith("scripts/"):
        at = arguments.index("--")
        nested = arguments[at + 1:]
        after = problems_of(nested, programs) if nested and program == "scripts/scaling.py" else []
        return after + _problems_of_options(program, arguments[:at], help_text)
    if program == "scripts/cluster_lab.sh":
        return _problems_of_cluster_lab(arguments, help_text)
    if program == "mpirun":
        return _problems_of_mpirun(arguments, help_text, programs)
    if program in ("cmake", "ctest"):
        unknown = set(values_of("--preset", arguments)) - programs.presets()
        return [f"no preset '{name}'" for name in sorted(unknown)] + _problems_of_options(program, arguments, help_text)
    return _problems_of_options(program, arguments, help_text)


def values_of(option, words):
    """Returns the word after each occurrence of `option`."""
    return [value for word, value in zip(words, words[1:]) if word == option]


def unknown_parameters(words, programs):
    if not programs.has_open_mpi_4():  # other versions have other parameters
        return []
    names = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("--mca", "-mca")]
    return [f"Open MPI has no parameter '{name}'" for name in names if name not in programs.mca_parameters()]


def _problems_of_cluster_lab(arguments, help_text):
    known = re.findall(r"^# {3}([a-z]+)\b", help_text, re.MULTILINE)
    return [f"scripts/cluster_lab.sh has no command '{word}'" for word in arguments[:1] if word not in known]


def _problems_of_mpirun(arguments, help_text, programs):
    problems, words = unknown_parameters(arguments, programs), list(arguments)
    takes = {"-n": 1, "-np": 1, "-H": 1, "--host": 1, "--hostfile": 1, "-x": 1, "--bind-to": 1, "--mca": 2}
    while words and is_option(words[0]):
        if not names_option(help_text, words[0]):
            problems.append(f"'mpirun' has no option '{words[0]}'")
        words = words[1 + takes.get(words[0], 0):]
    return problems + (problems_of(words, programs) if words and words[0] != "..." else [])


def _problems_of_options(program, arguments, help_text):
    problems = []
    for word in arguments:
        if program == "cmake" and word.startswith("-D"):
            continue
        if is_option(word) and not names_option(help_text, word):
            problems.append(f"'{program}' has no option '{word}'")
    return problems


def _problems_of_hororun(program, arguments, programs):
    if arguments[:1] == ["rank"]:  # internal
        return []
    if arguments[:1] and arguments[0] in ("doctor", "timeline", "stragglers", "settings", "pack"):
        return _problems_of_options(f"{program} {arguments[0]}", arguments[1:],
                                    programs.help_of(program, arguments) or "")
    help_text = programs.help_of(program, [])
    flags = {"--oversubscribe", "--dry-run", "-h", "--help"}
    while arguments and is_option(arguments[0]):
        option = arguments.pop(0)
        if not names_option(help_text, option):
            return [f"'{program}' has no option '{option}'"]
        if option == "--mpi-args" and arguments:
            unknown = unknown_parameters(arguments[0].split(), programs)
            if unknown:
                return unknown
        if option not in flags and "=" not in option:
            arguments = arguments[1:]
    return problems_of(arguments, programs) if arguments else []
