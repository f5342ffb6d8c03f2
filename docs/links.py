# SPDX-License-Identifier: Apache-2.0
"""Follows every link of the built site that stays within it: python docs/links.py docs/_build/html

Prints those that lead nowhere, to no file or to no element of a page, and fails if there are any.
Sphinx checks what the pages say; this checks what it made of them: navigation, pictures, downloads.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Pages that only scripts of the theme use, or that have no content of ours.
GENERATED = {"search.html", "genindex.html"}


class Page(HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.links: list[tuple[int, str]] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.targets.add(value)
            elif name in ("href", "src") and tag != "base":
                self.links.append((self.getpos()[0], value))


def broken(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name in GENERATED:
            continue
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent.joinpath(unquote(parts.path)).resolve() if parts.path else path
            there = target.is_file()
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].targets
            if not there:
                found.append(f"{path.relative_to(site.resolve())}:{line}: {link}")
    return found


def main(arguments: list[str]) -> int:
    (site,) = map(Path, arguments)
    if not (site / "index.html").exists():
        print(f"expected a built site in {site}, and there is no index.html")
        return 1
    found = broken(site)
    print(*found, f"{len(found)} links lead nowhere", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
