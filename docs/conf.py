"""Configuration of Sphinx for the documentation site; scripts/make_docs.sh builds it.

The pages are those that a git host shows. docs/README.md, their index, gives the navigation and llms.txt.
"""
import ctypes
import os
import re
import sys
from pathlib import Path
from unittest import mock

from breathe.renderer.sphinxrenderer import SphinxRenderer
from docutils import nodes
from sphinx.domains.cpp import CPPNamespaceObject
from sphinx.util import logging

ROOT = Path(__file__).resolve().parent.parent

project = "horo"
copyright = "the authors of horo"  # pylint: disable=redefined-builtin
version = release = re.search(r"project\(horo VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**.md", "examples/**/README.md"]
exclude_patterns = ["build", ".*"]
nitpicky = True
# Names of other libraries and of what the public headers only declare.
nitpick_ignore_regex = [("c(pp)?:identifier", name) for name in (
    r"(std|torch|at|::torch)\b.*", r"(DL|kDL|MPI_|horo_)\w+", r"horo(::(ops|device|libtorch|testing|plan|coordinator|cxx17))?",
    r"(Convolution|InnerProduct)Shape|ImageBatch|Stage|(Weighted|Pool)Operation|device_kernels.*|(Device)?Backend",
    r"StepRequests|UpdateMethod|LossScal\w+|JobBottlenecks|Clock::.*|SIGTERM",
    r"u?int\d+_t|size_t", r"(coordinator|plan|device|detail)(::.*)?", r"Impl|Runtime|DataTypeOf.*")]
myst_heading_anchors = 4  # the anchors of git hosts
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"

breathe_projects = {"horo": os.environ["HORO_DOXYGEN_XML"]}
breathe_default_project = "horo"
breathe_domain_by_file_pattern = {"*/horo_c.h": "c"}
breathe_show_include = False
SECTIONS = ("briefdescription detaileddescription innernamespace innerclass define enum typedef var func "
            "public-type public-func public-static-func public-attrib public-static-attrib")

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_title = f"horo {version}"
html_show_sourcelink = False
html_sourcelink_suffix = ""  # llms.txt names the Markdown sources

# The Python package loads libhoro_c, of which its documentation needs nothing.
sys.path.insert(0, str(ROOT / "horo/python"))
ctypes.CDLL = mock.MagicMock()
autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_preserve_defaults = True
autoclass_content = "both"
default_role = "code"


def sections_of_index():
    """Returns the sections of docs/README.md: (name, [(title, page, description)]). Paths are relative to the repository."""
    sections = [("", [("All pages", "docs/README.md", "this index")])]
    for line in (ROOT / "docs/README.md").read_text().splitlines():
        if heading := re.match(r"\*\*(.+?)\*\*", line):
            sections.append((heading[1], []))
        for title, page, rest in re.findall(r"\[([^\]]+)\]\(([\w/.]+\.md)\)([^\[]*)", line):
            path = os.path.normpath(f"docs/{page}")
            sections[-1][1].append((title, path, rest.strip(" |:,")))
    return [section for section in sections if section[1]]


def documented_headers():
    """Returns for each public header the page that documents it."""
    pages = sorted((ROOT / "docs/reference/api").glob("*.md"))
    return {header: page.relative_to(ROOT) for page in pages
            for header in re.findall(r"^```\{doxygenfile\} (\S+)$", page.read_text(), re.MULTILINE)}


def prepare_page(_app, name, source):
    """Adds the navigation to the first page, and lets links to public headers lead to the reference."""
    folder = os.path.dirname(name)
    headers = documented_headers()

    def link(match):
        page = headers.get(os.path.normpath(os.path.join(folder, match[1])))
        anchor = re.sub(r"[^\w-]", "", os.path.normpath(os.path.join(folder, match[1])))
        return f"]({os.path.relpath(page, folder)}#{anchor})" if page else match[0]
    source[0] = re.sub(r"\]\(([\w/.]+\.h)\)", link, source[0])
    if name == root_doc:
        for caption, entries in sections_of_index():
            pages = "\n".join(f"{title} <{page.removesuffix('.md')}>" for title, page, _ in entries)
            caption = f":caption: {caption}\n" if caption else ""
            source[0] += f"\n```{{toctree}}\n:hidden:\n{caption}{pages}\n```\n"


def write_entrances(app, error):
    """Writes index.html, which leads to the first page, and llms.txt, an index for language models."""
    if error:
        return
    out = Path(app.outdir)
    (out / "index.html").write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>horo</title>\n')
    summary = (ROOT / "README.md").read_text().split("\n\n")[1].replace("\n", " ")
    lines = [f"# horo {version}", "", f"> {summary}"]
    for section, entries in sections_of_index():
        lines += ["", f"## {section or 'Index'}", ""]
        lines += [f"- [{title}](_sources/{page})" + (f": {text}" if text else "") for title, page, text in entries]
    (out / "llms.txt").write_text("\n".join(lines) + "\n")


def set_namespace(renderer, name):
    """Declares names in namespace `name` from now on; "NULL": in none."""
    CPPNamespaceObject("cpp:namespace", [name], {}, [], 0, 0, "", renderer.state, renderer.state.state_machine).run()


def contents_of(renderer, node):
    """Renders what a header or a namespace contains, without a heading of its own."""
    renderer.context.directive_args[2]["sections"] = SECTIONS
    data = renderer.compound_parser.parse(node.refid)
    is_namespace = data.compounddef.kind == "namespace"
    if is_namespace:  # its description would be on every page
        data.compounddef.briefdescription = data.compounddef.detaileddescription = None
    set_namespace(renderer, data.compounddef.compoundname if is_namespace else "NULL")
    renderer.nesting_level += is_namespace  # names are relative to the namespace
    contents = renderer.render(data, renderer.context.create_child_context(data))
    renderer.nesting_level -= is_namespace
    set_namespace(renderer, "NULL")
    return contents


def mark_rows(_app, doctree):
    """Gives each error message in a table an anchor, as those in headings have."""
    if doctree["source"] != str(ROOT / "docs/reference/errors.md"):
        return
    for row in doctree.findall(nodes.row):
        if message := next(row.findall(nodes.literal), None):
            anchor = nodes.make_id(message.astext())
            row["ids"].append(anchor)
            row.next_node(nodes.paragraph).append(nodes.reference("", "#", refuri=f"#{anchor}", classes=["headerlink"]))


def resolve(_app, _environment, reference, contents):
    """Doxygen makes names of headers links to their sources, which the site does not have: leaves the names."""
    return contents if reference.get("reftarget", "").endswith(("_8h", "_8h_source")) else None


def prepare_docstring(_app, kind, name, _object, _options, lines):
    """Reports what has no docstring. Indented lines after an empty one are code."""
    if not lines:
        logging.getLogger(__name__).warning("%s %s has no docstring", kind, name)
    lines[:] = re.sub(r"\n\n(?= +\S)", "\n\n::\n\n", "\n".join(lines)).split("\n")


def setup(app):
    SphinxRenderer.visit_file = SphinxRenderer.visit_namespace = contents_of
    app.connect("source-read", prepare_page)
    app.connect("doctree-read", mark_rows)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-docstring", prepare_docstring)
    app.connect("build-finished", write_entrances)
