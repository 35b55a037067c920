// Cline: the first page of each list, asked for together, and again after `list_changed`. It lists, and does not read.
//
// Its source: src/services/mcp/McpHub.ts.

import { texts } from "./checks.mjs";
import { notified, open, relists } from "./sdk.mjs";

const TELLS = "notifications/resources/list_changed";

async function replay(seen) {
  const client = await open(seen, { name: "Cline", version: "3.40.0" });
  seen.check("connects", "the handshake ends", client.getServerVersion()?.name, "resource-server");
  const told = notified(client, TELLS);
  const has = client.getServerCapabilities();
  const [{ tools }, { resources, nextCursor }, { resourceTemplates }] = await Promise.all([
    client.listTools(),
    client.listResources(),
    client.listResourceTemplates(),
    has.prompts ? client.listPrompts() : undefined,
  ]);
  seen.definitions(tools);
  seen.useful(resources);
  if (nextCursor !== undefined) seen.limit("pages", true, resources.length);
  seen.check("templates", "templates are listed", resourceTemplates.length > 0, true);
  // What is new may stand on a later page, which it does not ask for.
  if (nextCursor === undefined) await relists(seen, told, async () => (await client.listResources()).resources);
  await seen.ask((name, given) => client.callTool({ name, arguments: given }), texts);
}

export default {
  name: "Cline",
  abilities: {
    connects: "2025-11-25",
    lists: "the first page",
    large: "the top collections",
    images: "tools",
    templates: "listed",
    changes: "the list",
    tools: "text",
  },
  limits: {
    pages: "It asks for the first page of a list only, and does not read resources: its model uses the tools.",
  },
  replay,
};
