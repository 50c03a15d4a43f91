// An agent of the TypeScript SDK that uses skills and apps of servers, and prints as JSON what it observed of each.
//
// usage: node extension_agent.js JSON, which holds
//   modules  the node_modules with the SDK
//   command  the command that leads to the servers on stdio
//   servers  the prefix of the tools of each, by its own name

const { createHash } = require("node:crypto");
const { createRequire } = require("node:module");

const config = JSON.parse(process.argv[2]);
const sdk = createRequire(`${config.modules}/`);
const TIMEOUT = 60_000;
const UI = "io.modelcontextprotocol/ui";
const HTML = "text/html;profile=mcp-app";
const SKILLS = "io.modelcontextprotocol/skills";

const digest = (bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
const outcome = (request) => request.then((result) => ({ result }), (error) => ({ code: error.code }));

/** What there is to see of the skills of a server: entries, files with their digests, directories. */
async function skills(client, server) {
  const { SkillsClient } = sdk("@modelcontextprotocol/client/ext/skills");
  const skills = new SkillsClient(client);
  const entries = (await skills.list()).skills.filter(({ uri }) => uri.includes(`/${server}-`));
  const observed = [];
  for (const entry of entries) {
    const { skill } = await skills.get(entry.uri);
    const files = [];
    for (const { uri } of entry.resources) {
      const { bytes, verified, mimeType } = await skills.read(entry, uri);
      files.push({ uri, verified, mimeType, digest: digest(bytes) });
    }
    const root = entry.uri.replace(/\/SKILL\.md$/, "");
    // In the aggregate this depends on the server.
    const children = skills.directoryRead ? await outcome(skills.readDirectory(root)) : {};
    const directory = children.result?.resources ?? "none";
    observed.push({ entry, isSame: JSON.stringify(skill) === JSON.stringify(entry), files, directory });
  }
  return { observed, unknown: await outcome(skills.get(`skill://${server}-none/SKILL.md`)) };
}

/** What a host does with an app: the tool has a view, which calls the tool by the server's own name. */
async function app(client, server, prefix) {
  const { App } = await import(sdk.resolve("@modelcontextprotocol/ext-apps"));
  const { AppBridge, getToolUiResourceUri } = await import(sdk.resolve("@modelcontextprotocol/ext-apps/app-bridge"));
  const { InMemoryTransport } = sdk("@modelcontextprotocol/client");
  const { tools } = await client.listTools();
  const tool = tools.find(({ name }) => name === `${prefix}show`);
  const uri = getToolUiResourceUri(tool);
  const { contents } = await client.readResource({ uri });
  const bridge = new AppBridge(client, { name: "host", version: "1" }, { serverTools: {}, serverResources: {} });
  const view = new App({ name: "view", version: "1" }, {}, { autoResize: false });
  const [host, guest] = InMemoryTransport.createLinkedPair();
  await Promise.all([bridge.connect(host), view.connect(guest)]);
  const call = async (name) => {
    const { content, isError } = await view.callServerTool({ name, arguments: { text: "ä" } });
    return isError ? "an error" : content;
  };
  const read = await view.readServerResource({ uri });
  return {
    meta: tool._meta,
    contents,
    isSame: JSON.stringify(read.contents) === JSON.stringify(contents),
    byExposedName: await call(`${prefix}show`),
    byOwnName: await call("show").catch((error) => String(error.message)),
  };
}

async function main() {
  const { Client } = sdk("@modelcontextprotocol/client");
  const { StdioClientTransport } = sdk("@modelcontextprotocol/client/stdio");
  const capabilities = { extensions: { [UI]: { mimeTypes: [HTML] }, [SKILLS]: {} } };
  const client = new Client({ name: "extensions", version: "1" }, { capabilities, versionNegotiation: { mode: config.mode } });
  await client.connect(new StdioClientTransport({ command: config.command[0], args: config.command.slice(1) }));
  const observed = { version: client.getNegotiatedProtocolVersion(), extensions: client.getServerCapabilities().extensions };
  for (const [server, prefix] of Object.entries(config.servers))
    observed[server] = { skills: await skills(client, server).catch(String), app: await app(client, server, prefix).catch(String) };
  console.log(JSON.stringify(observed));
  process.exit(0);
}

setTimeout(() => process.exit(1), TIMEOUT);
main();
