#!/usr/bin/env python3
"""Checks the links of a built site: each link to a file of the site has a target, and each anchor is an element of its page.

usage: site_links.py FOLDER

Does not follow links to other sites. Prints each dead link with its page.
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def dead_links(folder):
    """Returns the dead links of all pages in `folder` as lines "page: link"."""
    folder = Path(folder).resolve()
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append(f"{path.relative_to(folder)}: {link}")
    return dead


def main():
    dead = dead_links(sys.argv[1])
    print("\n".join(f"dead link in {line}" for line in dead), file=sys.stderr, end="\n" if dead else "")
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
