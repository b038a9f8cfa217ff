# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs (mkdocs.yml): brings into the site what lies outside docs/.

README.md becomes the first page. CONTRIBUTING.md, CHANGELOG.md and the pages of data/ keep their places, and so does
every file that a page links to: a link that works in the checkout works in the site.
"""
import os
import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_docs

ROOT = check_docs.root
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md",
         *(str(page.relative_to(ROOT)) for page in ROOT.glob("data/*/README.md"))]
CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def place(path):
    """Where a file of the checkout lies in the site."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def target(source, link):
    """The file of the checkout that a link of the page `source` leads to; none for a link elsewhere."""
    path = link.partition("#")[0]
    if not path or re.match(r"[a-z]+:", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def source_of(page):
    return next((source for source in PAGES if place(source) == page.file.src_uri), f"docs/{page.file.src_uri}")


def on_files(files, config):
    sources = {*PAGES, *(f"docs/{file.src_uri}" for file in files.documentation_pages())}
    linked = {target(source, link) for source in sources
              for link in check_docs.LINK.findall(check_docs.without_code((ROOT / source).read_text()))}
    for path in sorted({*PAGES, *(linked - {None})}):
        if not path.startswith("docs/") and pathlib.Path(ROOT, path).is_file():
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, **_):
    source = source_of(page)

    def moved(match):
        link = match.group(1)
        path = target(source, link)
        if path is None:
            return match.group()
        there = posixpath.relpath(place(path), posixpath.dirname(page.file.src_uri))
        return f"]({there}{link[len(link.partition('#')[0]):]})"

    parts = CODE.split(markdown.replace("```console measured", "```console"))
    return "".join(part if i % 2 else check_docs.LINK.sub(moved, part) for i, part in enumerate(parts))
