#!/usr/bin/env python3
"""Checks the documentation: links, C++ and CMake snippets, shell commands, settings and error messages.

usage: docs_test.py PART SOURCE BUILD CXX [INCLUDE_FOLDER...]
  PART: Links, Snippets, Commands, Tutorials, Texts or SelfTest

Rules for the checked pages (README.md, CONTRIBUTING.md, and docs/ without docs/internals and docs/results):
- Every fenced block has a language, cpp, c, cmake, python, sh, json, text or yaml, or is a directive of the site, such as
  {doxygenfile}, which scripts/make_docs.sh checks.
- A cpp block with an #include is a complete file. Any other cpp block is a function body with the declarations of
  tests/docs/snippet_context.h. Both are compiled without code generation.
- A c block is a function body with the declarations of tests/docs/snippet_context_c.h.
- A python block is a program, which runs on 2 ranks. One that imports torch is skipped without PyTorch; HORO_TEST_TORCH_PYTHON is
  the interpreter for them.
- Inline code that begins with hororun or the path of a script or program uses only existing programs and options.
- A sh block runs in a folder that looks like the repository, with this build as build/release. A block after
  `<!-- not run: REASON -->` does not run, but its programs and options are checked. commands.py lists the reasons.
- The blocks of a page of docs/tutorials run in one folder, in their order; tutorials.py lists the rules. HORO_TEST_PREFIX is an
  installation of this build. A tutorial is skipped, with the reason, where a part that it needs is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import commands
import docs_pages
import messages
import site_links
import tutorials

PART = sys.argv[1]
SOURCE, BUILD = Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
CXX, INCLUDES = sys.argv[4], [f"-I{folder}" for folder in [sys.argv[2], *sys.argv[5:]]]
LANGUAGES = {"cpp", "c", "cmake", "python", "sh", "json", "text", "yaml", "{doxygenfile}", "{doxygenconcept}", "{eval-rst}"}
CHECKED = [page for page in docs_pages.pages_of(SOURCE)
           if not page.startswith(("docs/internals", "docs/results"))]


def text_of(page):
    return (SOURCE / page).read_text()


def blocks(language):
    return [block for page in CHECKED for block in docs_pages.blocks_of(page, text_of(page)) if block.language == language]


def translation_unit(cpp_blocks):
    """Returns one file with all blocks. #line makes the compiler report the page and line of an error."""
    includes, bodies = [], []
    for number, block in enumerate(cpp_blocks):
        lines = block.text.splitlines()
        is_whole = any(line.startswith("#include") for line in lines)
        includes += [line for line in lines if line.startswith("#include")]
        body = "\n".join("" if line.startswith("#include") else line for line in lines)
        opening = f"namespace block_{number} {{ using namespace program; using program::sync;" + ("" if is_whole else " void snippet() {")
        bodies.append(f'{opening}\n#line {block.line} "{block.page}"\n{body}\n}}' + ("" if is_whole else "}"))
    return "\n".join(['#include "tests/docs/snippet_context.h"', *includes, *bodies]) + "\n"


def compile_errors(cpp_blocks):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippets.cpp"
        file.write_text(translation_unit(cpp_blocks))
        run = subprocess.run([CXX, "-std=c++20", "-fsyntax-only", "-w", *INCLUDES, str(file)], stderr=subprocess.PIPE,
                             text=True, check=False)
    return run.stderr if run.returncode else ""


def c_compile_errors(c_blocks):
    bodies = []
    for number, block in enumerate(c_blocks):
        body = "\n".join("" if line.startswith("#include") else line for line in block.text.splitlines())
        bodies.append(f'void snippet_{number}(void) {{\n#line {block.line} "{block.page}"\n{body}\n}}')
    text = "\n".join(['#include "tests/docs/snippet_context_c.h"', *bodies]) + "\n"
    run = subprocess.run([CXX, "-x", "c", "-std=c99", "-Werror=implicit", "-fsyntax-only", *INCLUDES, "-"], input=text,
                         stderr=subprocess.PIPE, text=True, check=False)
    return run.stderr if run.returncode else ""


def sandbox(folder):
    """Fills a temporary folder in which the commands of the documentation find their files."""
    for entry in SOURCE.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(BUILD)


def failure_of(block):
    with tempfile.TemporaryDirectory() as folder:
        sandbox(Path(folder))
        environment = dict(os.environ, PATH=f"{BUILD}/bin:{os.environ['PATH']}", TMPDIR=folder)
        run = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=environment, timeout=100,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)
    return f"{block.place}: exit code {run.returncode}:\n{run.stdout[-2000:]}" if run.returncode else ""


