// A real OpenID provider: prints its issuer, then reads the client that it is to know.
import http from "node:http";
import { createInterface } from "node:readline";
import { Provider } from "oidc-provider";

const server = http.createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  createInterface({ input: process.stdin }).once("line", (line) => {
    const { client, resource, scope } = JSON.parse(line);
    const known = {
      scope,
      audience: resource,
      accessTokenFormat: "jwt",
      accessTokenTTL: 300,
    };
    const provider = new Provider(issuer, {
      clients: [client],
      features: {
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_, asked) => (asked === resource ? known : {}),
        },
      },
      findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      pkce: { required: () => true },
    });
    server.on("request", provider.callback());
    console.log("ready");
  });
  console.log(issuer);
});
