// Reads {method, result} from each line of stdin, and prints why the TypeScript SDK 1.x rejects it, or null.
// usage: definition_validator.mjs INSTALLED   (the directory with node_modules)
import { createInterface } from "node:readline";
const sdk = `${process.argv[2]}/node_modules/@modelcontextprotocol/sdk/dist/esm`;
const types = await import(`${sdk}/types.js`);
const { AjvJsonSchemaValidator } = await import(`${sdk}/validation/ajv-provider.js`);
const schemas = {
  "tools/list": types.ListToolsResultSchema,
  "prompts/list": types.ListPromptsResultSchema,
  "resources/list": types.ListResourcesResultSchema,
  "resources/templates/list": types.ListResourceTemplatesResultSchema,
  "tools/call": types.CallToolResultSchema,
};
const rejection = ({ method, result }) => {
  const parsed = schemas[method].safeParse(result);
  if (!parsed.success) return parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).join("; ");
  try {
    // As `Client.listTools` does.
    for (const tool of parsed.data.tools ?? []) if (tool.outputSchema) new AjvJsonSchemaValidator().getValidator(tool.outputSchema);
    return null;
  } catch (error) {
    return String(error.message);
  }
};
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(rejection(JSON.parse(line))));
