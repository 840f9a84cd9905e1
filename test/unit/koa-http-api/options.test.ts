import assert from "node:assert/strict";
import { it } from "node:test";
import { ConfigError } from "gantry/plugin";
import descriptor, { KoaHttpTransport } from "gantry/adapters/koa-http-api";

const CONTEXT = {
  location: "config.json: server",
  configDir: "/etc/gantry",
  home: "/home/x/.gantry",
  projectDir: "/p",
};

it("the koa-http-api descriptor describes a transport", () => {
  assert.deepEqual([descriptor.gantry, descriptor.kind, descriptor.name], [1, "transport", "koa-http-api"]);
});

it("parse fills in the defaults", () => {
  assert.deepEqual(descriptor.parse({}, CONTEXT), {
    requiredHeaders: undefined,
    headers: {},
    maxBodyBytes: 10_485_760,
    onDisconnect: "cancel",
    openProbes: false,
    projectRoots: [],
    shell: true,
    limits: { streams: 1024, jsonDepth: 64 },
  });
});

it("parse reads every option of the configuration", () => {
  const raw = {
    required_headers: { Authorization: "Bearer x" },
    headers: { "X-A": "1" },
    max_body_bytes: 5,
    on_disconnect: "continue",
    open_probes: true,
    project_roots: ["../repos"],
    shell: false,
    limits: { streams: 2, json_depth: 8 },
  };
  assert.deepEqual(descriptor.parse(raw, CONTEXT), {
    requiredHeaders: { Authorization: "Bearer x" },
    headers: { "X-A": "1" },
    maxBodyBytes: 5,
    onDisconnect: "continue",
    openProbes: true,
    projectRoots: ["../repos"],
    shell: false,
    limits: { streams: 2, jsonDepth: 8 },
  });
});

it("parse names the invalid key and the expected value", () => {
  const cases: [raw: Record<string, unknown>, message: RegExp][] = [
    [{ nope: 1 }, /^config\.json: server\.nope: unknown key/],
    [{ limits: { nope: 1 } }, /server\.limits\.nope: unknown key/],
    [{ limits: [] }, /server\.limits: expected an object/],
    [{ limits: { streams: 0 } }, /server\.limits\.streams: expected a whole number, at least 1, got 0$/],
    [{ max_body_bytes: "1" }, /server\.max_body_bytes: expected a whole number, at least 1, got "1"$/],
    [{ on_disconnect: "stop" }, /server\.on_disconnect: expected one of "cancel", "continue", got "stop"$/],
    [{ host: "::1" }, /server\.host: unknown key/],
    [{ denied_paths: [] }, /server\.denied_paths: unknown key/],
    [{ allow_paths: [] }, /server\.allow_paths: unknown key/],
    [{ required_headers: [] }, /server\.required_headers: expected an object/],
    [{ required_headers: { "X-Key": 1 } }, /server\.required_headers\.X-Key: expected a string/],
    [{ required_headers: { "bad name": "x" } }, /server\.required_headers\."bad name": expected a header name/],
    [{ headers: { "X-A": "a\r\nX-B: b" } }, /server\.headers\.X-A: expected one line/],
    [{ headers: { "X-A": "a\nb" } }, /expected one line/],
    [{ headers: { "X-A": "日本" } }, /expected one line of Latin-1/],
    [{ headers: { "X-A\r\nX-B": "a" } }, /expected a header name/],
    [{ headers: { "": "a" } }, /expected a header name/],
    [{ headers: { "Content-Type": "text/html" } }, /server\.headers\.Content-Type: expected another header/],
    [{ headers: { "transfer-encoding": "x" } }, /expected another header/],
  ];
  for (const [raw, message] of cases) {
    assert.throws(
      () => descriptor.parse(raw, CONTEXT),
      (error: Error) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /\n/);
        return true;
      },
      JSON.stringify(raw),
    );
  }
});

it("the KoaHttpTransport constructor rejects headers that cannot be sent", () => {
  assert.throws(() => new KoaHttpTransport({ headers: { "X-A": "a\r\nb" } }), ConfigError);
  assert.throws(() => new KoaHttpTransport({ requiredHeaders: { "a b": "" } }), ConfigError);
});
