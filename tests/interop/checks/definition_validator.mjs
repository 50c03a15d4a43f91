// Reads {method, result} from each line of stdin, and prints why a line of the TypeScript SDK rejects it, or null.
// usage: definition_validator.mjs INSTALLED 1|2   (the directory with node_modules, and the major version)
import { createInterface } from "node:readline";
const modules = `${process.argv[2]}/node_modules/@modelcontextprotocol`;
const NAMES = {
  "tools/list": "ListToolsResult",
  "prompts/list": "ListPromptsResult",
  "resources/list": "ListResourcesResult",
  "resources/templates/list": "ListResourceTemplatesResult",
  "tools/call": "CallToolResult",
};
const issues = (found) => found.map((issue) => `${issue.path?.join(".")}: ${issue.message}`).join("; ");
const lines = {
  1: async () => {
    const types = await import(`${modules}/sdk/dist/esm/types.js`);
    const { AjvJsonSchemaValidator } = await import(`${modules}/sdk/dist/esm/validation/ajv-provider.js`);
    return ({ method, result }) => {
      const parsed = types[`${NAMES[method]}Schema`].safeParse(result);
      if (!parsed.success) return issues(parsed.error.issues);
      try {
        // As `Client.listTools` does.
        for (const tool of parsed.data.tools ?? []) if (tool.outputSchema) new AjvJsonSchemaValidator().getValidator(tool.outputSchema);
        return null;
      } catch (error) {
        return String(error.message);
      }
    };
  },
  2: async () => {
    const { specTypeSchemas } = await import(`${modules}/client/dist/index.mjs`);
    return ({ method, result }) => {
      const found = specTypeSchemas[NAMES[method]]["~standard"].validate(result).issues;
      return found ? issues(found) : null;
    };
  },
};
const rejection = await lines[process.argv[3]]();
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(rejection(JSON.parse(line))));
