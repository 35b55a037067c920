// One TypeScript client lists the tools and calls some, and prints the results: it checks structured ones by itself.
// Usage: node tools.mjs '{"client": "v1" | "v2", "revision": "...", "serving": TARGET, "calls": [[name, arguments], ...],
//                         "cwd": "..."}'
// TARGET is as in client.mjs.

import { connect } from "./connecting.mjs";

const asked = JSON.parse(process.argv[2]);
const client = await connect(asked, asked.serving, asked.revision);
const { tools } = await client.listTools();
const results = [];
for (const [name, given] of asked.calls) results.push(await client.callTool({ name, arguments: given }));
const revision = client.getNegotiatedProtocolVersion?.() ?? asked.revision;
console.log(JSON.stringify({ revision, tools: tools.map((tool) => tool.name), results }));
await client.close();
