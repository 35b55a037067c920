// One TypeScript client does everything a client does with resources, and prints what it saw.
// Usage: node client.mjs '{"client": "v1" | "v2", "revisions": [...], "serving": TARGET,
//                         "slow": {"<revision>": TARGET},
//                         "changing": {"<revision>": {"folder": "...", "serving": TARGET}}, "cwd": "..."}'
// TARGET is a command and its arguments, which talks over its standard input and output, or a URL.

import { appendFileSync } from "node:fs";
import { ANYTHING, connect } from "./connecting.mjs";

const asked = JSON.parse(process.argv[2]);
const README = "file:///project/docs/read%20me.md";
const WATCHED = "file:///project/watched/read%20me.md";

async function refusal(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return { name: error.constructor.name, code: error.code, data: error.data };
  }
}

async function browse(revision) {
  const client = await connect(asked, asked.serving, revision);
  // Only the second client tells which revision it has come to.
  const seen = { revision: client.getNegotiatedProtocolVersion?.() ?? revision, listed: [] };
  let cursor;
  do {
    const page = await client.request({ method: "resources/list", params: { cursor } }, ANYTHING);
    seen.listed.push(...page.resources.map((resource) => resource.uri));
    cursor = page.nextCursor;
  } while (cursor);
  const typed = await client.listResources();
  seen.typed = typed.resources.slice(0, 4).map((resource) => resource._meta["resource-server/resourceType"]);
  const children = await client.listResources({ uri: "file:///project/docs" });
  seen.children = children.resources.map((resource) => resource.uri);
  seen.text = (await client.readResource({ uri: README })).contents[0];
  seen.blob = (await client.readResource({ uri: "file:///project/logo.png" })).contents[0].blob;
  seen.absent = await refusal(client.readResource({ uri: "file:///project/absent" }));
  const metadata = { method: "resources/metadata", params: { uri: README } };
  seen.metadata = (await client.request(metadata, ANYTHING)).resource;
  const templates = await client.listResourceTemplates();
  seen.templates = templates.resourceTemplates.map((template) => template.uriTemplate);
  const completed = await client.complete({
    ref: { type: "ref/resource", uri: "file:///project/{+path}" },
    argument: { name: "path", value: "docs/" },
  });
  seen.completed = completed.completion.values;
  await client.close();
  return seen;
}

// Calls `take` with the method and URI of every notification of changes.
async function hear(client, take) {
  const updated = ({ method, params }) => take(method, params.uri);
  const listed = ({ method }) => take(method);
  if (asked.client === "v2") {
    client.setNotificationHandler("notifications/resources/updated", updated);
    client.setNotificationHandler("notifications/resources/list_changed", listed);
  } else {
    const types = await import("@modelcontextprotocol/sdk/types.js");
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, updated);
    client.setNotificationHandler(types.ResourceListChangedNotificationSchema, listed);
  }
}

// Appends to files: to write one anew is to empty it first, and that may be told of as well.
async function follow(revision) {
  const { folder, serving } = asked.changing[revision];
  const client = await connect(asked, serving, revision);
  const told = [];
  let wake = () => {};
  await hear(client, (...notification) => {
    told.push(notification);
    wake();
  });
  const until = async (count) => {
    while (told.length < count) await new Promise((resolve) => (wake = resolve));
  };
  await client.readResource({ uri: WATCHED });
  // Over HTTP a listen knows nothing of what was read by another request.
  const before = revision < "2026" || typeof serving !== "string" ? 1 : 0;
  if (before) appendFileSync(`${folder}/watched/read me.md`, "between reading and subscribing");
  let honoured;
  if (revision >= "2026") {
    const filter = { resourcesListChanged: true, resourceSubscriptions: [WATCHED, "file:///project/absent"] };
    honoured = (await client.listen(filter)).honoredFilter;
  } else {
    await client.subscribeResource({ uri: WATCHED });
  }
  await until(before);
  appendFileSync(`${folder}/watched/read me.md`, "after subscribing, and longer");
  await until(before + 1);
  appendFileSync(`${folder}/new`, "");
  await until(before + 2);
  await client.close();
  return { told, honoured, resources: client.getServerCapabilities()?.resources };
}

async function wait(revision) {
  const client = await connect(asked, asked.slow[revision], revision);
  const progress = [];
  const onprogress = ({ progress: done, total }) => progress.push([done, total]);
  await client.readResource({ uri: "test://slow/many" }, { onprogress });
  const count = async (name) => (await client.readResource({ uri: `test://slow/${name}` })).contents[0].text;
  const abort = new AbortController();
  const reading = refusal(client.readResource({ uri: "test://slow/never" }, { signal: abort.signal }));
  // A busy server that receives a request together with its cancellation never begins it.
  while ((await count("begun")) === "0");
  abort.abort("enough");
  const refused = await reading;
  let cancelled;
  // Over HTTP the cancellation is another request, which may come later.
  do cancelled = await count("cancelled");
  while (cancelled === "0");
  await client.close();
  return { progress, refused, cancelled };
}

const results = {};
await Promise.all(
  asked.revisions.map(async (revision) => {
    results[revision] = {
      ...(await browse(revision)),
      ...(await wait(revision)),
      ...(await follow(revision)),
    };
  }),
);
console.log(JSON.stringify(results));
