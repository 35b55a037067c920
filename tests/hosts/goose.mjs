// Goose: the first page as text; a URI is read from every server, so most servers are asked for foreign ones.
//
// Its source: crates/goose/src/agents/extension_manager.rs.

import { texts } from "./checks.mjs";
import { Wire, refusal } from "./wire.mjs";

const FOREIGN = [
  "https://example.com/",
  "ui://widget/main.html",
  "github://repos/a/b",
  "memo://insights",
  "file:///etc/passwd",
  "file://other/project/README.md",
  "sqlite://other/customers",
  "README.md",
  "",
];

async function replay(seen) {
  const { source } = seen;
  const wire = await Wire.open(seen, "2025-06-18");
  const { capabilities: has, protocolVersion } = await wire.initialize({ sampling: {}, elicitation: {} }, { name: "goose", version: "1.20.0" });
  seen.check("connects", "its revision is agreed on", protocolVersion, "2025-06-18");
  await wire.notify("notifications/initialized");
  const { tools } = await wire.request("tools/list");
  if (has.prompts) await wire.request("prompts/list");
  seen.definitions(tools);
  const { resources } = await wire.request("resources/list");
  seen.useful(resources);
  for (const path of Object.keys(source.documents)) {
    const { contents } = await wire.request("resources/read", { uri: source.uri(path) });
    if (source.documents[path] === null) seen.limit("images", contents[0].text === undefined, contents[0]);
    else seen.read(path, contents);
  }
  for (const path of Object.keys(source.folders)) {
    const { contents } = await wire.request("resources/read", { uri: source.uri(path) });
    seen.children(path, contents);
  }
  for (const uri of [...FOREIGN, ...source.hidden.map((path) => source.uri(path))]) {
    const error = await refusal(wire.request("resources/read", { uri }));
    seen.check("reads", `${uri} is refused as not found`, [error?.code, error?.data?.uri], [-32002, uri]);
  }
  await seen.ask((name, given) => wire.request("tools/call", { name, arguments: given }), texts);
}

export default {
  name: "Goose",
  abilities: {
    connects: "2025-06-18",
    lists: "the first page",
    large: "the top collections",
    reads: "texts by URI",
    images: "tools",
    folders: "children at once",
    tools: "text",
  },
  limits: {
    images: "It leaves out what is not text when it reads a resource.",
  },
  replay,
};
