// VS Code: every page, a file system over `resources/read`, templates with completion, and its own codec of URIs.
//
// Its sources: src/vs/workbench/contrib/mcp. The codec is the package `vscode-uri` with the WHATWG URL of Node,
// as `McpResourceURI` joins them.

import { createRequire } from "node:module";
import { structured } from "./checks.mjs";
import { Wire, refusal } from "./wire.mjs";

const { URI } = createRequire(new URL("../clients/package.json", import.meta.url))("vscode-uri");
const SERVER = Buffer.from("replay").toString("hex");
const NO_AUTHORITY = "dylo78gyp";

// A resource as the editor names it, and the URI that it asks the server for.
function inEditor(uri) {
  const parsed = URI.parse(uri);
  const path = `/${parsed.scheme}/${parsed.authority || NO_AUTHORITY}${parsed.path}`;
  return parsed.with({ scheme: "mcp-resource", authority: SERVER, path });
}

function onServer(resource) {
  const [, scheme, authority, ...path] = resource.path.split("/");
  const url = new URL(`${scheme}://${authority === NO_AUTHORITY ? "" : authority}`);
  url.pathname = path.length ? `/${path.join("/")}` : "";
  url.search = resource.query;
  url.hash = resource.fragment;
  if (url.pathname.endsWith("/")) url.pathname = url.pathname.slice(0, -1);
  return url;
}

