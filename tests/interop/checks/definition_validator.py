"""Reads {method, result} from each line of stdin, and prints why this Python SDK rejects it, or null.

usage: definition_validator.py VERSION   (the protocol version; only SDK 2.x distinguishes them)
"""

import json
import sys

try:
    from mcp_types import methods

    def parse(method, result):
        methods.parse_server_result(method, sys.argv[1], result)

except ImportError:
    import mcp.types as types

    RESULTS = {
        "tools/list": types.ListToolsResult,
        "prompts/list": types.ListPromptsResult,
        "resources/list": types.ListResourcesResult,
        "resources/templates/list": types.ListResourceTemplatesResult,
        "tools/call": types.CallToolResult,
    }

    def parse(method, result):
        RESULTS[method].model_validate(result)


for line in sys.stdin:
    message = json.loads(line)
    try:
        parse(message["method"], message["result"])
        print("null")
    except Exception as error:
        print(json.dumps(" ".join(str(error).split())))
