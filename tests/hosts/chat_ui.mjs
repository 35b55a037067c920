// HF chat-ui: ten pages or 250 resources; reads what is listed or fits a template, as text.
//
// Its source: src/lib/server/mcp/resources.ts.

import { texts } from "./checks.mjs";
import { refusal } from "./wire.mjs";
import { everyPage, open } from "./sdk.mjs";

const PAGES = 10;
const RESOURCES = 250;
const SHOWN_CHARACTERS = 32_000;

// Whether a URI may belong to a template: anything stands for an expression.
function fits(template, uri) {
  const literals = template.split(/\{[^{}]*\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return literals.length > 1 && new RegExp(`^${literals.join(".+?")}$`).test(uri);
}

async function replay(seen) {
  const { source } = seen;
  const client = await open(seen, { name: "chat-ui-mcp", version: "0.1.0" });
  seen.check("connects", "the handshake ends", client.getServerVersion()?.name, "resource-server");
  const { tools } = await client.listTools({});
  const goesOn = (count, length) => count < PAGES && length < RESOURCES;
  const { found } = await everyPage((cursor) => client.listResources({ cursor }), "resources", { goesOn });
  const { resourceTemplates } = await client.listResourceTemplates();
  seen.definitions(tools);
  seen.useful(found.slice(0, 100));
  if (source.listed === null) seen.limit("pages", found.length < 10_000, found.length);
  const owns = (uri) =>
    found.some((resource) => resource.uri === uri) ||
    resourceTemplates.some(({ uriTemplate }) => fits(uriTemplate, uri));
  for (const path of Object.keys(source.documents)) {
    const uri = source.uri(path);
    seen.check("templates", `${path} is listed or fits a template`, owns(uri), true);
    const { contents } = await client.readResource({ uri });
    if (source.documents[path] === null) seen.limit("images", contents[0].text === undefined, contents[0]);
    else seen.read(path, contents);
  }
  for (const path of Object.keys(source.folders)) {
    const { contents } = await client.readResource({ uri: source.uri(path) });
    const length = contents.map((content) => content.text ?? "").join("\n\n").length;
    if (length > SHOWN_CHARACTERS) seen.limit("long texts", true, length);
    seen.children(path, contents);
  }
  for (const path of source.hidden) {
    const error = await refusal(client.readResource({ uri: source.uri(path) }));
    seen.check("reads", `${path} is refused`, error?.code, -32002);
  }
  await seen.ask((name, given) => client.callTool({ name, arguments: given }), texts);
}

export default {
  name: "HF chat-ui",
  abilities: {
    connects: "2025-11-25",
    lists: "until there are 250",
    large: "the top collections",
    reads: "texts",
    images: "tools",
    folders: "children at once",
    templates: "any URI that fits",
    tools: "text",
  },
  limits: {
    pages: "It stops listing once it has ten pages or 250 resources; what fits a template is read all the same.",
    images: "It tells the model the type and size of an image, not the image.",
    "long texts": "It cuts what it reads after 32,000 characters: ranges and tools read on.",
  },
  replay,
};
