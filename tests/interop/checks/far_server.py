"""A legacy server that is run on another machine.

usage: far_server.py [deaf]   (deaf: it outlives the end of its input)
"""

import json
import os
import sys
import time

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "wait", "fail")]

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"], message.get("params", {}).get("name"):
        case "initialize", _:
            info, version = {"name": "far", "version": "1"}, message["params"]["protocolVersion"]
            answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list", _:
            answer["result"] = {"tools": TOOLS}
        case "ping", _:
            answer["result"] = {}
        case "tools/call", "pid":
            answer["result"] = {"content": [{"type": "text", "text": str(os.getpid())}]}
        case "tools/call", "wait":
            progress = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
            answer = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        case _:
            answer["error"] = {"code": -32000, "message": "on purpose", "data": {"far": True}}
    print(json.dumps(answer), flush=True)
while "deaf" in sys.argv:
    time.sleep(60)
