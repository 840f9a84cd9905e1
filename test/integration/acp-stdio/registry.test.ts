import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { runGantry } from "../../helpers/server.js";
import type { Json } from "../../helpers/acp-peer.js";

const REGISTRY_FOLDER = new URL("../../../docs/acp-registry/", import.meta.url);
const registryEntry = JSON.parse(readFileSync(new URL("agent.json", REGISTRY_FOLDER), "utf8")) as Json;
const iconSvg = readFileSync(new URL("icon.svg", REGISTRY_FOLDER), "utf8");

/** The rules that the official registry checks for an entry. */
describe("the entry for the official ACP registry", () => {
  it("has only known fields, and valid values for id, version and license_url", () => {
    const allowedFields = [
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
    for (const key of Object.keys(registryEntry)) assert.ok(allowedFields.includes(key), key);
    assert.match(registryEntry.id, /^[a-z][a-z0-9-]*$/);
    assert.match(registryEntry.version, /^[0-9]+\.[0-9]+\.[0-9]+$/);
    for (const key of ["name", "description", "license"]) assert.ok(registryEntry[key].length > 0, key);
    assert.ok(URL.canParse(registryEntry.license_url));
  });

  it("is distributed only by npx, with the package pinned to the version of the entry", () => {
    assert.deepEqual(Object.keys(registryEntry.distribution), ["npx"]);
    const { npx } = registryEntry.distribution;
    assert.ok(Object.keys(npx).every((key) => ["package", "cmd", "args", "env"].includes(key)));
    // The package name is not decided yet. The placeholder makes npm reject the entry before it contacts a registry.
    assert.equal(npx.package, `{package}@${registryEntry.version}`);
    assert.ok(npx.args.every((arg: unknown) => typeof arg === "string"));
    const packageJson = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as Json;
    assert.equal(packageJson.name, "gantry");
    assert.deepEqual(Object.keys(packageJson.bin), ["gantry"], "the package has one command, which npx runs");
  });

  it("has an icon of 16 by 16 pixels with currentColor as its only colour", () => {
    assert.match(iconSvg, /<svg[^>]* width="16" height="16"/);
    for (const [, colour] of iconSvg.matchAll(/(?:fill|stroke)="([^"]*)"/g)) {
      assert.ok(["currentColor", "none", "inherit"].includes(colour!), colour);
    }
    assert.doesNotMatch(iconSvg, /#[0-9a-f]{3}|rgb\(|<style|style=/i);
  });

  it("has npx args with which gantry starts and returns an auth method of type agent or terminal from initialize", async (t) => {
    const initializeRequest = {
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
    const { args } = registryEntry.distribution.npx;
    const result = await runGantry(t, args, {
      input: `${JSON.stringify(initializeRequest)}\n`,
    });
    assert.equal(result.code, 0);
    const [responseLine, ...otherLines] = result.stdout.trim().split("\n");
    assert.deepEqual(otherLines, []);
    const { authMethods } = (JSON.parse(responseLine!) as Json).result;
    assert.ok(authMethods.some(({ type }: Json) => type === "agent" || type === "terminal"));
  });
});
