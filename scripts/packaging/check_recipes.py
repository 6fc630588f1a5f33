#!/usr/bin/env python3
"""Checks the recipes in this folder without the tools that use them.

usage: check_recipes.py

- Python, YAML, JSON and shell files have no syntax errors. YAML is skipped, with a note, where PyYAML is not installed.
- Every HORO_ name is an option of the build (cmake/HoroOptions.cmake) or a setting (docs/reference/environment.md).
- Every preset exists.
- Versions are that of the project.
"""
import ast
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OWN_VARIABLES = {"HORO_PREFIX"}  # of the scripts for schedulers


def syntax_error(path):
    """The error of a file, or None."""
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".py":
            ast.parse(text)
        elif path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".yaml":
            try:
                import yaml
            except ImportError:
                print(f"note: {path.name} is not parsed, because PyYAML is not installed")
                return None
            try:
                list(yaml.safe_load_all(text))
            except yaml.YAMLError as error:
                return str(error)
        elif path.suffix == ".sh":
            run = subprocess.run(["bash", "-n", path], stderr=subprocess.PIPE, text=True, check=False)
            return run.stderr.strip() or None
    except (SyntaxError, ValueError) as error:
        return str(error)
    return None


def known_names():
    options = (ROOT / "cmake/HoroOptions.cmake").read_text(encoding="utf-8")
    settings = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    return (set(re.findall(r"(?:option|set)\((HORO_\w+)", options)) | set(re.findall(r"HORO_\w+", settings)) | OWN_VARIABLES)


def main():
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    version = re.search(r"project\(horo VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]}
    names, problems, count = known_names(), [], 0
    for path in sorted(HERE.rglob("*")):
        if not path.is_file() or path.parent == HERE or "__pycache__" in path.parts:
            continue
        count += 1
        text = path.read_text(encoding="utf-8")
        error = syntax_error(path)
        if error:
            problems.append(f"{path.relative_to(ROOT)}: {error}")
        for name in sorted(set(re.findall(r"\bHORO_[A-Z_]+\b", text)) - names):
            problems.append(f"{path.relative_to(ROOT)}: {name} is no option of the build and no setting")
        for preset in re.findall(r"--preset (\w+)", text):
            if preset not in presets:
                problems.append(f"{path.relative_to(ROOT)}: no preset '{preset}'")
        for given in re.findall(r'^\s*"?version"?(?:\(|: )"(\d[\d.]*)"', text, re.MULTILINE):
            if given != version:
                problems.append(f"{path.relative_to(ROOT)}: version {given}; the project has {version}")
    if count < 9:
        problems.append(f"only {count} recipes found in {HERE}")
    print("\n".join(problems) or f"{count} recipes checked")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
