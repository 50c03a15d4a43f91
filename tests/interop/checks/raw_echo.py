"""A server that answers a call with the received line, byte for byte."""

import json
import re
import sys

RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "raw-echo", "version": "1"},
    },
    "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "fail")]},
}
# An unusual spelling of a response. Its result is valid, as others are mended.
ANSWERS = {
    "echo": b'{"jsonrpc":"2.0" ,"id":%(id)b,"result" : { "content":[ ] ,"x-line":%(line)b}}',
    "fail": b' { "x-\\u0061":1e400,"id"\t: %(id)b,"error" :{"code":-32000,"message":"","data":%(line)b },"jsonrpc":"2.0"}  ',
}
# Lines are not parsed, since their contents may exceed a parser.
ID = re.compile(rb'"id"\s*:\s*(\d+)')
FAIL = re.compile(rb'"name"\s*:\s*"fail"')


def answer(line, id):
    if b'"tools/call"' in line:
        return ANSWERS["fail" if FAIL.search(line) else "echo"] % {b"id": id, b"line": line}
    result = RESULTS.get(json.loads(line)["method"], {})
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, json.dumps(result).encode())


def main():
    for line in sys.stdin.buffer:
        line = line.rstrip(b"\n")
        if id := ID.search(line):
            sys.stdout.buffer.write(answer(line, id[1]) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
