#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that links of Markdown pages lead to files and headings that exist, that sources name pages that exist, and that
the number in a link to a table, as in `[468 devices](../data/devices.csv)`, is the number of its rows.

    scripts/check_docs.py
"""
import csv
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
COUNT = re.compile(r"\[(\d[\d,]*)[^\]]*\]\(([^)\s]+\.csv)\)")


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchor(heading):
    """As GitHub makes them: lower case, punctuation gone, blanks to hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)}


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


def missing_pages():
    """Of docs/, as sources name them."""
    tracked = subprocess.run(["git", "ls-files", "-z", "*.h", "*.cpp", "*.py", "*.sh", "*.txt", "*.cmake"], cwd=root,
                             check=True, capture_output=True, text=True).stdout
    for name in tracked.rstrip("\0").split("\0"):
        source = root / name
        if not source.exists():
            continue
        for page in sorted(set(re.findall(r"\bdocs/[\w/]+\.md", source.read_text(errors="replace")))):
            if not (root / page).exists():
                yield f"{name}: {page}: no such page"


pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("data/**/*.md")]
wrong = [line for page in sorted(pages) for line in (*broken_links(page), *wrong_counts(page))] + list(missing_pages())
if wrong:
    sys.exit("\n".join(wrong))
print(f"check_docs: {len(pages)} pages")
