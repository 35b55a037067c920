// Claude Code in 2026-07-28: a probe, every list, a stream of notifications, and folders by `resources/directory/read`.
//
// From its changelog and documentation.

import { ANYTHING } from "../clients/connecting.mjs";
import { structured } from "./checks.mjs";
import { refusal } from "./wire.mjs";
import { everyPage, notified, open, relists } from "./sdk.mjs";

const SKILLS = "io.modelcontextprotocol/skills";
const DIRECTORY_PAGES = 20;
const RESULT_CHARACTERS = 500_000;
const ERROR_CHARACTERS = 11_000;
const INFO = { name: "claude-code", title: "Claude Code", version: "2.1.240" };

const list = (client) => everyPage((cursor) => client.listResources({ cursor }), "resources");

export async function lists(seen, client) {
  const has = client.getServerCapabilities();
  const { tools } = await client.listTools();
  seen.definitions(tools);
  for (const { name, _meta } of tools) {
    const raised = _meta?.["anthropic/maxResultSizeChars"] ?? 0;
    seen.check("tools", `${name} raises its limit at most to what is allowed`, raised <= RESULT_CHARACTERS, true);
  }
  if (has.prompts) await client.listPrompts();
  const { found, count } = await list(client);
  seen.listing(found, count);
}

export async function reads(seen, client, notFound) {
  const { source } = seen;
  // Listed at the first `@`; they are not filled in.
  const { resourceTemplates } = await client.listResourceTemplates();
  seen.limit("templates", resourceTemplates.length > 0, resourceTemplates.length);
  for (const path of Object.keys(source.documents)) {
    seen.read(path, (await client.readResource({ uri: source.uri(path) })).contents);
  }
  for (const path of source.hidden) {
    const error = await refusal(client.readResource({ uri: source.uri(path) }));
    seen.check("reads", `${path} is refused`, error?.code, notFound);
    seen.check("reads", "an error is short", (error?.message ?? "").length < ERROR_CHARACTERS, true);
  }
}

export async function browses(seen, client) {
  const { source } = seen;
  const { directoryRead } = client.getServerCapabilities().extensions?.[SKILLS] ?? {};
  if (!seen.check("folders", "reading directories is offered", directoryRead, true)) return;
  const goesOn = (count) => {
    if (count === DIRECTORY_PAGES) throw new Error(`more than ${DIRECTORY_PAGES} pages`);
    return true;
  };
  for (const [path, children] of Object.entries(source.folders)) {
    const uri = source.uri(path);
    const read = (cursor) =>
      client.request({ method: "resources/directory/read", params: cursor ? { uri, cursor } : { uri } }, ANYTHING);
    const { found } = await everyPage(read, "resources", { goesOn });
    const below = found.map((child) => source.path(child.uri).slice(path.length + 1));
    seen.check("folders", `${path} has its children`, below.sort(), [...children].sort());
  }
  for (const path of source.hidden) {
    const params = { uri: source.uri(path) };
    const error = await refusal(client.request({ method: "resources/directory/read", params }, ANYTHING));
    seen.check("folders", `${path} is no directory`, error?.code, -32602);
  }
}

export async function asks(seen, client) {
  await seen.ask((name, given) => client.callTool({ name, arguments: given }), structured);
}

async function replay(seen) {
  const client = await open(seen, INFO, { client: "v2", revision: "2026-07-28" });
  seen.check("connects", "its probe is answered", client.getNegotiatedProtocolVersion(), "2026-07-28");
  await lists(seen, client);
  const told = notified(client, "notifications/resources/list_changed");
  const has = client.getServerCapabilities();
  const filter = { resourcesListChanged: true, toolsListChanged: true, ...(has.prompts ? { promptsListChanged: true } : {}) };
  const stream = await client.listen(filter);
  seen.check("changes", "the list is watched", stream.honoredFilter.resourcesListChanged, true);
  await reads(seen, client, -32602);
  await browses(seen, client);
  await relists(seen, told, async () => (await list(client)).found);
  await asks(seen, client);
}

const TEMPLATES = "It lists templates and does not fill them in: whoever knows a URI writes `@server:uri`.";

export const abilities = {
  lists: "every page",
  large: "10,000 of them",
  reads: "any file",
  images: "files, tools",
  folders: "by directory",
  changes: "the list",
  tools: "JSON where there is any",
};
export const limits = { templates: TEMPLATES };

export default { name: "Claude Code", abilities: { connects: "2026-07-28", ...abilities }, limits, replay };
