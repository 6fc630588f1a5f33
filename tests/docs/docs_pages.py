"""Parses the pages of the documentation: fenced blocks, links and headings."""
import dataclasses
import re
from pathlib import Path

FENCE = re.compile(r"^(\s*)(`{3,})(\w*|\{[\w-]+\})(?: \S+)?\s*$")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)


@dataclasses.dataclass
class Block:
    page: str
    line: int  # the number of its first line of text; the first line of the page is 1
    language: str
    text: str
    marker: str  # the HTML comment in the line above it, or ""

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of(page, text):
    found, start, lines = [], None, text.splitlines()
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        if start is None:
            start, indent, language = number, len(fence[1]), fence[3]
            above = lines[number - 1].strip() if number else ""
            marker = above[4:-3].strip() if above.startswith("<!--") and above.endswith("-->") else ""
        else:
            body = "\n".join(one[indent:] for one in lines[start + 1:number])
            found.append(Block(page, start + 2, language, body + "\n", marker))
            start = None
    if start is not None:
        raise ValueError(f"{page}:{start + 1}: the block is not closed")
    return found


def prose_of(text):
    """Returns the text without fenced blocks."""
    kept, inside = [], False
    for line in text.splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def anchor_of(heading):
    """Returns the anchor that GitHub generates for a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors_of(text):
    return {anchor_of(heading) for heading in HEADING.findall(prose_of(text))}


def broken_links(root, page, text):
    """Returns the broken links of `page` (a path relative to `root`) to files and headings."""
    problems = []
    for target in LINK.findall(prose_of(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page).parent / path if path else root / page
        if not file.exists():
            problems.append(f"{page}: the link {target} has no target")
        elif anchor and file.suffix == ".md" and anchor not in anchors_of(text if not path else file.read_text()):
            problems.append(f"{page}: the link {target} names no heading of that page")
    return problems


def documented_headers(root):
    """Returns the headers that the API reference documents."""
    pages = sorted((Path(root) / "docs/reference/api").glob("*.md"))
    return {header for page in pages for header in re.findall(r"^```\{doxygenfile\} (\S+)$", page.read_text(), re.MULTILINE)}


def public_headers(root):
    """Returns the headers of the public API: those in horo/, and those that horo/horo.h and the adapter for libtorch include."""
    root = Path(root)
    included = {header for file in ("horo/horo.h", "horo/adapters/torch/torch.h")
                for header in re.findall(r'^#include "([^"]+)"', (root / file).read_text(), re.MULTILINE)}
    others = {"horo/horo.h", "horo/phase.h"}  # which include or forward
    return included | {f"horo/{file.name}" for file in (root / "horo").glob("*.h")} - others


def pages_of(root):
    """Returns the paths of all pages of the documentation, relative to `root`."""
    root = Path(root)
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    return [str(page.relative_to(root)) for page in pages]
