// One TypeScript client calls tools and a prompt that ask, and prints what it was asked and told.
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

function think({ params }) {
  if (params.maxTokens !== 50) throw new Error(`maxTokens is ${params.maxTokens}`);
  return { role: "assistant", content: { type: "text", text: "nothing" }, model: "m" };
}

function roots() {
  return { roots: [{ uri: "file:///work", name: "Work" }] };
}

const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const client = await connect(asked, asked.serving, asked.revision, capabilities);
if (asked.client === "v2") {
  client.setRequestHandler("elicitation/create", answer);
  client.setRequestHandler("sampling/createMessage", think);
  client.setRequestHandler("roots/list", roots);
} else {
  const types = await import("@modelcontextprotocol/sdk/types.js");
  client.setRequestHandler(types.ElicitRequestSchema, answer);
  client.setRequestHandler(types.CreateMessageRequestSchema, think);
  client.setRequestHandler(types.ListRootsRequestSchema, roots);
}
async function said(name) {
  const { content } = await client.callTool({ name, arguments: {} });
  return content[0].text;
}
const first = await said("paint");
const surveyed = await said("survey");
const { messages } = await client.getPrompt({ name: "hello" });
const revision = client.getNegotiatedProtocolVersion?.() ?? asked.revision;
const prompted = messages[0].content.text;
console.log(JSON.stringify({ revision, said: first, surveyed, prompted, asked: questions }));
await client.close();
