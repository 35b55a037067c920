// Continue: the first page of each list; a resource is read as context, and only if all of it is text.
//
// Its sources: core/context/mcp/MCPConnection.ts, core/context/providers/MCPContextProvider.ts.

import { texts } from "./checks.mjs";
import { refusal } from "./wire.mjs";
import { open } from "./sdk.mjs";

// It fills in a variable named `query`, and asks for any other template as if it were a URI.
const filled = (template) => template.replace("{query}", () => encodeURIComponent("null"));

async function context(client, uri) {
  const { contents } = await client.readResource({ uri });
  if (contents.some((content) => content.text === undefined)) throw new TypeError("only supports text resources");
  return contents;
}

async function replay(seen) {
  const { source } = seen;
  const client = await open(seen, { name: "continue-client", version: "1.0.0" });
  seen.check("connects", "the handshake ends", client.getServerVersion()?.name, "resource-server");
  const { resources } = await client.listResources({});
  const { resourceTemplates } = await client.listResourceTemplates({});
  const { tools } = await client.listTools({});
  if (client.getServerCapabilities().prompts) await client.listPrompts({});
  seen.definitions(tools);
  seen.useful(resources);
  for (const { uri, mimeType } of resources) {
    const path = source.path(uri);
    if (mimeType === "inode/directory" || !(path in source.documents)) continue;
    if (source.documents[path] === null) {
      const error = await refusal(context(client, uri));
      seen.limit("images", error instanceof TypeError, String(error));
    } else {
      seen.read(path, await context(client, uri));
    }
  }
  for (const { uriTemplate } of resourceTemplates) {
    const error = await refusal(context(client, filled(uriTemplate)));
    if (!uriTemplate.includes("{")) seen.check("reads", `${uriTemplate} is read as it stands`, error, undefined);
    else seen.limit("templates", error?.code === -32002 || error?.code === -32602, String(error));
  }
  for (const path of Object.keys(source.folders)) {
    const error = await refusal(context(client, source.uri(path)));
    const hasImage = source.images.some((image) => image.startsWith(`${path}/`));
    if (hasImage) seen.limit("images", error instanceof TypeError, String(error));
    else seen.check("folders", `${path} is read as context`, error, undefined);
  }
  for (const path of source.hidden) {
    const error = await refusal(context(client, source.uri(path)));
    seen.check("reads", `${path} is refused`, error?.code, -32002);
  }
  await seen.ask((name, given) => client.callTool({ name, arguments: given }), texts);
}

export default {
  name: "Continue",
  abilities: {
    connects: "2025-11-25",
    lists: "the first page",
    large: "the top collections",
    reads: "texts of the first page",
    images: "tools",
    folders: "as context",
    tools: "text",
  },
  limits: {
    images: "It refuses an image, and a folder with an image among its children: `collection_read: {binary: link}` puts links in their place.",
    templates: "It fills in one variable, `query`, and asks for the text of any other template as a URI, which is not found.",
  },
  replay,
};
