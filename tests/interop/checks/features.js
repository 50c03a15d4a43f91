// What features.py checks, with line 1 of the TypeScript SDK: for each feature that a line of its stdin names, it prints the observation as JSON.
//
// usage: node features.js JSON, which holds
//   modules   the node_modules with the SDK
//             the members of an address of `Daemon.address`
//   prefix    what stands before the server's own names there
//   declares  names of capabilities that the client has: sampling, elicitation, roots

const assert = require("node:assert");
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");
const { connecting } = require("./transport.js");

const config = JSON.parse(process.argv[2]);
const sdk = createRequire(`${config.modules}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");

const DOCUMENT = "demo://resource/static/document/features.md";
const OTHER = "demo://resource/dynamic/text/7";
const LONG = "trigger-long-running-operation";
const ROOTS = ["one", "two"].map((name) => ({ uri: `file:///${name}`, name }));

const pause = (ms) => new Promise((over) => setTimeout(over, ms));

/** A client that records notifications and requests, and answers requests for the capabilities that it declares. */
class Agent {
  constructor() {
    this.forget();
    this.roots = 1;
    const all = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
    const capabilities = Object.fromEntries(config.declares.map((name) => [name, all[name]]));
    this.client = new Client({ name: "features", version: "1" }, { capabilities });
    this.client.fallbackNotificationHandler = async (notification) => this.received.push(notification);
    this.client.onerror = (error) => this.strays.push(String(error));
    for (const name of config.declares) this.answers[name]();
  }

  /** The notifications and requests so far. */
  forget() {
    this.received = [];
    this.requests = [];
    this.strays = [];
  }

  /** For each capability what answers the requests that come with it. */
  answers = {
    sampling: () =>
      this.client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => {
        this.requests.push(params);
        const content = { type: "text", text: `sampled: ${params.messages[0].content.text}` };
        return { role: "assistant", model: "none", content };
      }),
    elicitation: () =>
      this.client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
        this.requests.push(params);
        const content = params.mode === "url" ? {} : { content: { name: "Ada", integer: 7 } };
        return { action: "accept", ...content };
      }),
    roots: () =>
      this.client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: ROOTS.slice(0, this.roots) })),
  };

  connect() {
    return this.client.connect(connecting(sdk, "sdk", config, { stderr: "ignore" }));
  }

  call(name, args = {}, options = undefined) {
    return this.client.callTool({ name: config.prefix + name, arguments: args }, undefined, options);
  }

  async texts(name, args) {
    return (await this.call(name, args)).content.map(({ text }) => text);
  }

  /** The error that a request is answered with. */
  async refusal(ask) {
    const result = await ask.catch(({ code, message, data }) => ({ code, message, data }));
    assert(result.code, "not refused");
    return result;
  }

  /** What is listed, each under the server's own name. */
  async lists() {
    const { tools } = await this.client.listTools();
    const { prompts } = await this.client.listPrompts();
    const { resources } = await this.client.listResources();
    const { resourceTemplates } = await this.client.listResourceTemplates();
    for (const named of [...tools, ...prompts]) {
      assert(named.name.startsWith(config.prefix));
      named.name = named.name.slice(config.prefix.length);
    }
    return [...tools, ...prompts, ...resources, ...resourceTemplates];
  }

  notifications(method) {
    return this.received.filter((notification) => notification.method === `notifications/${method}`);
  }

  /** Waits for a notification for which the condition holds. */
  async hear(method, condition = () => true) {
    while (!this.notifications(method).some(condition)) await pause(10);
  }

  /** Has the server tell once of everything that is subscribed to. */
  async haveUpdates() {
    for (let time = 0; time < 2; time++) await this.call("toggle-subscriber-updates");
  }
}

