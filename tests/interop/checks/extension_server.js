// A server of the TypeScript SDK with the extensions for skills and for apps.
//
// usage: node extension_server.js MODULES NAME DIRECTORY, which has the skills

const { createRequire } = require("node:module");

const [modules, name, directory] = process.argv.slice(2);
const sdk = createRequire(`${modules}/`);
const VIEW = `ui://${name}/view.html`;

async function main() {
  const { registerAppTool, registerAppResource, RESOURCE_MIME_TYPE } = await import(sdk.resolve("@modelcontextprotocol/ext-apps/server"));
  const { McpServer } = sdk("@modelcontextprotocol/server");
  const skills = await sdk("@modelcontextprotocol/server/ext/skills/node").loadSkills(directory);
  const make = () => {
    const server = new McpServer({ name, version: "1" });
    skills.attach(server);
    const config = { inputSchema: { text: sdk("zod").z.string() }, _meta: { ui: { resourceUri: VIEW } } };
    registerAppTool(server, "show", config, async ({ text }) => ({ content: [{ type: "text", text: `shown: ${text}` }] }));
    const ui = { prefersBorder: true };
    const contents = [{ uri: VIEW, mimeType: RESOURCE_MIME_TYPE, text: "<!doctype html><title>ä</title>", _meta: { ui } }];
    registerAppResource(server, "view", VIEW, { _meta: { ui } }, async () => ({ contents }));
    return server;
  };
  sdk("@modelcontextprotocol/server/stdio").serveStdio(make);
}

main();
