// An agent on either line of the TypeScript SDK, which prints as JSON what it observed of each server.
//
// usage: node matrix_agent.js JSON, with the members of matrix_agent.py, and
//   modules  the node_modules with the SDK
//   sdk      "sdk" for line 1, "client" for line 2

const { createRequire } = require("node:module");
const { connecting } = require("./transport.js");

const config = JSON.parse(process.argv[2]);
const sdk = createRequire(`${config.modules}/`);
const LEVEL = "io.modelcontextprotocol/logLevel";
const TIMEOUT = 60_000;

const { Client, elicitation } = {
  sdk: () => ({
    ...sdk("@modelcontextprotocol/sdk/client/index.js"),
    elicitation: sdk("@modelcontextprotocol/sdk/types.js").ElicitRequestSchema,
  }),
  client: () => ({
    ...sdk("@modelcontextprotocol/client"),
    elicitation: "elicitation/create",
  }),
}[config.sdk]();

const pause = (ms) => new Promise((over) => setTimeout(over, ms));
const until = async (met) => {
  while (!(await met())) await pause(10);
};

/** The connected client and the notifications that it has received. It answers every form with the name Ada. */
class Agent {
  received = [];

  async connect() {
    const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: config.mode } };
    this.client = new Client({ name: "matrix", version: "1" }, options);
    this.client.setRequestHandler(elicitation, () => ({ action: "accept", content: { name: "Ada" } }));
    this.client.fallbackNotificationHandler = async (notification) => this.received.push(notification);
    await this.client.connect(connecting(sdk, config.sdk, config));
    this.isModern = (this.client.getNegotiatedProtocolVersion?.() ?? "") >= "2026-07-28";
    // Servers without a settable level log everything.
    if (!this.isModern) await this.client.setLoggingLevel("info").catch(() => {});
  }

  async names() {
    const { tools } = await this.client.listTools();
    return tools.map(({ name }) => name);
  }

  call(name, given = {}, options = {}) {
    const _meta = this.isModern ? { _meta: { [LEVEL]: "info" } } : {};
    const params = { name: this.prefix + name, arguments: given, ..._meta };
    return config.sdk === "sdk" ? this.client.callTool(params, undefined, options) : this.client.callTool(params, options);
  }

  async text(name, given, options) {
    const { content } = await this.call(name, given, options);
    return content[0].text;
  }

  /** Does something while it hears of the tools, and of the resource, in the way of the era. */
  async listening(uri, act) {
    if (this.isModern) {
      const wanted = { toolsListChanged: true, ...(uri && { resourceSubscriptions: [uri] }) };
      const subscription = await this.client.listen(wanted);
      await act();
      return subscription.close();
    }
    if (uri) await this.client.subscribeResource({ uri });
    await act();
    if (uri) await this.client.unsubscribeResource({ uri });
  }

  hear(method, uri) {
    return until(() => this.received.some((one) => one.method === method && one.params?.uri === uri));
  }
}

const CHECKS = {
  lists: async (agent) => {
    const names = (await agent.names()).filter((name) => name.startsWith(agent.prefix));
    return names.map((name) => name.slice(agent.prefix.length)).filter((name) => name !== "changed").sort();
  },
  calls: (agent) => agent.text("echo", { text: "ä\n" }),
  errors: async (agent) => {
    const { isError, content } = await agent.call("fail");
    return [isError, content[0].text.includes("on purpose")];
  },
  progress: async (agent) => {
    const progress = [];
    const text = await agent.text("count", { to: 3 }, { onprogress: (one) => progress.push([one.progress, one.total]) });
    return [progress, text];
  },
  asks: (agent) => agent.text("ask"),
  logs: async (agent) => {
    agent.received = [];
    const text = await agent.text("log", { text: "for the log" });
    const logged = () => agent.received.filter(({ method }) => method === "notifications/message");
    await until(() => logged().length > 0);
    return [text, logged().map(({ params }) => params.data)];
  },
  changes: async (agent) => {
    const isThere = async () => (await agent.names()).includes(`${agent.prefix}changed`);
    const before = await isThere();
    await agent.listening(undefined, async () => {
      agent.received = [];
      await agent.text("change");
      await agent.hear("notifications/tools/list_changed");
    });
    await until(async () => (await isThere()) !== before);
    return "changed";
  },
  updates: async (agent) => {
    const { resources } = await agent.client.listResources();
    const { uri } = resources.find(({ uri }) => uri === `matrix://${agent.server}/watched`);
    await agent.listening(uri, async () => {
      agent.received = [];
      await agent.text("touch");
      await agent.hear("notifications/resources/updated", uri);
    });
    return "updated";
  },
  // Last, since the server may still work on a cancelled call.
  cancels: async (agent) => {
    const name = `${config.sdk}-${performance.now()}`;
    const giveUp = new AbortController();
    const options = { onprogress: () => giveUp.abort("enough"), signal: giveUp.signal };
    await agent.call("wait", { name }, options).catch(() => {});
    await until(async () => (await agent.text("was_cancelled", { name })).toLowerCase() === "true");
    return "given up";
  },
};

async function see(agent, check) {
  const late = pause(TIMEOUT).then(() => "nothing in time");
  try {
    return await Promise.race([check(agent), late]);
  } catch (error) {
    return String(error);
  }
}

async function main() {
  const agent = new Agent();
  await agent.connect();
  const observed = { modern: agent.isModern };
  for ([agent.server, agent.prefix] of Object.entries(config.servers)) {
    observed[agent.server] = {};
    const checks = Object.entries(CHECKS).filter(([name]) => config.checks[agent.server].includes(name));
    for (const [name, check] of checks) observed[agent.server][name] = await see(agent, check);
  }
  console.log(JSON.stringify(observed));
  await agent.client.close();
  process.exit();
}

main();
