// An agent in TypeScript, with line 1 of the SDK: lists the tools, calls one, prints its answer.
//
//     npm install @modelcontextprotocol/sdk
//     node agent-sdk-1.mts [TOOL [ARGUMENTS-AS-JSON]]      (from Node 22.18 on; before: npx tsx agent-sdk-1.mts)

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { CallToolResultSchema, type Tool } from "@modelcontextprotocol/sdk/types.js";

const [tool = "demo__echo", json = '{"text": "hello"}'] = process.argv.slice(2);
const client = new Client({ name: "agent", version: "1" });
try {
  // Launched as any server on stdio is.
  await client.connect(new StdioClientTransport({ command: "mcpd", args: ["connect"] }));
  console.log("tools:", ...(await allTools()).map(({ name }) => name));
  const result = await client.callTool({ name: tool, arguments: JSON.parse(json) });
  const { content, isError } = CallToolResultSchema.parse(result);
  const text = content.map((block) => (block.type === "text" ? block.text : JSON.stringify(block))).join("\n");
  if (isError) throw new Error(`${tool} failed: ${text}`);
  console.log(text);
} catch (error) {
  console.error(`agent: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
} finally {
  await client.close();
}

async function allTools() {
  const all: Tool[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.listTools({ cursor });
    all.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return all;
}
