#!/usr/bin/env python3
"""Checks names and sentences: names of an older vocabulary of this project, and sentences of more than 40 words.

usage: language.py [PATH...]   (default: the whole tree)

Names are those that Rust code defines, and of its files. Sentences are read from doc comments and Markdown. The glossary in
ARCHITECTURE.md has the terms to use instead.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_WORDS = 40

# Not part of any name.
WORDS = set("asked told said wanted heard lent vouched likeness patience".split())
# Not a name as a whole, in whatever case.
NAMES = set(
    "abilities at_work crossing cure desk doors given_up glance greet in_url made_tasks manner obey parting presence said_meta seal "
    "ticket wish".split()
)

DEFINITION = re.compile(r"\b(?:mod|fn|struct|enum|trait|type|union|const|static|let(?:\s+mut)?)\s+([A-Za-z_]\w*)")
FIELD = re.compile(r"(?<![:\w])([a-z_]\w*)\s*:(?!:)")
CODE = re.compile(r"""r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|//[^\n]*|/\*.*?\*/""", re.S)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_old(name):
    parts = [part.lower() for part in PARTS.findall(name)]
    return bool(WORDS.intersection(parts)) or "_".join(parts) in NAMES


def names(path, text):
    """Findings about names: (line, name, what is wrong)."""
    code = CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    defined = [(1, Path(path).stem)]
    for pattern in (DEFINITION, FIELD):
        defined += [(code.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in pattern.finditer(code)]
    return [(line, name, "has a clearer word in the glossary") for line, name in defined if is_old(name)]


def sentences(lines):
    """Sentences of running text: (line, text). Code, tables and headings are none."""
    start, words, is_code = 0, [], False
    for number, line in [*lines, (0, "")]:
        line = line.strip()
        if line.startswith("```"):
            is_code = not is_code
            line = ""
        if is_code or line.startswith(("|", "#", "<", "[")) and not line.startswith("[`"):
            line = ""
        item = re.match(r"(?:[-*>]|\d+\.)\s+", line)
        if (not line or item) and words:
            yield start, " ".join(words)
            words = []
        if item:
            line = line[item.end() :]
        line = re.sub(r"`[^`]*`", "code", line)
        line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
        # An abbreviation does not end a sentence.
        line = re.sub(r"\b(e\.g|i\.e|etc|vs)\.", r"\1", line)
        for word in line.split():
            start = start if words else number
            words.append(word)
            if re.search(r"[.!?][)*\"'”]*$", word):
                yield start, " ".join(words)
                words = []


def prose(path, text):
    lines = list(enumerate(text.split("\n"), 1))
    if path.endswith(".rs"):
        docs = []
        for number, line in lines:
            match = re.match(r"\s*//[/!](?!/)\s?(.*)", line)
            if match:
                docs.append((number, match.group(1)))
            elif docs and docs[-1][1]:
                docs.append((number, ""))
        lines = docs
    for number, sentence in sentences(lines):
        count = len([word for word in sentence.split() if re.search(r"\w", word)])
        if count > MAX_WORDS:
            yield number, " ".join(sentence.split()[:6]), f"is the beginning of a sentence of {count} words"


def files(arguments):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in listed.stdout.splitlines() if path.endswith((".rs", ".md")) and (ROOT / path).is_file()]


def main():
    found, checked = [], 0
    for path in files(sys.argv[1:]):
        text = (ROOT / path).read_text()
        checked += 1
        findings = [*(names(path, text) if path.endswith(".rs") else ()), *prose(path, text)]
        found += [f"{path}:{line}: `{name}` {reason}" for line, name, reason in findings]
    print("\n".join(found))
    print(f"{checked} files, {len(found)} findings")
    sys.exit(1 if found or not checked else 0)


if __name__ == "__main__":
    main()
