#!/usr/bin/env python3
"""Checks what libhoro.so exports and needs.

usage: exports_test.py LIBHORO_SO LIBHORO_A SOURCE INCLUDE COMPONENTS...
  INCLUDE      the installed headers
  COMPONENTS   the static libraries that are linked with libhoro.so

- Every exported symbol belongs to a class or function that an installed header of the core declares, or to the internal
  functions that cmake/exports.map lists.
- Every symbol of libhoro.a that belongs to such a class or function is exported.
- The components find all functions of horo that they need.
- libhoro.so needs no library but those of a CPU program.
- Every header that an installed header includes is installed.
"""
import re
import subprocess
import sys
from pathlib import Path

ALLOWED_LIBRARIES = r"lib(mpi|mpich|fmt|spdlog|stdc\+\+|m|gcc_s|c|pthread|dl|rt)\.so\.\S+|ld-linux\S+"
DECLARATION = re.compile(r"^(?:class|struct)\s+(?:\[\[nodiscard\]\]\s+)?(\w+)[^;\n]*$"  # a class with its body
                         r"|^(?:[\w:<>&*\[\]]+\s+)+[*&]?(\w+)\(", re.MULTILINE)       # a function


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def symbols_of(library, *options):
    """The demangled symbols that `library` defines (or needs, with -u), without weak instances of templates."""
    symbols = set()
    for line in output_of("nm", "-C", *options, library).splitlines():
        match = re.match(r"(?:[0-9a-f]+)?\s+([A-Za-z]) (.*)", line)
        if match and match.group(1) in "TDBRVWuU":
            symbols.add(re.sub(r"@.*", "", match.group(2)))
    return symbols


def namespace_of(text, position):
    """The namespace at a position of a header: `namespace a::b {` opens one, `}  // namespace` closes it."""
    names = []
    for match in re.finditer(r"^namespace ([\w:]+) \{|^\}  // namespace", text[:position], re.MULTILINE):
        if match.group(1):
            names.append(match.group(1))
        else:
            names.pop()
    return "::".join(names)


def declared_names(include):
    """The qualified names of the classes and functions of the installed headers of the core."""
    names = set()
    for header in sorted((include / "horo").rglob("*.h")):
        # Without forward declarations in namespaces of their own.
        text = re.sub(r"^namespace \w+ \{\n(?:(?:class|struct) \w+;\n)+\}$", "", header.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for match in DECLARATION.finditer(text):
            namespace = namespace_of(text, match.start())
            if namespace.startswith("horo"):
                names.add(f"{namespace}::{match.group(1) or match.group(2)}")
    return names


def owner_of(symbol):
    """The qualified name before the arguments, without `vtable for` and the like."""
    symbol = re.sub(r"^(vtable|typeinfo name|typeinfo|guard variable|VTT|non-virtual thunk|virtual thunk) (for|to) ", "", symbol)
    return re.split(r"[(\[<]", symbol)[0]


def belongs_to(symbol, names):
    words = owner_of(symbol).split("::")
    return any("::".join(words[:count]) in names for count in range(2, len(words) + 1))


def main():
    shared, static, source, include, *components = map(Path, sys.argv[1:])
    problems = []
    names = declared_names(include)
    if not {"horo::Context", "horo::init", "horo::device::Stream", "horo::Error"} <= names:
        problems.append(f"the headers in {include} were not understood: {sorted(names)}")

    exports = (source / "cmake/exports.map").read_text(encoding="utf-8")
    internal_patterns = [re.escape(line.strip(" ;")).replace(r"\*", ".*").replace(r"\?", ".")
                         for line in exports.split("HORO_INTERNAL {")[1].splitlines() if line.strip().startswith("horo::")]
    internal = re.compile("|".join(internal_patterns))
    exported = symbols_of(shared, "-D", "--defined-only")
    exported -= {"HORO_0.1", "HORO_INTERNAL"}
    for symbol in sorted(exported):
        if not belongs_to(symbol, names) and not internal.fullmatch(symbol):
            problems.append(f"exported, but in no installed header: {symbol}")

    # Functions that several files define (weak) are in every program that needs them.
    defined = {symbol for symbol in symbols_of(static, "-g", "--defined-only") if symbol.startswith("horo::")}
    strong = {line.split(" ", 2)[2] for line in output_of("nm", "-C", "-g", "--defined-only", str(static)).splitlines()
              if re.match(r"[0-9a-f]+ [TDBR] horo::", line)}
    for symbol in sorted(defined & strong):
        if belongs_to(symbol, names) and symbol not in exported:
            problems.append(f"declared in an installed header, but not exported: {symbol}; add it to cmake/exports.map")

    own = set().union(*(symbols_of(library, "-g", "--defined-only") for library in components))
    for library in components:
        for symbol in sorted(symbols_of(library, "-u") - own - exported):
            if owner_of(symbol).startswith("horo::"):
                problems.append(f"{library.name} needs {symbol}; add it to HORO_INTERNAL of cmake/exports.map")

    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", str(shared))):
        if not re.fullmatch(ALLOWED_LIBRARIES, library):
            problems.append(f"libhoro.so needs {library}")
    runpath = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", output_of("readelf", "-d", str(shared)))
    if not runpath or not runpath[0].startswith("$ORIGIN"):
        problems.append(f"libhoro.so does not look beside itself for libraries: RUNPATH {runpath}")

    for header in sorted(include.rglob("*.h")):
        for name in re.findall(r'^#include "((?:horo|ops)/.*)"', header.read_text(encoding="utf-8"), re.MULTILINE):
            if not (include / name).exists():
                problems.append(f"{header.relative_to(include)} includes {name}, which is not installed")

    print("\n".join(problems) or f"{len(exported)} symbols of {len(names)} classes and functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
