// One TypeScript client lists the prompts, completes an argument and gets some, and prints what it was told.
// Usage: node prompts.mjs '{"client": "v1" | "v2", "revision": "...", "serving": TARGET,
//                           "complete": [prompt, argument, value], "get": [[name, arguments], ...], "cwd": "..."}'
// TARGET is as in client.mjs.

import { connect } from "./connecting.mjs";

const asked = JSON.parse(process.argv[2]);
const client = await connect(asked, asked.serving, asked.revision);
const { prompts } = await client.listPrompts();
const [prompt, name, value] = asked.complete;
const ref = { type: "ref/prompt", name: prompt };
const { completion } = await client.complete({ ref, argument: { name, value } });
const got = [];
for (const [name, given] of asked.get) {
  try {
    got.push((await client.getPrompt({ name, arguments: given })).messages);
  } catch (error) {
    got.push(error.code);
  }
}
const revision = client.getNegotiatedProtocolVersion?.() ?? asked.revision;
const names = prompts.map((prompt) => prompt.name);
console.log(JSON.stringify({ revision, names, completed: completion.values, got }));
await client.close();
