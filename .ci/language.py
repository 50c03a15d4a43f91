#!/usr/bin/env python3
"""Checks names and sentences: words that the project does not use in identifiers, participles as type names, and long sentences.

usage: language.py [PATH...]   (default: the whole tree)

Names are read from Rust code without comments and strings. Sentences are read from doc comments and Markdown. The glossary in
ARCHITECTURE.md has the terms to use instead.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_WORDS = 40

# Not part of any identifier.
WORDS = set("asked told said wanted held stated heard kept lent".split())
PHRASES = ["given_up", "GivenUp"]
# Not part of a constant's name: write MAX_…, …_TIMEOUT.
CONSTANT_WORDS = {"MOST", "PATIENCE", "LONGEST"}
# Not part of the name of a type or module.
DEFINITION_WORDS = {"own", "room", "door"}
# Not the name of a type, variant or function.
NAMES = set(
    "Anchor Door Weight Reach End Parting Abilities Wish Back Matter Ticket Way Vouched Record Host Owner Lead Deferred Wires "
    "Facts Presence Shelf Desk News Manner Mover".split()
)
# Not the name of anything that is defined below the folder. MCP's own words stay where MCP means them.
FOLDER_NAMES = {
    "src": "apart chance likeness alarm rings moment advice".split(),
    "src/daemon": "doors greet places left presence reserve".split(),
    "src/sockets": "doors greet places left presence reserve".split(),
    "src/server": "audience checkup ending parted followers hold told turn unasked verdict role abilities question".split(),
    "src/server/instance": (
        "asking asks at_work crossing heads mirrors listening lost notices polls rounds mark".split()
    ),
    "src/session": "account leaving listens made_tasks news notices said_meta seal glance wires".split(),
    "src/manager": "own settle shown strays successor switches obey".split(),
    "src/transport": "patience again ends flow events listener place report way phase".split(),
    "src/net": "patience again ends flow place way phase names".split(),
    "src/oauth": "answer application attempt forget own standing".split(),
    "src/calls": "keeper follower".split(),
    "src/cli": "cure picture look edited order forms".split(),
    "src/config": "draft filling over settle ours sourced spell proposed in_url".split(),
    "src/jsonrpc": "same exchange made_up minted".split(),
}
# Words that end like a participle and are none.
NOUNS = set("Feed Seed Need Speed Embed Bed Speed Shed Thread Head Read Id Payload Load Upload Word Record".split())
IRREGULAR = set("Sent Given Lost Found Made Known Shown Begun Taken Written Done Gone Left Heard Spent Built Bound".split())

# (path, name or the beginning of a sentence): why it stays.
EXCEPTIONS = {
    ("fuzz/src/lib.rs", "Spanned"): "stands in for the type below",
    ("src/config/spanned.rs", "Spanned"): "the usual name of a value with its span, as in `toml` and `serde_spanned`",
}

DEFINITION = re.compile(r"\b(?:mod|fn|struct|enum|trait|type|union|const|static|let(?:\s+mut)?)\s+([A-Za-z_]\w*)")
TYPE = re.compile(r"\b(?:struct|enum|trait|type|union)\s+([A-Za-z_]\w*)")
FIELD = re.compile(r"(?<![:\w])([a-z_]\w*)\s*:(?!:)")
CODE = re.compile(r"""r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|//[^\n]*|/\*.*?\*/""", re.S)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def parts(identifier):
    return PARTS.findall(identifier)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def names(path, text):
    """Findings about identifiers: (line, name, what to do)."""
    code = CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    for match in IDENTIFIER.finditer(code):
        name = match.group()
        words = {part.lower() for part in parts(name)}
        if words & WORDS or any(phrase in name for phrase in PHRASES):
            yield line_of(code, match.start()), name, "is not a term of the field"
        if name.isupper() and set(name.split("_")) & CONSTANT_WORDS:
            yield line_of(code, match.start()), name, "should be MAX_… or …_TIMEOUT"
    for match in TYPE.finditer(code):
        name = match.group(1)
        last = parts(name)[-1] if parts(name) else ""
        if (last.endswith("ed") and last not in NOUNS) or last in IRREGULAR:
            yield line_of(code, match.start(1)), name, "is a participle: a type needs a noun"
        if name in NAMES:
            yield line_of(code, match.start(1)), name, "is no clear name of a type"
    folder_names = {word for folder, words in FOLDER_NAMES.items() if is_below(path, folder) for word in words}
    for pattern in (DEFINITION, FIELD):
        for match in pattern.finditer(code):
            name = match.group(1)
            if name in folder_names:
                yield line_of(code, match.start(1)), name, "has a clearer word in the glossary"
            is_type_or_module = re.match(r"(?:mod|struct|enum|trait|type)\b", match.group())
            if is_type_or_module and {part.lower() for part in parts(name)} & DEFINITION_WORDS:
                yield line_of(code, match.start(1)), name, "is not a term of the field"


def is_below(path, folder):
    # Of `src` itself only the top-level modules are meant.
    if folder == "src":
        return path == "src/lib.rs"
    return path.startswith(folder + "/") or path == folder + ".rs"


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
    found, checked, used = [], 0, set()
    for path in files(sys.argv[1:]):
        text = (ROOT / path).read_text()
        checked += 1
        findings = [*(names(path, text) if path.endswith(".rs") else ()), *prose(path, text)]
        stem = Path(path).stem
        if path.endswith(".rs") and set(stem.split("_")) & (WORDS | DEFINITION_WORDS):
            findings.append((1, stem, "is not a term of the field"))
        for line, name, reason in findings:
            if (path, name) in EXCEPTIONS:
                used.add((path, name))
            else:
                found.append(f"{path}:{line}: `{name}` {reason}")
    if len(sys.argv) == 1:
        found += [f"{path}: the exception for `{name}` is not needed" for path, name in EXCEPTIONS.keys() - used]
    print("\n".join(found))
    print(f"{checked} files, {len(EXCEPTIONS)} exceptions, {len(found)} findings")
    sys.exit(1 if found or not checked else 0)


if __name__ == "__main__":
    main()
