"""A legacy server whose lists are read from a file: an object with the result of each method. `tools/call` answers with `arguments.result`.

usage: odd_server.py FILE
"""

import json
import sys

with open(sys.argv[1]) as file:
    RESULTS = json.load(file)
CAPABILITIES = {"tools": {}, "prompts": {}, "resources": {}}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            info = {"name": "odd", "version": "1"}
            version = message["params"]["protocolVersion"]
            answer["result"] = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/call":
            answer["result"] = message["params"]["arguments"]["result"]
        case "ping":
            answer["result"] = {}
        case method if method in RESULTS:
            answer["result"] = RESULTS[method]
        case _:
            answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
