// The SkillsClient of the TypeScript SDK lists, reads and verifies all skills, and prints what it saw.
// Usage: node skills.mjs '{"client": "v2", "revision": "...", "serving": TARGET, "directory": "...", "cwd": "..."}'
// TARGET is as in client.mjs. Each file of each skill is read: the client throws at a wrong size, digest or frontmatter.

import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { connect } from "./connecting.mjs";

const asked = JSON.parse(process.argv[2]);
const client = await connect(asked, asked.serving, asked.revision);
const skills = new SkillsClient(client);
const listed = await skills.list();
const files = {};
for (const entry of listed.skills) {
  const { skill } = await skills.get(entry.uri);
  for (const { uri } of skill.resources) {
    const file = await skills.read(skill, uri);
    files[uri] = { verified: file.verified, frontmatter: file.frontmatter, bytes: file.bytes.length };
  }
}
const directory = await skills.readDirectory(asked.directory);
const refusal = async (promise) => promise.then(() => null, (error) => error.code);
const seen = {
  revision: client.getNegotiatedProtocolVersion?.() ?? asked.revision,
  supported: skills.supported,
  directoryRead: skills.directoryRead,
  listed,
  files,
  children: directory.resources.map(({ uri, mimeType }) => [uri, mimeType]),
  noDirectory: await refusal(skills.readDirectory(`${asked.directory}/SKILL.md`)),
  noSkill: await refusal(skills.get(`${asked.directory}/absent/SKILL.md`)),
};
console.log(JSON.stringify(seen));
await client.close();