const variables = (template) => [...template.matchAll(/\{([+?&/#.;]?)([^{}]+)\}/g)];

// Its own expansion: `{+x}` by encodeURI, others by the code units of UTF-16.
function expand(template, values) {
  return variables(template).reduce((uri, [expression, operator, names]) => {
    const value = values[names];
    const encoded = operator === "+" ? encodeURI(value) : [...value].map(unit).join("");
    return uri.replace(expression, () => encoded);
  }, template);
}

function unit(character) {
  return /[\w.~-]/.test(character) ? character : `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

const same = (uri, url) => new URL(uri).pathname.toLowerCase() === url.pathname.toLowerCase();
const bytes = (content) => Buffer.from(content.text ?? content.blob, content.text === undefined ? "base64" : "utf8");

class FileSystem {
  constructor(wire) {
    this.wire = wire;
  }

  async read(resource) {
    const url = onServer(resource);
    const { contents } = await this.wire.request("resources/read", { uri: url.toString() });
    return { contents, url };
  }

  async exists(resource) {
    const found = await refusal(this.read(resource).then(({ contents }) => contents.length || Promise.reject()));
    return found === undefined;
  }

  async readFile(resource) {
    const { contents, url } = await this.read(resource);
    const own = contents.filter((content) => same(content.uri, url));
    return own;
  }

  async readDirectory(resource) {
    const { contents, url } = await this.read(resource);
    const parts = url.pathname.split("/");
    const found = new Map();
    for (const content of contents) {
      const below = URI.parse(content.uri).path.split("/");
      const isBelow = parts.every((part, at) => part.toLowerCase() === below[at]?.toLowerCase());
      if (below.length <= parts.length || !isBelow) continue;
      const isFile = below.length === parts.length + 1 && bytes(content).length > 0;
      found.set(below[parts.length], isFile ? "file" : "folder");
    }
    return { names: [...found.keys()], kinds: found, isThere: contents.length > 0 };
  }
}

async function pages(wire, method, member) {
  const found = [];
  let count = 0;
  let nextCursor;
  do {
    const page = await wire.request(method, nextCursor === undefined ? {} : { cursor: nextCursor });
    found.push(...page[member]);
    nextCursor = page.nextCursor;
    count += 1;
  } while (nextCursor !== undefined && count < 1_100);
  return { found, count };
}

const completion = (template, name, value, given = {}) => ({
  ref: { type: "ref/resource", uri: template },
  argument: { name, value },
  context: { arguments: given },
});

async function complete(wire, ...asked) {
  return (await wire.request("completion/complete", completion(...asked))).completion.values;
}

async function opensListed(replay, files, resources) {
  const { source } = replay;
  for (const path of Object.keys(source.documents)) {
    const listed = resources.find((resource) => decodeURIComponent(resource.uri) === `${source.mount}/${path}`);
    if (listed === undefined) continue;
    const own = await files.readFile(inEditor(listed.uri)).catch(() => []);
    if (path.includes("\\")) replay.limit("backslashes", own.length === 0, own);
    else replay.read(path, own, "reads");
  }
}

// A person types all but the last characters of a name, and picks from what is completed.
async function opensByTemplate(replay, wire, files, templates) {
  const { source } = replay;
  const template = `${source.mount}/{+path}`;
  if (!templates.includes(template)) return;
  const first = await complete(wire, template, "path", "");
  replay.check("templates", "something is offered before anything is typed", first.length > 0, true);
  for (const path of Object.keys(source.documents)) {
    await wire.abandon("completion/complete", completion(template, "path", path.slice(0, -2)));
    const values = await complete(wire, template, "path", path.slice(0, -1));
    const plain = path.replace(/[%?#\\]/g, encodeURIComponent);
    replay.check("templates", `${path} is completed and readable`, values.includes(plain), true);
    const own = await files.readFile(inEditor(expand(template, { path: plain }))).catch(() => []);
    replay.read(path, own, "templates");
  }
}

// A table and a key of one of its rows, asked for one after the other.
async function opensRows(replay, wire, files, templates) {
  const { source } = replay;
  const template = `${source.mount}/{table}/{+key}`;
  if (!templates.includes(template)) return;
  for (const path of Object.keys(source.documents)) {
    const [table, key] = path.split("/");
    const tables = await complete(wire, template, "table", "");
    replay.check("templates", `the table ${table} is offered`, tables.includes(table), true);
    const keys = await complete(wire, template, "key", "", { table });
    replay.check("templates", `the row ${path} is offered`, keys.includes(key), true);
    replay.read(path, await files.readFile(inEditor(expand(template, { table, key }))), "templates");
  }
}

async function browses(replay, files) {
  const { source } = replay;
  for (const [path, children] of Object.entries(source.folders)) {
    const folder = inEditor(`${source.uri(path)}/`);
    const { names, kinds, isThere } = await files.readDirectory(folder);
    replay.check("folders", `${path} exists`, isThere, true);
    if (/^[\w/.-]+$/.test(path)) {
      replay.check("folders", `${path} has its children`, names.sort(), [...(source.read[path] ?? children)].sort());
    } else {
      replay.limit("folders", names.length === 0, names);
    }
    for (const name of children.filter((name) => /\.(md|png|txt)$/.test(name)).slice(0, 3)) {
      if (kinds.size) replay.check("folders", `${name} in ${path} is a file`, kinds.get(name), "file");
    }
  }
  const { names, kinds } = await files.readDirectory(inEditor(`${source.mount}/`));
  const top = source.top.filter((path) => !names.includes(path));
  replay.check("folders", "the top collections are folders", top, []);
  if (source.listed?.includes("empty.md")) {
    replay.limit("empty files", kinds.get("empty.md") === "folder", kinds.get("empty.md"));
  }
}

async function follows(replay, wire, files) {
  const { edited } = replay.source;
  if (!edited) return;
  const url = onServer(inEditor(replay.source.uri(edited.path)));
  await files.readFile(inEditor(replay.source.uri(edited.path)));
  const updated = wire.notification("notifications/resources/updated", ({ uri }) => same(uri, url));
  await wire.request("resources/subscribe", { uri: url.toString() });
  replay.change(edited);
  await replay.within(updated, "the notification of the open file");
  replay.check("changes", "an open file is refreshed", true, true);
}

async function replay(seen) {
  const { source } = seen;
  const wire = await Wire.open(seen, "2025-11-25");
  wire.requests["roots/list"] = () => ({ roots: [] });
  const capabilities = {
    roots: { listChanged: true },
    sampling: {},
    elicitation: { form: {}, url: {} },
    tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
  };
  const info = { name: "Visual Studio Code", version: "1.108.0" };
  const { capabilities: has, protocolVersion } = await wire.initialize(capabilities, info);
  seen.check("connects", "its latest revision is agreed on", protocolVersion, "2025-11-25");
  if (has.logging) {
    const setting = wire.request("logging/setLevel", { level: "info" });
    seen.check("connects", "the level of logging is set before the handshake ends", await setting, {});
  }
  await wire.notify("notifications/initialized");
  const [{ found: tools }] = await Promise.all([
    pages(wire, "tools/list", "tools"),
    has.prompts ? pages(wire, "prompts/list", "prompts") : undefined,
  ]);
  seen.definitions(tools);
  const [{ found: templates }, { found: resources, count }] = await Promise.all([
    pages(wire, "resources/templates/list", "resourceTemplates"),
    pages(wire, "resources/list", "resources"),
  ]);
  seen.listing(resources, count);
  const all = templates.map(({ uriTemplate }) => uriTemplate);
  const several = all.filter((template) => variables(template).some(([, operator, names]) => operator === "?" || names.includes("*")));
  seen.check("templates", "no template asks for what may be left out", several, []);
  const files = new FileSystem(wire);
  await opensListed(seen, files, resources);
  await opensByTemplate(seen, wire, files, all);
  await opensRows(seen, wire, files, all);
  await browses(seen, files);
  for (const path of source.hidden) {
    const resource = inEditor(source.uri(path));
    seen.check("reads", `${path} is not found`, await files.exists(resource), false);
    const error = await refusal(wire.request("resources/read", { uri: resource.toString() }));
    seen.check("reads", `${path} is not found under the editor's own URI`, error?.code, -32002);
  }
  for (const [path, text] of source.texts.slice(0, 3)) {
    const child = inEditor(source.uri(path)).toString();
    const contents = await wire.request("resources/read", { uri: child }).then((result) => result.contents, () => []);
    seen.check("folders", "a child is attached under the editor's own URI", contents[0]?.text, text);
  }
  await follows(seen, wire, files);
  const call = (name, given) => wire.request("tools/call", { name, arguments: given, _meta: { progressToken: name } });
  await seen.ask(call, structured);
}

export default {
  name: "VS Code",
  abilities: {
    connects: "2025-11-25",
    lists: "every page",
    large: "10,000 of them",
    reads: "any file",
    images: "files, tools",
    folders: "its file system",
    templates: "with completion",
    changes: "open files",
    tools: "JSON where there is any",
  },
  limits: {
    folders:
      "Below a folder whose name has a space or a letter outside ASCII it shows nothing: it compares encoded names with decoded ones. Its files open by the picker and by templates.",
    "empty files": "An empty file in a folder is shown as a folder: it takes whatever has no bytes for one.",
    backslashes: "A name with a backslash opens by a template only: elsewhere its URLs turn the backslash into a slash.",
  },
  replay,
};
