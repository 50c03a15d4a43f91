// A server on line 2 of the TypeScript SDK that has something of every feature of the stateless era.
//
// usage: node modern_everything.js MODULES

const { createRequire } = require("node:module");

const sdk = createRequire(`${process.argv[2]}/`);
const { McpServer, ResourceTemplate, completable, inputRequired } = sdk("@modelcontextprotocol/server");
const { z } = sdk("zod");
const WATCHED = "demo://watched";
const PERSON = { type: "object", properties: { name: { type: "string", title: "Näme" } }, required: ["name"] };
const QUESTIONS = {
  form: inputRequired.elicit({ mode: "form", message: "Who are you?", requestedSchema: PERSON }),
  link: inputRequired.elicitUrl({ message: "Open it", url: "https://example.org/x" }),
  sample: inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: "ä" } }], maxTokens: 7 }),
  roots: inputRequired.listRoots(),
};

const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

function make() {
  const capabilities = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    extensions: { "example.org/vendor": { x: 1.5 } },
    experimental: { "example.org/y": {} },
  };
  const info = { name: "everything", title: "Ëverything", version: "2" };
  const server = new McpServer(info, { capabilities, instructions: "Use `echo`.\nThen rest." });
  const tool = (name, shape, handler, more = {}) => server.registerTool(name, { inputSchema: z.object(shape), ...more }, handler);

  const annotations = { readOnlyHint: true };
  tool("echo", { text: z.string() }, async (given) => text(given.text), { annotations, _meta: { "example.org/z": 1.5 } });
  tool("structured", {}, async () => ({ ...text('{"sum":1.5}'), structuredContent: { sum: 1.5 } }), {
    outputSchema: z.object({ sum: z.number() }),
  });
  tool("image", {}, async () => ({ content: [{ type: "image", data: "AAAA", mimeType: "image/png", annotations: { priority: 1 } }] }));
  tool("links", {}, async () => ({
    content: [
      { type: "resource_link", uri: WATCHED, name: "watched" },
      { type: "resource", resource: { uri: "demo://embedded", text: "ä" } },
    ],
  }));
  tool("fail", {}, async () => {
    throw new Error("on purpose");
  });
  tool("count", { to: z.number() }, async ({ to }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= to; progress++) {
      if (progressToken !== undefined)
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: to, message: "ä" } });
      await pause(30);
    }
    return text(`counted to ${to}`);
  });
  tool("log", {}, async (_, { mcpReq }) => {
    for (const level of ["debug", "info", "error"]) await mcpReq.log(level, { level, x: 1.5 });
    return text("logged");
  });
  tool("ask", {}, async (_, { mcpReq }) => {
    if (!mcpReq.inputResponses) return inputRequired({ inputRequests: QUESTIONS, requestState: "stäte" });
    return text(JSON.stringify([mcpReq.inputResponses, mcpReq.requestState()]));
  });
  const changing = tool("changing", {}, async () => text("here for now"));
  changing.disable();
  tool("change", {}, async () => {
    changing.enabled ? changing.disable() : changing.enable();
    return text("changed");
  });
  tool("touch", {}, async () => {
    await server.server.sendResourceUpdated({ uri: WATCHED });
    return text("touched");
  });
  server.registerResource("watched", WATCHED, { mimeType: "text/plain", size: 2 }, async (uri) => ({
    contents: [{ uri: uri.href, text: "ä", _meta: { "example.org/m": 1.5 } }],
  }));
  const template = new ResourceTemplate("demo://item/{id}", { complete: { id: (value) => [`${value}1`, `${value}2`] } });
  server.registerResource("item", template, {}, async (uri, { id }) => ({ contents: [{ uri: uri.href, blob: "AAAA", mimeType: id }] }));
  const city = completable(z.string(), (value) => ["Köln", "Kiel"].filter((name) => name.startsWith(value)));
  server.registerPrompt("city", { description: "Of a city", argsSchema: z.object({ city }) }, ({ city }) => ({
    messages: [{ role: "user", content: { type: "text", text: city } }],
  }));
  return server;
}

sdk("@modelcontextprotocol/server/stdio").serveStdio(make);
