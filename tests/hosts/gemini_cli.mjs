// Gemini CLI: every page at connection and after `list_changed`; reads what was listed, mentioned as `@server:uri`.
//
// Its sources: packages/core/src/tools/mcp-client.ts, packages/cli/src/ui/hooks/atCommandProcessor.ts.

import { texts } from "./checks.mjs";
import { refusal } from "./wire.mjs";
import { everyPage, notified, open, relists } from "./sdk.mjs";

// How far a mention reaches in what a person types.
const mentioned = (typed) => /^(?:[^\s,;!?()[\]{}.]|\.(?=\S))*/.exec(typed)[0];

const list = (client) =>
  everyPage((cursor) => client.listResources(cursor === undefined ? {} : { cursor }), "resources");

async function replay(seen) {
  const { source } = seen;
  const client = await open(seen, { name: "gemini-cli-mcp-client-replay", version: "0.0.1" });
  const has = client.getServerCapabilities();
  if (has.prompts) await client.listPrompts();
  const { tools } = await client.listTools();
  seen.definitions(tools);
  const told = notified(client, "notifications/resources/list_changed");
  const { found, count } = await list(client);
  seen.listing(found, count);
  const listed = new Set(found.map((resource) => resource.uri));
  seen.check("connects", "something is offered", tools.length + listed.size > 0, true);

  for (const uri of listed) {
    const reached = mentioned(`${uri} and more`);
    if (uri.endsWith(".")) seen.limit("final dots", reached !== uri, reached);
    else if (reached !== uri) seen.check("reads", `${uri} can be mentioned`, reached, uri);
  }
  for (const path of Object.keys(source.documents)) {
    const uri = found.find((resource) => source.path(resource.uri) === path)?.uri;
    if (uri !== undefined) seen.read(path, (await client.readResource({ uri })).contents);
    else if (source.listed !== null) seen.limit("unlisted", true, path);
  }
  for (const path of source.hidden) {
    const error = await refusal(client.readResource({ uri: source.uri(path) }));
    seen.check("reads", `${path} is refused`, error?.code, -32002);
  }
  await relists(seen, told, async () => (await list(client)).found);
  await seen.ask((name, given) => client.callTool({ name, arguments: given }), texts);
}

export default {
  name: "Gemini CLI",
  abilities: {
    connects: "2025-11-25",
    lists: "every page",
    large: "10,000 of them",
    reads: "listed files",
    images: "files, tools",
    changes: "the list",
    tools: "text",
  },
  limits: {
    unlisted: "It reads only what was listed: what is below `listed: false`, rows, and what a bounded listing leaves out are reached by tools.",
    "final dots": "A mention ends before a final `.`: such a file is reached by tools.",
  },
  replay,
};
