// Live pages: reads the page again when its resource changes, and marks what is new in it.

import { readPage } from "./pages.js";

const REST_MS = 500;
const RETRY_MS = 3000;
// A browser has six connections to one server, of which streams of all its windows leave some.
const STREAMS = 3;

const line = /** @type {HTMLElement | null} */ (document.querySelector("[data-live]"));
const said = line?.querySelector("output");
const button = line?.querySelector("button");

/** @type {EventSource | null} */
let source = null;
let release = () => {};
let isPaused = false;
let isReading = false;
let isStale = false;

/** @param {string} state @param {string} text */
function tell(state, text) {
  if (!line || !said) return;
  line.dataset.state = state;
  said.textContent = text;
}

/** @param {ParentNode} root */
function keyed(root) {
  const rows = /** @type {HTMLElement[]} */ ([...root.querySelectorAll("main [data-key], main tr[id]")]);
  return new Map(rows.map((row) => [row.dataset.key ?? row.id, row]));
}

async function readAgain() {
  if (isReading) {
    isStale = true;
    return;
  }
  isReading = true;
  try {
    await readOnce();
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
  } catch {
    // The server has gone; the stream connects again, and reads again then.
    tell("lost", "Not connected");
  } finally {
    isReading = false;
  }
  if (isStale) {
    isStale = false;
    await readAgain();
  }
}

async function readOnce() {
  const { isFound, page: fresh } = await readPage(location.href);
  const before = keyed(document);
  const after = keyed(fresh);
  let count = 0;
  for (const [key, row] of after) {
    const old = before.get(key);
    if (old?.textContent === row.textContent) continue;
    row.classList.add("changed");
    count += 1;
  }
  count += [...before.keys()].filter((key) => !after.has(key)).length;
  replace(fresh, "main .scroll, main .fields, main article, main .count, main aside, main .structure");
  const time = new Date().toLocaleTimeString();
  tell("on", isFound ? `Changed at ${time}${count ? ` (${count})` : ""}` : `Gone at ${time}`);
}

/** @param {Document} fresh @param {string} selector */
function replace(fresh, selector) {
  const old = [...document.querySelectorAll(selector)];
  const parts = [...fresh.querySelectorAll(selector)];
  if (old.length !== parts.length) {
    location.reload();
    return;
  }
  old.forEach((each, at) => each.replaceWith(document.adoptNode(parts[at])));
}

async function connect() {
  if (source || isPaused || document.hidden || !line) return;
  if (!navigator.locks) return listen();
  const { held } = await navigator.locks.query();
  const free = [...Array(STREAMS).keys()].map((each) => `live ${each}`);
  const taken = new Set(held?.map((each) => each.name));
  const name = free.find((each) => !taken.has(each)) ?? free[Math.floor(Math.random() * STREAMS)];
  const options = { steal: true };
  try {
    await navigator.locks.request(name, options, () => new Promise((resolve) => {
      release = () => resolve(null);
      listen();
    }));
  } catch {
    disconnect("away", "Another window is live");
  }
}

function listen() {
  if (source || !line) return;
  source = new EventSource(line.dataset.live ?? "");
  source.addEventListener("subscribed", () => {
    if (line.dataset.state === "lost" || line.dataset.state === "away") void readAgain();
    tell("on", "Live");
  });
  source.addEventListener("changed", () => void readAgain());
  source.addEventListener("error", () => {
    tell("lost", "Not connected");
    // Browsers connect again by themselves, but not after an answer that is no stream.
    if (source?.readyState !== EventSource.CLOSED) return;
    source = null;
    release();
    setTimeout(connect, RETRY_MS);
  });
}

function disconnect(/** @type {string} */ state, /** @type {string} */ text) {
  source?.close();
  source = null;
  release();
  tell(state, text);
}

if (line && button) {
  line.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Go on" : "Pause";
    if (isPaused) disconnect("away", "Paused");
    else void connect();
  });
  addEventListener("focus", () => void connect());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && !isPaused) disconnect("away", "");
    else void connect();
  });
  void connect();
}
