import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import type { AdapterDescriptor } from "../../../src/plugin/adapter.js";
import { loadConfig } from "../../../src/serve/config.js";
import { parseOptions } from "../../../src/serve/parse-options.js";
import { Selection } from "../../../src/serve/selected-adapters.js";
import { tempDir } from "../../helpers/temp-dir.js";

async function selectTransports(t: TestContext, config: object) {
  const home = await tempDir(t, { "config.json": JSON.stringify(config) });
  return new Selection(await loadConfig({ home: home.path }), home.path).transports();
}

const assertRejects = (t: TestContext, config: object, message: RegExp) =>
  assert.rejects(selectTransports(t, config), (error: Error & { code?: string }) => {
    assert.equal(error.code, "config");
    assert.match(error.message, message);
    assert.doesNotMatch(error.message, /\n/);
    return true;
  });

it("a transport entry rejects the options of the HTTP port, and `denied_paths` and `allow_paths`", async (t) => {
  for (const transport of ["koa-http-api", "acp-http-sse-ws"]) {
    for (const [key, value] of [
      ["host", "0.0.0.0"],
      ["port", 1],
      ["insecure", true],
      ["allowed_hosts", []],
      ["allow_cross_site", true],
    ] as const)
      await assertRejects(
        t,
        { server: { transports: [{ transport, [key]: value }] } },
        new RegExp(`server\\.transports\\[0\\]\\.${key}: unknown key; .* server\\.${key}$`),
      );
    const home = await tempDir(t, { "config.json": "{}" });
    const loadedConfig = await loadConfig({ home: home.path });
    for (const key of ["denied_paths", "allow_paths"]) {
      const config = { ...loadedConfig.config.server, transports: [{ transport, [key]: [] }] };
      const selection = new Selection(
        { ...loadedConfig, config: { ...loadedConfig.config, server: config } },
        home.path,
      );
      const [entry] = selection.transports();
      const { default: descriptor } = (await import(`../../../adapters/${transport}/index.js`)) as {
        default: AdapterDescriptor;
      };
      const context = { location: "config.json: server.transports[0]", configDir: "/", home: "/", projectDir: "/" };
      assert.throws(() => parseOptions(entry!, descriptor, context), {
        code: "config",
        message: new RegExp(`server\\.transports\\[0\\]\\.${key}: unknown key; expected one of `),
      });
    }
  }
});

it("ACP over HTTP needs required headers, or an explicit `{}`, if `server.required_headers` is set", async (t) => {
  const headersConfig = { required_headers: { Authorization: "Bearer key" } };
  const bothTransports = { ...headersConfig, transports: ["koa-http-api", "acp-http-sse-ws"] };
  await assertRejects(t, { server: bothTransports }, /acp\.required_headers: .* the same headers, or \{\} /);
  await assertRejects(t, { server: { ...headersConfig, transports: ["acp-http-sse-ws"] } }, /acp\.required_headers/);
  for (const config of [
    { server: bothTransports, acp: headersConfig },
    { server: bothTransports, acp: { required_headers: {} } },
    {
      server: { ...headersConfig, transports: [{ transport: "acp-http-sse-ws", required_headers: { "X-Key": "k" } }] },
    },
    { server: { ...headersConfig, transports: ["koa-http-api", "acp-stdio"] } },
    { server: { transports: ["acp-http-sse-ws"] } },
  ])
    assert.ok((await selectTransports(t, config)).length > 0);
});

it("`required_headers` rejects invalid header names and values", async (t) => {
  const invalidHeaders = [
    "[]",
    '["X-Key"]',
    '{"__proto__": "x"}',
    '{"bad name": "x"}',
    '{"X": 1}',
    '{"X": "a\\nb"}',
    '"x"',
  ];
  for (const headers of invalidHeaders) {
    for (const section of ["server", "acp"]) {
      const home = await tempDir(t, { "config.json": `{"${section}": {"required_headers": ${headers}}}` });
      await assert.rejects(loadConfig({ home: home.path }), new RegExp(`: ${section}\\.required_headers`), headers);
    }
  }
});
