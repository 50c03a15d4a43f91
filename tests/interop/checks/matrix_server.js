// A server on either line of the TypeScript SDK, written as people write them there: line 1 speaks the era of `initialize`,
// line 2 the stateless one as well.
//
// usage: node matrix_server.js MODULES sdk|server NAME

const { createRequire } = require("node:module");

const [modules, line, name] = process.argv.slice(2);
const sdk = createRequire(`${modules}/`);
const { z } = sdk("zod");
const WATCHED = `matrix://${name}/watched`;
const PERSON = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const QUESTION = { mode: "form", message: "Who are you?", requestedSchema: PERSON };
const cancelled = new Set();

const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const hello = (content) => text(`Hello, ${content.name}!`);
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

/** What the lines have different words for: how a call notifies, knows its token, is args up, logs and asks. */
const LINES = {
  sdk: {
    of: (extra) => ({ notify: extra.sendNotification, token: extra._meta?.progressToken, signal: extra.signal }),
    log: (server, _, data) => server.sendLoggingMessage({ level: "warning", data }),
    ask: async (server, extra) => {
      const answer = await server.server.elicitInput(QUESTION, { relatedRequestId: extra.requestId });
      return hello(answer.content);
    },
    serve: (make) => {
      const { StdioServerTransport } = sdk("@modelcontextprotocol/sdk/server/stdio.js");
      const { SubscribeRequestSchema, UnsubscribeRequestSchema } = sdk("@modelcontextprotocol/sdk/types.js");
      const server = make(sdk("@modelcontextprotocol/sdk/server/mcp.js").McpServer);
      for (const schema of [SubscribeRequestSchema, UnsubscribeRequestSchema])
        server.server.setRequestHandler(schema, () => ({}));
      server.connect(new StdioServerTransport());
    },
  },
  server: {
    of: ({ mcpReq }) => ({ notify: mcpReq.notify, token: mcpReq._meta?.progressToken, signal: mcpReq.signal }),
    log: (_, { mcpReq }, data) => mcpReq.log("warning", data),
    ask: async (_, { mcpReq }) => {
      const { acceptedContent, inputRequired } = sdk("@modelcontextprotocol/server");
      const person = acceptedContent(mcpReq.inputResponses, "who");
      return person ? hello(person) : inputRequired({ inputRequests: { who: inputRequired.elicit(QUESTION) } });
    },
    serve: (make) =>
      sdk("@modelcontextprotocol/server/stdio").serveStdio(() => make(sdk("@modelcontextprotocol/server").McpServer)),
  },
};
const { of, log, ask, serve } = LINES[line];

async function progress(context, done, total) {
  const { notify, token } = of(context);
  if (token !== undefined)
    await notify({ method: "notifications/progress", params: { progressToken: token, progress: done, total } });
}

function make(McpServer) {
  const capabilities = { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} };
  const server = new McpServer({ name: "matrix", version: "1" }, { capabilities });
  const tool = (name, shape, handler) => server.registerTool(name, { inputSchema: z.object(shape) }, handler);

  tool("echo", { text: z.string() }, async (args) => text(args.text));
  tool("fail", {}, async () => {
    throw new Error("on purpose");
  });
  tool("count", { to: z.number() }, async ({ to }, context) => {
    for (let number = 1; number <= to; number++) {
      await progress(context, number, to);
      await pause(30);
    }
    // Delay, so that slow agents receive the notification before the result.
    await pause(150);
    return text(`counted to ${to}`);
  });
  // Waits until the call is cancelled.
  tool("wait", { name: z.string() }, async ({ name }, context) => {
    const over = new Promise((over) => of(context).signal.addEventListener("abort", over));
    await progress(context, 0, 1);
    await over;
    cancelled.add(name);
    return text("given up");
  });
  tool("was_cancelled", { name: z.string() }, async ({ name }) => text(cancelled.has(name)));
  tool("ask", {}, (_, context) => ask(server, context));
  tool("log", { text: z.string() }, async (args, context) => {
    await log(server, context, args.text);
    return text("logged");
  });
  const changed = tool("changed", {}, async () => text("here for now"));
  changed.disable();
  tool("change", {}, async () => {
    changed.enabled ? changed.disable() : changed.enable();
    return text("changed");
  });
  server.registerResource("watched", WATCHED, {}, async (uri) => ({
    contents: [{ uri: uri.href, text: "the same as ever" }],
  }));
  tool("touch", {}, async () => {
    await server.server.sendResourceUpdated({ uri: WATCHED });
    return text("touched");
  });
  return server;
}

serve(make);
