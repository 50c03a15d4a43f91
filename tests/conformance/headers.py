"""What headers repeat of a message's body in the stateless era, and have to repeat truly.

Source: MCP 2026-07-28, `basic/transports/streamable-http`.
"""

import base64
import binascii

RESERVED = "io.modelcontextprotocol/"
# The param that `Mcp-Name` repeats.
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def mismatch(headers, message):
    """The header that contradicts the body, or `None`."""
    method, params = message.get("method"), message.get("params", {})
    version = metadata(message).get(RESERVED + "protocolVersion", headers["MCP-Protocol-Version"])
    expected = {"Mcp-Method": method, "MCP-Protocol-Version": version}
    if method in NAMES:
        expected["Mcp-Name"] = params.get(NAMES[method])
    for name, value in expected.items():
        if headers[name] is None or _decoded(headers[name].strip()) != value:
            return f"{name} is {headers[name]!r}, and the body says {value!r}"
    return None


def metadata(message):
    return message.get("params", {}).get("_meta", {})


def lacks_metadata(request):
    return any(RESERVED + name not in metadata(request) for name in ("protocolVersion", "clientCapabilities"))


def _decoded(value):
    """The decoded value of a header that may be in base64; `None` if the base64 is invalid."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
