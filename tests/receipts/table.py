"""Writes docs/receipts.md: one row for each server of servers.txt, from its receipt and from the call of the kept server."""

import json
import pathlib
import sys

HEAD = """# Receipts of popular servers

`mcpd try` ran each of these servers and kept it. The table shows what the server touched before its first call, and whether the kept server answers a
call with exactly the grants that were written. [tests/receipts/run.sh](../tests/receipts/run.sh) writes this page.

"""
NOTES = """
- **Packages** were downloaded in an earlier run, whose hosts are not in the table. Credentials were dummies.
- **Touched**: host names, connections other than to DNS, and files, except those of the system, of the server's installation and in its own
  directories.
- **Call**: `answers` means that the kept server answered through a daemon, with `changes = "hold"`. The machine reached only the package
  registries, so tools that need other hosts answer with an error of their own, which counts as an answer. `no answer` is a failure.
"""


def rows(servers):
    for line in pathlib.Path(servers).read_text().splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 5 and not line.startswith("#"):
            yield parts


def load(path):
    try:
        return json.JSONDecoder().raw_decode(path.read_text().lstrip())[0]
    except (OSError, ValueError):
        return None


def files(groups):
    for group in groups:
        names = [group["directory"].rstrip("/") + "/" + name for name in group.get("names", [])]
        yield names[0] if len(names) == 1 else f"{group['directory']} ({group['files']})"


def touched(receipt):
    found = receipt.get("touched")
    if found is None:
        return "not traced"
    hosts = ", ".join(found["hosts"])
    ports = sorted({one["to"] for one in found["connections"] if not one["to"].endswith(":53")})
    parts = [
        ("read", ", ".join(files(found["read"]))),
        ("missed", ", ".join(one["path"] for one in found["missed"])),
        ("wrote", ", ".join(files(found["wrote"]))),
        ("hosts", hosts),
        ("connected", ", ".join(ports) if ports and not hosts else ""),
        ("listened", ", ".join(found["listeners"])),
    ]
    return "; ".join(f"{name} {value}" for name, value in parts if value) or "nothing"


def main(servers, place):
    place = pathlib.Path(place)
    lines, answered, tried = [], 0, 0
    for name, _, command, call, needs in rows(servers):
        receipt, result = load(place / "receipts" / f"{name}.json"), load(place / "calls" / f"{name}.json")
        if not (place / "receipts" / f"{name}.err").exists():
            continue
        tried += 1
        if receipt is None or "offer" not in receipt:
            error = (receipt or {}).get("failure") or (place / "receipts" / f"{name}.err").read_text().strip().splitlines()[-1:]
            lines.append(f"| `{command}` | | | | not kept: {error if isinstance(error, str) else ' '.join(error)} |")
            continue
        error = (place / "calls" / f"{name}.err").read_text() if (place / "calls" / f"{name}.err").exists() else "not sent"
        refused = result is None and "not sent" not in error and "nknown tool" not in error
        answers = refused or result is not None and "content" in result
        answered += answers
        how = "answers" + (", with an error" if refused or answers and result.get("isError") else "") if answers else "no answer"
        package = receipt.get("package", {})
        offer, kept = receipt["offer"], receipt.get("kept", {})
        memory = receipt.get("peak_memory", 0) >> 20
        lines.append(
            f"| `{package.get('name', command)}` {package.get('version', '')} | {len(offer['tools'])} / {offer['tokens']} "
            f"| {memory} MiB, {receipt['processes']} | {touched(receipt)} | `{kept.get('sandbox', '')}` | {call.split()[0]}: {how} |"
        )
    print(HEAD, end="")
    print(f"{answered} of {tried} kept servers answer a call.\n")
    print("| package | tools / tokens | memory, processes | touched before the first call | kept `sandbox` | call |")
    print("| --- | --- | --- | --- | --- | --- |")
    home = str(place / "home")
    print("\n".join(lines).replace(home, "~").replace("|  |", "| |"))
    print(NOTES, end="")


main(*sys.argv[1:])
