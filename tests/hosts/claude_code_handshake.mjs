// Claude Code in the handshake revisions: the same lists and reads, notified without a stream that it asks for.

import { abilities, asks, browses, limits, lists, reads } from "./claude_code.mjs";
import { everyPage, notified, open, relists } from "./sdk.mjs";

const INFO = { name: "claude-code", title: "Claude Code", version: "2.1.200" };

async function replay(seen) {
  const client = await open(seen, INFO, { capabilities: { roots: { listChanged: true } } });
  const told = notified(client, "notifications/resources/list_changed");
  client.fallbackRequestHandler = async () => ({ roots: [{ uri: "file:///workspace" }] });
  seen.check("connects", "the handshake ends", client.getServerVersion()?.name, "resource-server");
  await lists(seen, client);
  await client.sendRootsListChanged();
  await reads(seen, client, -32002);
  await browses(seen, client);
  const list = () => everyPage((cursor) => client.listResources({ cursor }), "resources");
  await relists(seen, told, async () => (await list()).found);
  await asks(seen, client);
}

export default {
  name: "Claude Code (handshake)",
  abilities: { connects: "2025-11-25", ...abilities },
  limits,
  replay,
};
