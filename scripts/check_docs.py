#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the Markdown pages:

* links lead to files and headings that exist; sources name pages and headings that exist, as in
  "docs/measure.md, Disturbed measurements"
* files (`src/text/csv.h`) and tests (`Layout.CoreNeverSeesLibTorch`) that a page names exist
* lists are as the site wants them (mkdocs.yml): what follows a blank line in one is indented by four, and a blank line
  parts one from a table
* the number in a link to a table, as in `[468 devices](../data/devices.csv)`, is the number of its rows

    scripts/check_docs.py
"""
import csv
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:benchmarks|cmake|data|docs|examples|include|python|scripts|src|tests)/[\w./*-]+)`")
COMMENT_BREAK = re.compile(r"\n *(?://+|#) ")
PROGRAM = re.compile(r"(?<![\w.*])(\w{2,}_(?:test|bench))\b(?![.\w])")
TEST = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")
COUNT = re.compile(r"\[(\d[\d,]*)[^\]]*\]\(([^)\s]+\.csv)\)")


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchor(heading):
    """As GitHub makes them: lower case, punctuation gone, blanks to hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def headings(page):
    return re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)


def anchors(page):
    return {anchor(heading) for heading in headings(page)}


def broken_links(page):
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(root)}: {link}: no such file"
        elif fragment and fragment not in anchors(target):
            yield f"{page.relative_to(root)}: {link}: no such heading"


def wrong_counts(page):
    for said, path in COUNT.findall(without_code(page.read_text())):
        table = page.parent / path
        if not table.exists():
            continue  # a broken link
        with table.open(newline="") as file:
            rows = sum(1 for _ in csv.reader(file)) - 1
        if int(said.replace(",", "")) != rows:
            yield f"{page.relative_to(root)}: {path} has {rows} rows, and the page says {said}"


def wrong_indents(page):
    text = without_code(page.read_text())
    for line in re.findall(r"\n\n {2}(\S.*)", text):
        yield f"{page.relative_to(root)}: {line[:40]}: is indented by two after a blank line; in a list that takes four"
    for line in re.findall(r"\|\n(\* .*)", text):
        yield f"{page.relative_to(root)}: {line[:40]}: wants a blank line between it and the table"


def gone(page, tests):
    """Files and tests that a page names and that do not exist."""
    text = page.read_text()
    for path in sorted(set(FILE.findall(text))):
        if not any(root.glob(path)):
            yield f"{page.relative_to(root)}: {path}: no such file"
    for program in sorted(set(PROGRAM.findall(text)) - {"x_test", "x_impl_test"}):
        names = program, program.removeprefix("torch_"), program.removeprefix("gpu_")
        if not any(any((root / folder).glob(f"**/{name}.cpp")) for folder in ("tests", "benchmarks") for name in names):
            yield f"{page.relative_to(root)}: {program}: no such test or benchmark"
    for suite, name in sorted(set(TEST.findall(text))):
        if suite in {known for known, _ in tests} and (suite, name) not in tests:
            yield f"{page.relative_to(root)}: {suite}.{name}: no such test"


def all_tests():
    sources = root.glob("tests/**/*.cpp")
    test = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", re.MULTILINE)
    return {found for source in sources for found in test.findall(source.read_text())}


def missing_pages():
    """Of docs/, as sources name them."""
    tracked = subprocess.run(["git", "ls-files", "-z", "*.h", "*.cpp", "*.py", "*.sh", "*.txt", "*.cmake"], cwd=root,
                             check=True, capture_output=True, text=True).stdout
    for name in tracked.rstrip("\0").split("\0"):
        source = root / name
        if not source.exists():
            continue
        text = COMMENT_BREAK.sub(" ", source.read_text(errors="replace"))
        for page, named in sorted(set(re.findall(r"\b(docs/[\w/]+\.md)(?:, ([A-Z][^\n]*))?", text))):
            if not (root / page).exists():
                yield f"{name}: {page}: no such page"
            elif named and not any(named.startswith(heading) for heading in headings(root / page)):
                yield f"{name}: {page} has no heading that begins {named[:40]!r}"


def main():
    pages = sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("data/**/*.md")])
    tests = all_tests()
    checks = broken_links, wrong_counts, wrong_indents, lambda page: gone(page, tests)
    wrong = [line for page in pages for check in checks for line in check(page)] + list(missing_pages())
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"check_docs: {len(pages)} pages")


if __name__ == "__main__":
    main()
