// The transport of either line of the TypeScript SDK to an address of `Daemon.address`.

const http = require("node:http");
const { Readable } = require("node:stream");

const MODULES = {
  sdk: ["@modelcontextprotocol/sdk/client/stdio.js", "@modelcontextprotocol/sdk/client/streamableHttp.js"],
  client: ["@modelcontextprotocol/client/stdio", "@modelcontextprotocol/client"],
};

/** Responses that have no body. */
const EMPTY = [202, 204];

/** A `fetch` that connects to a Unix socket, as an SDK takes one. */
function fetchAt(socketPath) {
  return (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = { socketPath, method, headers: Object.fromEntries(new Headers(headers)), signal };
      const request = http.request(url, options, (response) => {
        const { statusCode: status, headers } = response;
        const content = EMPTY.includes(status) ? response.resume() && null : Readable.toWeb(response);
        resolve(new Response(content, { status, headers }));
      });
      request.once("error", reject).end(body);
    });
}

/** `line` is "sdk" for line 1, "client" for line 2. */
exports.connecting = (sdk, line, { command, url, token, socket }, ofStdio = {}) => {
  const { StdioClientTransport, StreamableHTTPClientTransport } = Object.assign({}, ...MODULES[line].map((name) => sdk(name)));
  if (command) return new StdioClientTransport({ command: command[0], args: command.slice(1), ...ofStdio });
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, ...(socket && { fetch: fetchAt(socket) }) });
};
