#!/usr/bin/env python3
"""Checks that scripts/make_docs.sh makes a small site with the configuration of docs/, and that it fails on each kind of error.

usage: site_test.py SOURCE
"""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1]).resolve()
HEADER = """#pragma once
/// Numbers.
namespace horo {
/// Counts.
int count();
}  // namespace horo
"""
PAGES = {
    "README.md": "# horo\n\nA small library.\n\nSee [a guide](docs/guide.md#the-end).\n",
    "docs/README.md": "# Pages\n\n**Guides**\n- [A guide](guide.md): how to begin.\n- [API](reference/api/api.md): all functions.\n"
                      "- [Errors](reference/errors.md)\n",
    "docs/guide.md": "# A guide\nCall [`count()`](../horo/count.h).\n\n## The end\n",
    "docs/reference/errors.md": "# Errors\n\n| Message | Cure |\n|---|---|\n| `cannot count ...` | use numbers |\n",
    "docs/reference/api/api.md": "# API\n\n## horo/count.h\n```{doxygenfile} horo/count.h\n```\n",
    "horo/count.h": HEADER,
}


class Site(unittest.TestCase):
    def make(self, changed=None):
        """Makes the site of PAGES with the changed files. Returns the exit code, the output and the files."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for file in ("CMakeLists.txt", "docs/conf.py", "docs/Doxyfile", "docs/site.css", "scripts/make_docs.sh", "tests/docs/site_links.py"):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / file, root / file)
            for file, text in {**PAGES, **(changed or {})}.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
            run = subprocess.run([root / "scripts/make_docs.sh"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 check=False)
            files = {str(file.relative_to(root / "build/site")): file.read_text(errors="replace")
                     for file in (root / "build/site").rglob("*") if file.is_file()}
        return run.returncode, run.stdout, files

    def assert_fails(self, expected, changed):
        status, output, _ = self.make(changed)
        self.assertNotEqual(status, 0)
        self.assertIn(expected, output)

    def test_has_pages_reference_and_index(self):
        status, output, files = self.make()
        self.assertEqual(status, 0, output)
        version = next(file for file in files if file.endswith("/llms.txt")).split("/")[0]
        self.assertIn(f"url={version}/index.html", files["index.html"])
        self.assertIn("[A guide](_sources/docs/guide.md): how to begin.", files[f"{version}/llms.txt"])
        self.assertIn(f"{version}/_sources/docs/guide.md", files)
        self.assertIn('href="reference/api/api.html#horo-count-h"', files[f"{version}/docs/guide.html"])
        self.assertIn('id="cannot-count"', files[f"{version}/docs/reference/errors.html"])
        self.assertIn("Counts.", files[f"{version}/docs/reference/api/api.html"])

    def test_fails_on_symbol_without_docstring(self):
        self.assert_fails("hidden", {"horo/count.h": HEADER.replace("}  //", "int hidden();\n}  //")})

    def test_fails_on_dead_link(self):
        self.assert_fails("none.md", {"docs/guide.md": PAGES["docs/guide.md"] + "\n[x](none.md)\n"})

    def test_fails_on_unknown_anchor(self):
        self.assert_fails("no-such", {"README.md": "# horo\n\nA library.\n\n[x](docs/guide.md#no-such)\n"})

    def test_fails_on_page_that_index_lacks(self):
        self.assert_fails("other.md", {"docs/other.md": "# Other\n"})


if __name__ == "__main__":
    if shutil.which("doxygen") is None or shutil.which("sphinx-build") is None:
        print("SKIPPED: doxygen or sphinx-build is missing; run scripts/install_deps.sh --ci")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
