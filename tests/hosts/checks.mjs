// What must hold of a replayed host: checks of listings, contents and tool results, by ability.

import { spawnSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";

const PATIENCE_MS = 20_000;
const BUDGET_CHARACTERS = 25_000;
const SEARCH_PAGES = 20;
const LISTED_MOST = 10_000;
const NAME_AT_MOST = 46; // 64 without the longest prefix of a host: `mcp_` and 18 of the server's name.

export class Source {
  constructor(facts) {
    Object.assign(this, facts);
  }

  uri(path) {
    return [this.mount, ...path.split("/").map(encodeURIComponent)].join("/");
  }

  // The decoded path of a URI below the mount; "" of the mount itself.
  path(uri) {
    return decodeURIComponent(uri.slice(this.mount.length + 1));
  }

  get texts() {
    return Object.entries(this.documents).filter(([, text]) => text !== null);
  }

  get images() {
    return Object.keys(this.documents).filter((path) => this.documents[path] === null);
  }
}

export class Replay {
  constructor(host, facts, asked) {
    this.host = host;
    this.source = new Source(facts);
    this.asked = asked;
    this.checks = [];
    this.closing = [];
  }

  async run(sequence) {
    try {
      await sequence(this);
    } catch (error) {
      this.checks.push({ claim: "the sequence reaches its end", held: false, seen: String(error.stack) });
    }
    for (const close of this.closing.reverse()) await close();
  }

  // Records whether something holds that this host needs for an ability.
  check(ability, claim, seen, ...given) {
    const expected = given.length ? given[0] : true;
    const held = isDeepStrictEqual(seen, expected);
    this.checks.push({ ability, claim, held, ...(held ? {} : { seen: brief(seen), expected: brief(expected) }) });
    return held;
  }

  // Records that a declared limit of the host is still there.
  limit(name, isThere, seen) {
    this.checks.push({ limit: name, claim: `the limit ${name} is there`, held: isThere, seen: brief(seen) });
  }

  async within(promise, what) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${what} did not come`)), PATIENCE_MS);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }

  // The whole listing of a host that reads every page.
  listing(resources, pages) {
    const { listed, mount } = this.source;
    const uris = resources.map((resource) => resource.uri);
    this.check("lists", "no resource is listed twice", new Set(uris).size, uris.length);
    this.useful(resources.slice(0, 100));
    if (listed === null) {
      this.check("large", "the listing of a large tree is bounded", uris.length, LISTED_MOST);
      this.check("large", "its end says where the rest is", /More are below/.test(resources.at(-1)?.description), true);
      this.check("large", "few pages hold it", pages <= 20, true);
    } else {
      const paths = uris.filter((uri) => uri.startsWith(mount)).map((uri) => this.source.path(uri));
      this.check("lists", "everything is listed", paths.sort(), ["", ...listed].sort());
    }
  }

  // The first page: all that some hosts ever see.
  useful(resources) {
    const { listed, top, mount } = this.source;
    const ability = listed === null ? "large" : "lists";
    const uris = resources.map((resource) => resource.uri);
    this.check(ability, "the first page begins with the mount", uris[0], mount);
    const missing = top.filter((path) => !uris.includes(this.source.uri(path)));
    if (top.length < 100) this.check(ability, "the first page has all top collections", missing, []);
    else this.check(ability, "the first page has top collections only", missing.length, top.length - 99);
  }

  // What reading a document gave, as contents of `resources/read`.
  read(path, contents, ability = "reads") {
    const text = this.source.documents[path];
    const [only, ...more] = contents;
    this.check(ability, `one content is read of ${path}`, more.length, 0);
    if (text === null) this.check("images", `${path} is read as it is`, only?.blob, this.source.image);
    else this.check(ability, `${path} is read as it is`, only?.text, text);
  }

  // What reading a collection gave: all of its children, or itself if it has none.
  children(path, contents) {
    const found = contents.map((content) => this.source.path(content.uri));
    const names = this.source.read[path] ?? this.source.folders[path];
    const children = names.map((name) => `${path}/${name}`);
    const expected = children.length ? children : [path];
    this.check("folders", `${path} has its children`, found.sort(), expected.sort());
  }

  // The definitions of the tools, as any host takes them.
  definitions(tools) {
    for (const { name, description, annotations } of tools) {
      this.check("tools", `the name ${name} is short enough`, name.length <= NAME_AT_MOST);
      this.check("tools", `${name} has a description`, Boolean(description));
      this.check("tools", `${name} needs no confirmation`, [annotations?.readOnlyHint, annotations?.openWorldHint], [true, false]);
    }
  }

  // A model's questions by tools. `call` calls a tool; `shown` gives the text of its result that the model gets.
  async ask(call, shown) {
    const { question, queries, images, top } = this.source;
    const use = async (name, given) => {
      const result = await call(name, given);
      const text = shown(result);
      this.check("tools", `${name} succeeds`, result.isError ? text : false, false);
      this.check("tools", `${name} stays in its budget`, text.length <= BUDGET_CHARACTERS);
      return text;
    };
    const overview = await use("list_resources", {});
    const names = top.filter((path) => !overview.includes(path) && !overview.includes(encodeURIComponent(path)));
    this.check("tools", "the model sees the top collections", names, []);
    const uri = this.source.uri(question.path);
    const found = await this.search(call, shown, uri.slice(this.source.mount.length + 1));
    this.check("tools", "the model finds what it looks for", found, true);
    const read = await use("read_resource", { uri });
    this.check("tools", "the model reads what it found", read.includes(question.answer), true);
    for (const path of images) {
      const { content, structuredContent } = await call("read_resource", { uri: this.source.uri(path) });
      const pictures = content.filter((block) => block.type === "image").map((block) => block.data);
      this.check("images", "a tool shows the model a picture", pictures, [this.source.image]);
      this.check("images", "no structured content stands in its place", structuredContent, undefined);
    }
    for (const { name, given, answer } of queries) {
      this.check("tools", `the model runs ${name}`, (await use(name, given)).includes(answer), true);
    }
  }

  // Whether a path is shown, on the first page or one that the model goes on to: a search may run out of time.
  async search(call, shown, path) {
    let cursor;
    for (let page = 0; page < SEARCH_PAGES; page++) {
      const given = { query: this.source.question.text, ...(cursor ? { cursor } : {}) };
      const result = await call("search_resources", given);
      const text = shown(result);
      this.check("tools", "search_resources stays in its budget", text.length <= BUDGET_CHARACTERS, true);
      if (text.includes(path)) return true;
      cursor = result.structuredContent?.next ?? result.structuredContent?.nextCursor;
      if (!cursor) return result;
    }
    return false;
  }

  // Changes the source.
  change({ command }) {
    const [program, ...given] = command;
    const { status, stderr } = spawnSync(program, given);
    if (status !== 0) throw new Error(String(stderr));
  }
}

export const texts = (result) =>
  result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");

// What the model gets of a result where the host prefers structured content.
export const structured = (result) =>
  result.structuredContent === undefined ? texts(result) : JSON.stringify(result.structuredContent);

function brief(value) {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 600 ? `${text.slice(0, 600)}…` : text;
}
