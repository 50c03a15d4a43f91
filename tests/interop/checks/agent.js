// One agent built on a TypeScript SDK: connects, lists, calls, prints the results, and stays until its stdin ends.
//
// usage: node agent.js JSON, which holds
//   modules  the node_modules with the SDK
//   sdk      "sdk" for line 1, "client" for line 2
//   socket   path to connect to by lines, or
//            the members of an address of `Daemon.address`
//   calls    [{name, arguments}]

const { createRequire } = require("node:module");
const net = require("node:net");
const { connecting } = require("./transport.js");

const config = JSON.parse(process.argv[2]);
const sdk = createRequire(`${config.modules}/`);
const { Client, ReadBuffer, serializeMessage } = {
  sdk: () => ({
    ...sdk("@modelcontextprotocol/sdk/client/index.js"),
    ...sdk("@modelcontextprotocol/sdk/shared/stdio.js"),
  }),
  client: () => ({ ...sdk("@modelcontextprotocol/client"), ...sdk("@modelcontextprotocol/client/stdio") }),
}[config.sdk]();

/** All that it takes to have an SDK speak over a Unix socket. */
class SocketTransport {
  constructor(path) {
    this.path = path;
  }

  start() {
    const received = new ReadBuffer();
    this.socket = net.connect(this.path);
    this.socket.on("close", () => this.onclose?.());
    this.socket.on("error", (error) => this.onerror?.(error));
    this.socket.on("data", (bytes) => {
      received.append(bytes);
      for (let message; (message = received.readMessage()) !== null; ) this.onmessage?.(message);
    });
    return new Promise((connected) => this.socket.once("connect", connected));
  }

  send(message) {
    return new Promise((sent) => this.socket.write(serializeMessage(message), sent));
  }

  async close() {
    this.socket.destroy();
  }
}

async function outcome(client, call) {
  try {
    return { result: await client.callTool(call) };
  } catch ({ code, message }) {
    return { error: { code, message } };
  }
}

async function main() {
  const isOnLines = config.socket && !config.url;
  const transport = isOnLines ? new SocketTransport(config.socket) : connecting(sdk, config.sdk, config);
  // Line 2 asks for the modern era first, and needs an answer to go on; line 1 does not know the option.
  const client = new Client({ name: "interop", version: "1" }, { versionNegotiation: { mode: "auto" } });
  const start = performance.now();
  await client.connect(transport);
  const seconds = (performance.now() - start) / 1000;
  const { tools } = await client.listTools();
  const outcomes = [];
  for (const call of config.calls) outcomes.push(await outcome(client, call));
  console.log(JSON.stringify({ seconds, tools, outcomes }));
  process.stdin.resume().once("end", () => client.close());
}

main();
