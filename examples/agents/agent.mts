// An agent in TypeScript, with line 2 of the SDK: lists the tools, calls one, prints its answer.
//
//     npm install @modelcontextprotocol/client
//     node agent.mts [TOOL [ARGUMENTS-AS-JSON]]      (from Node 22.18 on; before: npx tsx agent.mts)

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [tool = "demo__echo", json = '{"text": "hello"}'] = process.argv.slice(2);
const client = new Client({ name: "agent", version: "1" });
try {
  // Launched as any server on stdio is.
  await client.connect(new StdioClientTransport({ command: "mcpd", args: ["connect"] }));
  const { tools } = await client.listTools();
  console.log("tools:", ...tools.map(({ name }) => name));
  const { content, isError } = await client.callTool({ name: tool, arguments: JSON.parse(json) });
  const text = content.map((block) => (block.type === "text" ? block.text : JSON.stringify(block))).join("\n");
  if (isError) throw new Error(`${tool} failed: ${text}`);
  console.log(text);
} catch (error) {
  console.error(`agent: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
} finally {
  await client.close();
}
