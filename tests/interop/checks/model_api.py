"""A model on loopback that calls one tool and then repeats its result: for clients that call tools only for a model.

It speaks what the clients speak: Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's generateContent.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "echo"


class Model:
    """Runs between `with` and its end."""

    def __init__(self, tool, arguments):
        """`tool`: how the name of the tool ends, to which clients add prefixes of their own."""
        self._tool, self._arguments = tool, arguments
        # The names of tools in each request that had some.
        self.offered = []
        # The requests whose path is unknown.
        self.unknown = []

    def __enter__(self):
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self._send("application/json", json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._send(*model._answer(self.path, json.loads(body or b"{}")))

            def _send(self, kind, text):
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, path, request):
        for end, protocol in PROTOCOLS.items():
            if path.partition("?")[0].endswith(end):
                names = protocol.tools(request)
                if names:
                    self.offered.append(names)
                name = next((name for name in names if name.endswith(self._tool)), None)
                results = protocol.results(request)
                if name and not results:
                    return protocol.answer(request, (name, self._arguments), None)
                return protocol.answer(request, None, f"the tool returned {results}" if results else "ready")
        self.unknown.append(path)
        return "application/json", "{}"


def texts(value):
    """Every text within a JSON value."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return " ".join(texts(one) for one in value.values())
    return " ".join(texts(one) for one in value) if isinstance(value, list) else ""


def events(named, every):
    """Server-sent events, with their names if the protocol has them."""
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in every]
    return "text/event-stream", "".join(lines)


class Messages:
    """Anthropic."""

    @staticmethod
    def tools(request):
        return [tool["name"] for tool in request.get("tools", [])]

    @staticmethod
    def results(request):
        blocks = [block for message in request["messages"] for block in message["content"] if isinstance(block, dict)]
        return texts([block.get("content") for block in blocks if block.get("type") == "tool_result"])

    @staticmethod
    def answer(request, call, text):
        usage = {"input_tokens": 1, "output_tokens": 1}
        if call:
            block, delta = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": {}}, {
                "type": "input_json_delta",
                "partial_json": json.dumps(call[1]),
            }
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        reason = "tool_use" if call else "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": usage}
        if not request.get("stream"):
            whole = {**block, "input": call[1]} if call else {**block, "text": text}
            return "application/json", json.dumps({**message, "content": [whole], "stop_reason": reason})
        return events(
            True,
            [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
                {"type": "message_stop"},
            ],
        )


class Counting:
    """Anthropic's counting of tokens."""

    @staticmethod
    def tools(_):
        return []

    @staticmethod
    def results(_):
        return ""

    @staticmethod
    def answer(*_):
        return "application/json", json.dumps({"input_tokens": 1})


class Responses:
    """OpenAI."""

    @staticmethod
    def tools(request):
        tools = [tool for tool in request.get("tools", []) if tool.get("name")]
        nested = [
            f"{tool['name']}{inner['name']}" for tool in tools for inner in tool.get("tools", []) if tool["type"] == "namespace"
        ]
        return [tool["name"] for tool in tools if tool["type"] != "namespace"] + nested

    @staticmethod
    def results(request):
        items = request["input"] if isinstance(request["input"], list) else []
        return texts([item.get("output") for item in items if item.get("type") == "function_call_output"])

    @staticmethod
    def answer(request, call, text):
        if call:
            namespaces = [tool["name"] for tool in request["tools"] if tool.get("type") == "namespace"]
            namespace = next((one for one in namespaces if call[0].startswith(one)), None)
            item = {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": call[0].removeprefix(namespace or ""),
                "arguments": json.dumps(call[1]),
                **({"namespace": namespace} if namespace else {}),
            }
        else:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            item = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": "resp_1", "object": "response", "model": MODEL, "output": [], "usage": None}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        if not request.get("stream"):
            return "application/json", json.dumps(done)
        return events(
            True,
            [
                {"type": "response.created", "response": response},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": done},
            ],
        )


class Completions:
    """OpenAI's older protocol, which others have, too."""

    @staticmethod
    def tools(request):
        return [tool["function"]["name"] for tool in request.get("tools", []) if tool.get("type") == "function"]

    @staticmethod
    def results(request):
        return texts([message["content"] for message in request["messages"] if message["role"] == "tool"])

    @staticmethod
    def answer(request, call, text):
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
        else:
            message = {"role": "assistant", "content": text}
        reason = "tool_calls" if call else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "c_1", "created": 1, "model": MODEL, "usage": usage}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return "application/json", json.dumps({**whole, "object": "chat.completion", "choices": [choice]})
        chunk = {**whole, "object": "chat.completion.chunk"}
        first = {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        kind, body = events(False, [first, last])
        return kind, body + "data: [DONE]\n\n"


class Gemini:
    """Google."""

    STREAMS = False

    @staticmethod
    def tools(request):
        return [one["name"] for tool in request.get("tools", []) for one in tool.get("functionDeclarations", [])]

    @staticmethod
    def results(request):
        parts = [part for content in request["contents"] for part in content.get("parts", [])]
        return texts([part["functionResponse"]["response"] for part in parts if "functionResponse" in part])

    @classmethod
    def answer(cls, _, call, text):
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        response = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}
        return events(False, [response]) if cls.STREAMS else ("application/json", json.dumps(response))


class StreamingGemini(Gemini):
    STREAMS = True


# By the end of the path.
PROTOCOLS = {
    "/messages": Messages,
    "/messages/count_tokens": Counting,
    "/responses": Responses,
    "/chat/completions": Completions,
    ":generateContent": Gemini,
    ":streamGenerateContent": StreamingGemini,
}
