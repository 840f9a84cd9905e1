import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { runGantry } from "../../helpers/server.js";
import type { Json } from "../../helpers/acp-peer.js";

const folder = new URL("../../../docs/acp-registry/", import.meta.url);
const entry = JSON.parse(readFileSync(new URL("agent.json", folder), "utf8")) as Json;
const icon = readFileSync(new URL("icon.svg", folder), "utf8");

/** The rules that the official registry checks for an entry. */
describe("the entry for the official ACP registry", () => {
  it("has only known fields, and valid values for id, version and license_url", () => {
    const knownFields = [
      "id",
      "name",
      "version",
      "description",
      "repository",
      "website",
      "authors",
      "license",
      "license_url",
      "distribution",
    ];
    for (const key of Object.keys(entry)) assert.ok(knownFields.includes(key), key);
    assert.match(entry.id, /^[a-z][a-z0-9-]*$/);
    assert.match(entry.version, /^[0-9]+\.[0-9]+\.[0-9]+$/);
    for (const key of ["name", "description", "license"]) assert.ok(entry[key].length > 0, key);
    assert.ok(URL.canParse(entry.license_url));
  });

  it("is distributed only by npx, with the package pinned to its own version", () => {
    assert.deepEqual(Object.keys(entry.distribution), ["npx"]);
    const { npx } = entry.distribution;
    assert.ok(Object.keys(npx).every((key) => ["package", "cmd", "args", "env"].includes(key)));
    // The package name is not decided yet. Until then npm must reject the entry before it contacts a registry.
    assert.equal(npx.package, `{package}@${entry.version}`);
    assert.ok(npx.args.every((arg: unknown) => typeof arg === "string"));
    const packageJson = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as Json;
    assert.equal(packageJson.name, "gantry");
    assert.deepEqual(Object.keys(packageJson.bin), ["gantry"], "npx runs the one command of the package");
  });

  it("has an icon of 16 by 16 pixels that uses only currentColor", () => {
    assert.match(icon, /<svg[^>]* width="16" height="16"/);
    for (const [, colour] of icon.matchAll(/(?:fill|stroke)="([^"]*)"/g)) {
      assert.ok(["currentColor", "none", "inherit"].includes(colour!), colour);
    }
    assert.doesNotMatch(icon, /#[0-9a-f]{3}|rgb\(|<style|style=/i);
  });

  it("starts with its args and answers initialize with an auth method of type agent or terminal", async (t) => {
    const auth_methods = [
      { id: "api-key", name: "API key", type: "agent", description: "The usual variable of a provider" },
    ];
    const hello = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: {
        protocolVersion: 1,
        clientInfo: { name: "ACP Registry Validator", version: "1.0.0" },
        clientCapabilities: {
          terminal: true,
          fs: { readTextFile: true, writeTextFile: true },
          _meta: { "terminal-auth": true },
        },
      },
    };
    const { args } = entry.distribution.npx;
    const ended = await runGantry(t, args, { config: { acp: { auth_methods } }, input: `${JSON.stringify(hello)}\n` });
    assert.equal(ended.code, 0);
    const [answer, ...otherLines] = ended.stdout.trim().split("\n");
    assert.deepEqual(otherLines, []);
    const { authMethods } = (JSON.parse(answer!) as Json).result;
    assert.ok(authMethods.some(({ type }: Json) => type === "agent" || type === "terminal"));
  });
});
