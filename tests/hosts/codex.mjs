// Codex: tools of its own list every page and read resources; structured content stands for a whole result.
//
// Its sources: codex-rs/core/src/tools/handlers/mcp_resource, codex-rs/protocol/src/models.rs.

import { structured } from "./checks.mjs";
import { Wire, refusal } from "./wire.mjs";
import { everyPage } from "./sdk.mjs";

async function replay(seen) {
  const { source } = seen;
  const wire = await Wire.open(seen, "2025-06-18");
  const ui = { mimeTypes: ["text/html;profile=mcp-app"] };
  const capabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/ui": ui } };
  const info = { name: "codex-mcp-client", title: "Codex", version: "0.118.0" };
  const more = { _meta: { "openai/clientCapabilities": {} } };
  const { protocolVersion } = await wire.initialize(capabilities, info, more);
  seen.check("connects", "its revision is agreed on", protocolVersion, "2025-06-18");
  await wire.notify("notifications/initialized");
  const pages = (method, member) =>
    everyPage((cursor) => wire.request(method, cursor === undefined ? undefined : { cursor }), member);
  const { found: tools } = await pages("tools/list", "tools");
  seen.definitions(tools);
  const { found, count } = await pages("resources/list", "resources");
  seen.listing(found, count);
  const { found: templates } = await pages("resources/templates/list", "resourceTemplates");
  seen.check("templates", "templates are listed", templates.length > 0, true);
  for (const path of Object.keys(source.documents)) {
    seen.read(path, (await wire.request("resources/read", { uri: source.uri(path) })).contents);
  }
  for (const path of Object.keys(source.folders)) {
    const { contents } = await wire.request("resources/read", { uri: source.uri(path) });
    seen.children(path, contents);
  }
  for (const path of source.hidden) {
    const error = await refusal(wire.request("resources/read", { uri: source.uri(path) }));
    seen.check("reads", `${path} is refused`, error?.code, -32002);
  }
  if (source.listed === null) seen.limit("long lists", JSON.stringify(found).length > 40_000, found.length);
  const call = (name, given) => wire.request("tools/call", { name, arguments: given, _meta: { progressToken: name } });
  await seen.ask(call, structured);
}

export default {
  name: "Codex",
  abilities: {
    connects: "2025-06-18",
    lists: "every page",
    large: "10,000 of them",
    reads: "any file",
    images: "files, tools",
    folders: "children at once",
    templates: "listed",
    tools: "JSON where there is any",
  },
  limits: {
    "long lists": "Its model gets about 10,000 tokens of a listing, without the middle: the tools list a tree level by level.",
  },
  replay,
};
