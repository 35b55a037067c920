// One TypeScript client, connected to TARGET in a revision: `asked` has its `client` and `cwd`.

import { z } from "zod";

// The schema of results that no client knows.
export const ANYTHING = z.looseObject({});

const INFO = { name: "tests", version: "0" };

// Returns the transport of a client to TARGET, not yet started.
export async function reach(asked, target) {
  if (typeof target === "string") {
    const { StreamableHTTPClientTransport } =
      asked.client === "v2"
        ? await import("@modelcontextprotocol/client")
        : await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return new StreamableHTTPClientTransport(new URL(target));
  }
  const parameters = { command: target[0], args: target.slice(1), cwd: asked.cwd, stderr: "inherit" };
  const { StdioClientTransport } =
    asked.client === "v2"
      ? await import("@modelcontextprotocol/client/stdio")
      : await import("@modelcontextprotocol/sdk/client/stdio.js");
  return new StdioClientTransport(parameters);
}

export async function connect(asked, target, revision, capabilities = {}, info = INFO) {
  const transport = await reach(asked, target);
  if (asked.client === "v2") {
    const { Client } = await import("@modelcontextprotocol/client");
    const modern = revision >= "2026";
    const options = modern
      ? { versionNegotiation: { mode: "auto" } }
      : { supportedProtocolVersions: [revision] };
    const client = new Client(info, { ...options, capabilities });
    await client.connect(transport);
    return client;
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    // The client always offers its latest revision; the one under test is offered instead.
    if (message.method === "initialize") message.params.protocolVersion = revision;
    return send(message, ...rest);
  };
  const client = new Client(info, { capabilities });
  await client.connect(transport);
  return client;
}