def is_tutorial(page):
    return page.startswith("docs/tutorials/")


def prefix():
    return Path(os.environ.get("HORO_TEST_PREFIX", BUILD / "tests/install/prefix"))


def missing_for(text):
    """Returns what a tutorial needs and this machine lacks, or None."""
    python = os.environ.get("HORO_TEST_TORCH_PYTHON") or sys.executable
    if re.search(r"import (horo\.)?torch", text) and subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
        return "PyTorch is missing"
    if "horo::torch" in text and not list(prefix().rglob("libhoro_torch.*")):
        return "this build has no adapter for libtorch"
    if re.search(r"^sbatch ", text, re.MULTILINE) and (
            not shutil.which("sinfo") or subprocess.run(["sinfo"], stdout=subprocess.DEVNULL, check=False).returncode):
        return "there is no Slurm that runs"
    if "cluster_lab.sh" in text:
        lab = subprocess.run([SOURCE / "scripts/cluster_lab.sh", "up", "1", "none"], env={**os.environ, "CLUSTER_LAB": "docscheck"},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if lab.returncode == 2:
            return lab.stdout.strip()
        subprocess.run([SOURCE / "scripts/cluster_lab.sh", "down"], env={**os.environ, "CLUSTER_LAB": "docscheck"}, check=True)
    return None


def failures_of_tutorial(page, text):
    with tempfile.TemporaryDirectory() as folder:
        sandbox(Path(folder))
        python = os.environ.get("HORO_TEST_TORCH_PYTHON") or sys.executable
        session = tutorials.Session(folder, prefix(), python, SOURCE)
        try:
            return tutorials.problems_of(docs_pages.blocks_of(page, text), session)
        finally:
            if "cluster_lab.sh" in text:
                session.run("scripts/cluster_lab.sh down")


def settings_named(text):
    return set(re.findall(r"\bHORO_[A-Z][A-Z_]*[A-Z]\b", text))


def wrong_defaults(text, defaults):
    """Returns the defaults in a page, such as `HORO_TIMEOUT` (5 min), that differ from the table of settings."""
    given = re.findall(r"`(HORO_[A-Z_]+)` \((\d+ (?:us|ms|s|min|KiB|MiB))\)", text)
    return [f"{name} ({value})" for name, value in given if defaults.get(name) != value.replace(" ", "")]


def known_settings():
    sources = [SOURCE / "horo/base/environment.cpp", SOURCE / "horo/horo_c.h", *(SOURCE / "cmake").glob("*.cmake*"), SOURCE / "tests/CMakeLists.txt"]
    return {name for file in sources for name in settings_named(file.read_text())}


def python_failure_of(block):
    """Runs a program on 2 ranks. Returns its output if it fails, "skipped" without PyTorch, else None."""
    needs_torch = "torch" in block.text
    interpreter = (os.environ.get("HORO_TEST_TORCH_PYTHON") or sys.executable) if needs_torch else sys.executable
    if needs_torch and subprocess.run([interpreter, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return "skipped"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "horo/python"), "LD_LIBRARY_PATH": str(BUILD / "horo/c"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.py"
        file.write_text(block.text)
        run = subprocess.run([BUILD / "bin/hororun", "-np", "2", interpreter, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=environment, text=True, timeout=100, check=False)
    return f"{block.place}:\n{run.stdout[-3000:]}" if run.returncode != 0 else None


class Links(unittest.TestCase):
    maxDiff = None

    def test_link_targets_exist(self):
        problems = [problem for page in docs_pages.pages_of(SOURCE)
                    for problem in docs_pages.broken_links(SOURCE, page, text_of(page))]
        self.assertEqual(problems, [])

    def test_index_lists_every_page(self):
        index = text_of("docs/README.md")
        pages = [page for page in docs_pages.pages_of(SOURCE) if page.startswith("docs/") and page != "docs/README.md"]
        missing = [page for page in pages if f"]({page.removeprefix('docs/')})" not in index]
        self.assertEqual(missing, [])

    def test_reference_has_every_public_header(self):
        self.assertEqual(docs_pages.public_headers(SOURCE) - docs_pages.documented_headers(SOURCE), set())

    def test_readme_fits_two_screens(self):
        self.assertLessEqual(len(text_of("README.md").splitlines()), 110)


class Snippets(unittest.TestCase):
    maxDiff = None

    def test_every_block_has_language(self):
        without = [block.place for page in CHECKED for block in docs_pages.blocks_of(page, text_of(page))
                   if block.language not in LANGUAGES]
        self.assertEqual(without, [])

    def test_cpp_blocks_compile(self):
        self.assertGreater(len(blocks("cpp")), 10)
        errors = compile_errors(blocks("cpp"))
        self.assertFalse(errors, errors)

    def test_c_blocks_compile(self):
        self.assertGreater(len(blocks("c")), 1)
        errors = c_compile_errors(blocks("c"))
        self.assertFalse(errors, errors)

    def test_python_blocks_run(self):
        self.assertGreater(len(blocks("python")), 2)
        results = [(block.place, python_failure_of(block)) for block in blocks("python")]
        self.assertEqual([result for _, result in results if result not in (None, "skipped")], [])
        skipped = [place for place, result in results if result == "skipped"]
        if skipped:
            print(f"SKIPPED: PyTorch is missing, so {', '.join(skipped)} did not run")

    def test_cmake_blocks_use_installed_package(self):
        consumer = (SOURCE / "tests/install/consumer/CMakeLists.txt").read_text()
        for block in blocks("cmake"):
            if "find_package(horo" in block.text:
                self.assertIn("find_package(horo", consumer, block.place)
            linked = re.findall(r"target_link_libraries\(my_trainer PRIVATE (horo::\w+)\)", block.text)
            self.assertEqual(len(linked), 1, block.place)
            self.assertIn(linked[0], consumer, block.place)

    def test_fetch_content_configures(self):
        for block in (block for block in blocks("cmake") if "FetchContent" in block.text):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "main.cpp").write_text("#include <horo/horo.h>\nint main() {}\n")
                (Path(folder) / "CMakeLists.txt").write_text(
                    "cmake_minimum_required(VERSION 3.25)\nproject(my_trainer LANGUAGES C CXX)\n"
                    "add_executable(my_trainer main.cpp)\n" + block.text)
                run = subprocess.run(["cmake", "-S", folder, "-B", f"{folder}/build", f"-DCMAKE_CXX_COMPILER={CXX}",
                                      f"-DFETCHCONTENT_SOURCE_DIR_HORO={SOURCE}", "-DHORO_WITH_CUDA=OFF"],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                self.assertEqual(run.returncode, 0, f"{block.place}:\n{run.stdout[-3000:]}")


class Commands(unittest.TestCase):
    maxDiff = None

    def test_markers_have_known_reason(self):
        unknown = [f"{block.place}: {block.marker}" for block in blocks("sh") if block.marker and
                   not commands.NOT_RUN.match(block.marker) and not (is_tutorial(block.page) and block.marker == "fails")]
        self.assertEqual(unknown, [])

    def test_programs_and_options_exist(self):
        programs = commands.Programs(SOURCE, BUILD)
        problems = [f"{block.place}: {problem}" for block in blocks("sh") if not is_tutorial(block.page)
                    for command in commands.simple_commands(block.text)
                    for problem in commands.problems_of(command, programs)]
        self.assertEqual(problems, [])

    def test_programs_and_options_in_sentences_exist(self):
        programs = commands.Programs(SOURCE, BUILD)
        problems = [f"{page}: {problem}" for page in CHECKED for text in commands.inline_commands(text_of(page))
                    for command in commands.simple_commands(text)
                    for problem in commands.problems_of(command, programs)]
        self.assertEqual(problems, [])

    def test_commands_run(self):
        run = commands.without_repeats([block for block in blocks("sh") if not block.marker and not is_tutorial(block.page)])
        self.assertGreater(len(run), 3)
        self.assertEqual([failure for block in run if (failure := failure_of(block))], [])


class Tutorials(unittest.TestCase):
    maxDiff = None

    def test_tutorials_run(self):
        pages = [page for page in CHECKED if is_tutorial(page)]
        self.assertGreater(len(pages), 5)
        for page in pages:
            if reason := missing_for(text_of(page)):
                print(f"SKIPPED: {page} did not run: {reason}")
                continue
            with self.subTest(page):
                self.assertEqual(failures_of_tutorial(page, text_of(page)), [])


class Texts(unittest.TestCase):
    maxDiff = None

    def test_settings_exist(self):
        known = known_settings()
        unknown = [f"{page}: {name}" for page in docs_pages.pages_of(SOURCE)
                   for name in sorted(settings_named(text_of(page)) - known)]
        self.assertEqual(unknown, [])

    def test_defaults_match_settings(self):
        table = dict(re.findall(r"^\| `(HORO_\w+)` \| `([^`]*)` \|", text_of("docs/reference/environment.md"), re.MULTILINE))
        wrong = [f"{page}: {default}" for page in docs_pages.pages_of(SOURCE)
                 for default in wrong_defaults(text_of(page), table)]
        self.assertEqual(wrong, [])

    def test_error_messages_exist_in_sources(self):
        texts = messages.literal_texts(SOURCE)
        quoted = messages.quoted_in(text_of("docs/reference/errors.md"))
        self.assertGreater(len(quoted), 80)
        self.assertEqual([message for message in quoted if not messages.is_in(message, texts)], [])

    def test_every_error_message_has_check_and_cure(self):
        self.assertEqual(messages.without_remedy(text_of("docs/reference/errors.md")), [])


class SelfTest(unittest.TestCase):
    """Tests that each check finds errors."""

    def test_blocks_have_line_language_and_marker(self):
        text = "a\n<!-- not run: needs Slurm -->\n```sh\nsrun x\n```\n  ```cpp\n  int x;\n  ```\n"
        first, second = docs_pages.blocks_of("p.md", text)
        self.assertEqual((first.line, first.language, first.text, first.marker),
                         (4, "sh", "srun x\n", "not run: needs Slurm"))
        self.assertEqual((second.line, second.text, second.marker), (7, "int x;\n", ""))
        with self.assertRaises(ValueError):
            docs_pages.blocks_of("p.md", "```\nopen\n")

    def test_broken_links_are_found(self):
        text = "# A title, here\n[a](README.md) [b](none.md) [c](#a-title-here) [d](#other) [e](https://x.org/y)\n"
        problems = docs_pages.broken_links(SOURCE, "README.md", text)
        self.assertEqual([problem.split("link ")[1].split()[0] for problem in problems], ["none.md", "#other"])

    def test_dead_links_of_a_site_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.html").write_text('<a href="b.html#here">1</a> <a href="b.html#gone">2</a> <img src="no.png">'
                                                 '<a href="https://x.org/">3</a> <a href="#top">4</a>')
            (Path(folder) / "b.html").write_text('<p id="here"></p>')
            self.assertEqual(site_links.dead_links(folder), ["a.html: b.html#gone", "a.html: no.png", "a.html: #top"])

    def test_block_with_compile_error_is_located(self):
        bad = docs_pages.Block("docs/x.md", 7, "cpp", "ctx.allreduce(1, 2, 3, 4);\n", "")
        whole = docs_pages.Block("docs/y.md", 3, "cpp", "#include <horo/horo.h>\nint main() { return horo::none; }\n", "")
        errors = compile_errors([bad, whole])
        self.assertIn("docs/x.md:7", errors)
        self.assertIn("docs/y.md:4", errors)

    def test_c_block_with_compile_error_is_located(self):
        self.assertIn("docs/x.md:7", c_compile_errors([docs_pages.Block("docs/x.md", 7, "c", "horo_none(job);\n", "")]))

    def test_unknown_programs_and_options_are_found(self):
        programs = commands.Programs(SOURCE, BUILD)

        def problems(text):
            return [problem for command in commands.simple_commands(text)
                    for problem in commands.problems_of(command, programs)]
        self.assertEqual(problems("hororun -np 2 --env A=B build/release/bin/train_mnist --epochs 1  # --what"), [])
        self.assertEqual(len(problems("hororun -np 2 --wrong build/release/bin/own_model")), 1)
        self.assertEqual(len(problems("X=1 hororun -np 2 build/release/bin/train_mnist --wrong 1 && no_program")), 2)
        self.assertEqual(len(problems("scripts/none.sh > out; scripts/test.sh --wrong")), 2)
        self.assertEqual(problems("mpirun -n 2 --bind-to none --mca btl_tcp_if_include eth0 build/release/bin/own_model"), [])
        self.assertEqual(len(problems("mpirun --wrong -n 2 --mca no_such_parameter 1 no_program")), 3)
        self.assertEqual(len(problems("hororun --mpi-args '--mca no_such_parameter 1' build/release/bin/own_model")), 1)
        self.assertEqual(len(problems("cmake --preset none && ctest --preset cpu")), 1)
        self.assertEqual(len(problems("scripts/cluster_lab.sh up 2; scripts/cluster_lab.sh wrong")), 1)

    def test_commands_in_sentences_are_found(self):
        text = "Use `hororun -np 2`, not `x`.\n```sh\n`hororun no`\n```\n`scripts/test.sh asan`"
        self.assertEqual(commands.inline_commands(text), ["hororun -np 2", "scripts/test.sh asan"])

    def test_failing_command_is_found(self):
        self.assertIn("exit code 3", failure_of(docs_pages.Block("p.md", 1, "sh", "exit 3\n", "")))
        self.assertEqual(failure_of(docs_pages.Block("p.md", 1, "sh", "test -x build/release/bin/hororun\n", "")), "")

    def test_failing_python_program_is_located(self):
        self.assertIn("p.md:1", python_failure_of(docs_pages.Block("p.md", 1, "python", "raise RuntimeError('planted')\n", "")))

    def test_blocks_of_a_tutorial_share_a_folder(self):
        good = ("<!-- file: a.txt -->\n```text\none\ntwo 22 three\n```\n```sh\nexport WORD=four\ncat a.txt\n```\n<!-- output -->\n"
                "```text\none\ntwo ... three\n```\n<!-- fails -->\n```sh\ntest -z $WORD\n```\n")
        self.assertEqual(failures_of_tutorial("docs/tutorials/t.md", good), [])
        broken = {"one\ntwo ...": "two ...\none", "<!-- fails -->": "", "cat a.txt": "cat b.txt", "test -z": "test -n"}
        for part, replacement in broken.items():
            self.assertEqual(len(failures_of_tutorial("docs/tutorials/t.md", good.replace(part, replacement))), 1, replacement)

    def test_repeated_blocks_are_skipped(self):
        texts = ["a  # why\nb\n", "b\n", "b # again\na\n", "b\nc\n"]
        kept = commands.without_repeats([docs_pages.Block("p.md", 1, "sh", text, "") for text in texts])
        self.assertEqual([block.text for block in kept], [texts[0], texts[3]])

    def test_reasons_are_checked(self):
        self.assertTrue(commands.NOT_RUN.match("not run: takes minutes"))
        self.assertFalse(commands.NOT_RUN.match("not run: I do not like it"))

    def test_quoted_messages_come_from_headings_and_first_cells(self):
        page = "### `a is b`\n- `c`\n| Message | Cure |\n| `d ... e` | `f` |\n| 75 | `g` |\n"
        self.assertEqual(messages.quoted_in(page), ["a is b", "d ... e"])

    def test_messages_without_check_or_cure_are_found(self):
        page = ("### `a`\n- why\n- *Check*: x\n- *Cure*: y\n### `b`\n- *Check*: x\n## T\n*Check*: x\n| Message | Cure |\n|---|---|\n| `c` | y |\n"
                "## U\n| Message | Cure |\n|---|---|\n| `d` | y |\n| `e` | |\n")
        self.assertEqual(messages.without_remedy(page), ["b", "U", "e"])

    def test_messages_missing_in_sources_are_found(self):
        texts = ['throw Error(fmt::format("rank {} waited "\n  "for {}"', "other"]
        joined = [re.sub(r'"\s*"', "", text) for text in texts]
        self.assertTrue(messages.is_in("rank <rank> waited for ...", ['rank {} waited for {}']))
        self.assertTrue(messages.is_in("waited for", joined))
        self.assertFalse(messages.is_in("waited ... rank", joined))
        self.assertFalse(messages.is_in("never said", joined))
        timeout = '" (HORO_TIMEOUT is "'
        self.assertTrue(messages.is_in("waited for (HORO_TIMEOUT is ...)", joined + [timeout]))
        self.assertFalse(messages.is_in("waited for (HORO_TIMEOUT is ...)", joined))
        self.assertFalse(messages.is_in("never said (HORO_TIMEOUT is ...)", joined + [timeout]))

    def test_wrong_defaults_are_found(self):
        text = "after `HORO_TIMEOUT` (5 min) and `HORO_STALL_WARNING` (4 s)"
        defaults = {"HORO_TIMEOUT": "5min", "HORO_STALL_WARNING": "3s"}
        self.assertEqual(wrong_defaults(text, defaults), ["HORO_STALL_WARNING (4 s)"])

    def test_unknown_settings_are_found(self):
        self.assertEqual(settings_named("`HORO_TIMEOUT` and HORO_NO_SUCH=1") - known_settings(), {"HORO_NO_SUCH"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], defaultTest=PART)
