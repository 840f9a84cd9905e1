import assert from "node:assert/strict";
import { it } from "node:test";
import { secretsOf } from "../../../adapters/mcp-tools/mcp-servers.js";

it("secretsOf returns the keys in the path, the query and the credentials of a server URL", () => {
  const key = "k3y9fQ2xLw7Zr4TbVn8M";
  const readSecrets = (url: string) => secretsOf({ name: "a", url, headers: {} });
  assert.deepEqual(readSecrets(`https://a.example/s/${key}/mcp`), [key]);
  assert.deepEqual(readSecrets("https://a.example/mcp?api_key=short-one&page=2"), ["short-one"]);
  assert.deepEqual(readSecrets("https://ann:pass@a.example/mcp/v1/tools"), ["ann", "pass"]);
  assert.deepEqual(readSecrets("no address"), []);
});
