// opencode: every page, at most 1,000; a cursor that comes twice fails the whole list.
//
// Its source: packages/opencode/src/mcp/catalog.ts.

import { structured } from "./checks.mjs";
import { refusal } from "./wire.mjs";
import { everyPage, open } from "./sdk.mjs";

const PAGES = 1_000;

function pages(list, member) {
  return everyPage((cursor) => list(cursor === undefined ? undefined : { cursor }), member, {
    goesOn(count) {
      if (count === PAGES) throw new Error(`more than ${PAGES} pages`);
      return true;
    },
  });
}

async function replay(seen) {
  const { source } = seen;
  const client = await open(seen, { name: "opencode", version: "1.2.0" });
  seen.check("connects", "the handshake ends", client.getServerVersion()?.name, "resource-server");
  const [{ found: tools }, { found: resources, count }, { found: templates }] = await Promise.all([
    pages((params) => client.listTools(params), "tools"),
    pages((params) => client.listResources(params), "resources"),
    pages((params) => client.listResourceTemplates(params), "resourceTemplates"),
  ]);
  if (client.getServerCapabilities().prompts) await pages((params) => client.listPrompts(params), "prompts");
  seen.definitions(tools);
  seen.listing(resources, count);
  seen.check("templates", "templates are listed", templates.length > 0, true);
  const names = new Set(resources.map(({ name }) => name.replace(/[^a-zA-Z0-9_-]/g, "_")));
  if (source.listed === null) seen.limit("names", names.size < resources.length, names.size);
  for (const path of Object.keys(source.documents)) {
    seen.read(path, (await client.readResource({ uri: source.uri(path) })).contents);
  }
  for (const path of Object.keys(source.folders)) {
    const { contents } = await client.readResource({ uri: source.uri(path) });
    seen.children(path, contents);
  }
  for (const path of source.hidden) {
    const error = await refusal(client.readResource({ uri: source.uri(path) }));
    seen.check("reads", `${path} is refused`, error?.code, -32002);
  }
  const onprogress = () => {};
  const call = (name, given) => client.callTool({ name, arguments: given }, undefined, { onprogress });
  await seen.ask(call, structured);
}

export default {
  name: "opencode",
  abilities: {
    connects: "2025-11-25",
    lists: "every page",
    large: "10,000 of them",
    reads: "any file",
    images: "files, tools",
    folders: "children at once",
    templates: "listed",
    tools: "JSON where there is any",
  },
  limits: {
    names: "It keeps resources by name: of those that share one it shows the last. All are read by URI.",
  },
  replay,
};