const features = {
  async lists(agent) {
    // Until an instance of the agent's own is up, lists are what the server is known to offer. A call waits for it.
    await agent.call("echo", { message: "up" });
    let before;
    let now = JSON.stringify(await agent.lists());
    while (now !== before) {
      await pause(300);
      [before, now] = [now, JSON.stringify(await agent.lists())];
    }
    return now;
  },

  async tools(agent) {
    return [
      await agent.call("echo", { message: "ä" }),
      await agent.call("get-structured-content", { location: "Chicago" }),
      await agent.call("get-annotated-message", { messageType: "error", includeImage: true }),
      await agent.call("get-sum", { a: "no number" }),
    ];
  },

  async resources(agent) {
    const [document] = (await agent.client.readResource({ uri: DOCUMENT })).contents;
    const [dynamic] = (await agent.client.readResource({ uri: OTHER })).contents;
    const refusal = await agent.refusal(agent.client.readResource({ uri: "demo://resource/dynamic/text/0" }));
    return [document, dynamic.uri, dynamic.mimeType, refusal];
  },

  async subscriptions(agent) {
    await agent.client.subscribeResource({ uri: DOCUMENT });
    await agent.client.subscribeResource({ uri: OTHER });
    await agent.haveUpdates();
    await agent.hear("resources/updated", ({ params }) => params.uri === OTHER);
    await agent.client.unsubscribeResource({ uri: DOCUMENT });
    const count = agent.notifications("resources/updated").length;
    await agent.haveUpdates();
    while (agent.notifications("resources/updated").length === count) await pause(10);
    await agent.client.unsubscribeResource({ uri: OTHER });
    return agent.notifications("resources/updated");
  },

  async prompts(agent) {
    const get = async (name, args) => {
      const got = await agent.client.getPrompt({ name: config.prefix + name, arguments: args });
      return got.messages[0].content;
    };
    return [
      await get("simple-prompt"),
      await get("args-prompt", { city: "Köln" }),
      await get("resource-prompt", { resourceType: "Text", resourceId: "7" }),
      await agent.refusal(get("args-prompt")),
    ];
  },

  async completion(agent) {
    const complete = async (ref, name, value, context) =>
      (await agent.client.complete({ ref, argument: { name, value }, context })).completion;
    const prompt = { type: "ref/prompt", name: `${config.prefix}completable-prompt` };
    const template = { type: "ref/resource", uri: "demo://resource/dynamic/text/{resourceId}" };
    return [
      await complete(prompt, "department", "S"),
      await complete(prompt, "name", "", { arguments: { department: "Sales" } }),
      await complete(template, "resourceId", "12"),
      await complete(template, "resourceId", "x"),
    ];
  },

  async logging(agent) {
    await agent.client.setLoggingLevel("debug");
    await agent.client.subscribeResource({ uri: OTHER });
    await agent.hear("message");
    await agent.client.setLoggingLevel("warning");
    await agent.client.unsubscribeResource({ uri: OTHER });
    await agent.client.ping();
    return agent.notifications("message");
  },

  async progress(agent) {
    const counts = { 2: [], 3: [] };
    const one = (steps) =>
      agent.call(LONG, { duration: 0.1 * steps, steps }, { onprogress: (progress) => counts[steps].push(progress) });
    await Promise.all(Object.keys(counts).map((steps) => one(Number(steps))));
    // The SDK has forgotten the call if it reads the last together with the answer.
    return [counts[2].slice(0, 1), counts[3].slice(0, 2)];
  },

  async cancellation(agent) {
    const cancelled = new AbortController();
    const options = { onprogress: () => cancelled.abort("enough"), signal: cancelled.signal };
    const refusal = await agent.refusal(agent.call(LONG, { duration: 0.4, steps: 4 }, options));
    // By the end of this one the other would have ended too, and its answer be a stray.
    const ended = await agent.texts(LONG, { duration: 0.4, steps: 1 });
    return [refusal.message, ended, agent.strays.filter((stray) => stray.includes("unknown message ID"))];
  },

  async list_changes(agent) {
    const before = (await agent.lists()).map((item) => item.uri);
    await agent.call("gzip-file-as-resource", { name: "new.gz", data: "data:text/plain,new" });
    await agent.hear("resources/list_changed");
    let found;
    while (!found) found = (await agent.lists()).find(({ uri }) => uri && !before.includes(uri));
    return [found, await agent.client.readResource({ uri: found.uri })];
  },

  async sampling(agent) {
    return [await agent.texts("trigger-sampling-request", { prompt: "mark", maxTokens: 7 }), agent.requests];
  },

  async elicitation(agent) {
    return [await agent.texts("trigger-elicitation-request"), agent.requests];
  },

  async url_elicitation(agent) {
    const link = { url: "https://example.org/x", elicitationId: "e-1" };
    const texts = await agent.texts("trigger-url-elicitation", link);
    const refusal = await agent.refusal(agent.call("trigger-url-elicitation", { ...link, errorPath: true }));
    const [required] = refusal.data.elicitations;
    return [texts, agent.requests, refusal.code, required.mode, required.url, Boolean(required.elicitationId)];
  },

  async roots(agent) {
    const one = await agent.texts("get-roots-list");
    agent.roots = 2;
    await agent.client.sendRootsListChanged();
    // Which the server says unasked.
    await agent.hear("message", ({ params }) => params.data.startsWith("Roots updated: 2 "));
    return [one, await agent.texts("get-roots-list")];
  },

  async tasks(agent) {
    const { tasks } = agent.client.experimental;
    const make = (topic) => {
      const params = { name: `${config.prefix}simulate-research-query`, arguments: { topic }, task: { ttl: 60000 } };
      return agent.client.request({ method: "tools/call", params }, types.CreateTaskResultSchema);
    };
    const { taskId, status } = (await make("mark")).task;
    const states = [status, (await tasks.getTask(taskId)).status];
    const listed = (await tasks.listTasks()).tasks.map((task) => task.taskId);
    const result = await tasks.getTaskResult(taskId, types.CallToolResultSchema);
    states.push((await tasks.getTask(taskId)).status);
    states.push((await tasks.cancelTask((await make("other")).task.taskId)).status);
    assert.deepStrictEqual(listed, [taskId]);
    return [states, result.content];
  },
};

async function main() {
  const agent = new Agent();
  await agent.connect();
  for await (const feature of createInterface({ input: process.stdin })) {
    agent.forget();
    const outcome = await features[feature](agent).then(
      (value) => ({ value }),
      (error) => ({ error: String(error.stack) }),
    );
    console.log(JSON.stringify(outcome));
  }
  await agent.client.close();
}

main();
