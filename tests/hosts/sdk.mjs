// The official SDK for TypeScript, as the hosts that are built on it use it.

import { connect } from "../clients/connecting.mjs";

export async function open(replay, info, { client = "v1", revision = "2025-11-25", capabilities = {} } = {}) {
  const asked = { client, cwd: replay.asked.cwd };
  const opened = await connect(asked, replay.asked.serving, revision, capabilities, info);
  replay.closing.push(() => opened.close());
  return opened;
}

// Every page of a list, as far as the host goes on; an error where a cursor comes twice.
export async function everyPage(list, member, { goesOn = () => true } = {}) {
  const found = [];
  const cursors = new Set();
  let count = 0;
  let cursor;
  do {
    const page = await list(cursor);
    found.push(...page[member]);
    count += 1;
    cursor = page.nextCursor;
    if (cursor !== undefined && cursors.has(cursor)) throw new Error(`the cursor ${cursor} came twice`);
    cursors.add(cursor);
  } while (cursor !== undefined && goesOn(count, found.length));
  return { found, count };
}

// The next notification of a method.
export function notified(client, method) {
  return new Promise((resolve) => {
    const rest = client.fallbackNotificationHandler;
    client.fallbackNotificationHandler = async (notification) => {
      if (notification.method === method) resolve(notification);
      await rest?.(notification);
    };
  });
}

// Changes the list, and waits until the host has been told; `again` is what it does then.
export async function relists(replay, told, again) {
  const { added } = replay.source;
  if (!added) return;
  replay.change(added);
  await replay.within(told, "the notification of the list");
  const uris = (await again()).map((resource) => resource.uri);
  const paths = uris.filter((uri) => uri.startsWith(replay.source.mount)).map((uri) => replay.source.path(uri));
  replay.check("changes", "the list has changed when the host is told", paths.includes(added.path), true);
}
