// Replays one host on sources, and prints every check that its sequence makes.
// Usage: node replay.mjs < {"host": NAME, "cwd": "...", "runs": [{"name": "...", "source": FACTS,
//                         "transport": "stdio" | "http", "serving": TARGET}, ...]}
// NAME is a file beside this one, FACTS are of sources.py, TARGET is as in tests/clients/client.mjs.

import { readFileSync } from "node:fs";
import { Replay } from "./checks.mjs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const { default: host } = await import(`./${asked.host}.mjs`);
const { replay, ...described } = host;
const runs = [];
for (const run of asked.runs) {
  const seen = new Replay(described, run.source, { cwd: asked.cwd, serving: run.serving });
  await seen.run(replay);
  runs.push({ source: run.name, transport: run.transport, checks: seen.checks });
}
process.stdout.write(JSON.stringify({ ...described, runs }));
