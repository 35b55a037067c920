// One TypeScript client calls a tool that asks, and prints what it was asked and told.
// Usage: node asking.mjs '{"client": "v1" | "v2", "revision": "...", "serving": TARGET, "cwd": "..."}'
// TARGET is as in client.mjs.

import { connect } from "./connecting.mjs";

const asked = JSON.parse(process.argv[2]);
const ANSWERS = { name: "Ada", colour: "blue" };
const questions = [];

function answer({ params }) {
  questions.push(params.message);
  const names = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(names.map((name) => [name, ANSWERS[name]])) };
}

const client = await connect(asked, asked.serving, asked.revision, { elicitation: { form: {} } });
if (asked.client === "v2") {
  client.setRequestHandler("elicitation/create", answer);
} else {
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  client.setRequestHandler(ElicitRequestSchema, answer);
}
const { content } = await client.callTool({ name: "paint", arguments: {} });
const revision = client.getNegotiatedProtocolVersion?.() ?? asked.revision;
console.log(JSON.stringify({ revision, said: content[0].text, asked: questions }));
await client.close();
