import assert from "node:assert/strict";
import { it } from "node:test";
import { ConfigError } from "gantry";
import descriptor, { KoaHttpTransport, type KoaHttpOptions } from "gantry/adapters/koa-http-api";

const CONTEXT = { where: "config.json: server", configDir: "/etc/gantry", home: "/home/x/.gantry", projectDir: "/p" };

it("describes a transport", () => {
  assert.deepEqual([descriptor.gantry, descriptor.kind, descriptor.name], [1, "transport", "koa-http-api"]);
  assert.equal(descriptor.use, KoaHttpTransport);
});

it("fills in defaults", () => {
  assert.deepEqual(descriptor.parse({}, CONTEXT), {
    requiredHeaders: {},
    headers: {},
    maxBodyBytes: 10_485_760,
    onDisconnect: "cancel",
    streams: 1024,
    jsonDepth: 64,
    heartbeatMs: 15_000,
    allowPaths: [],
    deniedPaths: [],
    host: "127.0.0.1",
    port: 8080,
    allowedHosts: [],
    allowCrossSite: false,
    insecure: false,
  });
});

it("takes what composition gives", () => {
  const raw = {
    required_headers: { Authorization: "Bearer x" },
    headers: { "X-A": "1" },
    max_body_bytes: 5,
    on_disconnect: "continue",
    allow_cross_site: true,
    limits: { streams: 2, json_depth: 3 },
    allow_paths: ["docs", "/abs"],
    denied_paths: ["/home/x/.gantry"],
    host: "::1",
    port: 0,
    allowed_hosts: ["a"],
    insecure: true,
  };
  const parsed = descriptor.parse(raw, CONTEXT) as KoaHttpOptions;
  assert.deepEqual(parsed.allowPaths, ["/etc/gantry/docs", "/abs"]);
  assert.deepEqual([parsed.streams, parsed.jsonDepth, parsed.onDisconnect], [2, 3, "continue"]);
});

it("names the wrong key and what was expected", () => {
  const cases: [raw: Record<string, unknown>, message: RegExp][] = [
    [{ nope: 1 }, /^config\.json: server\.nope: unknown key/],
    [{ limits: { nope: 1 } }, /server\.limits\.nope: unknown key/],
    [{ limits: [] }, /server\.limits: expected an object/],
    [{ limits: { streams: 0 } }, /server\.limits\.streams: expected an integer of at least 1/],
    [{ max_body_bytes: "1" }, /server\.max_body_bytes: expected an integer/],
    [{ on_disconnect: "stop" }, /server\.on_disconnect: expected "cancel" or "continue"/],
    [{ port: 65_536 }, /server\.port: expected 0 to 65535/],
    [{ host: 1 }, /server\.host: expected a string/],
    [{ insecure: "yes" }, /server\.insecure: expected true or false/],
    [{ allowed_hosts: "a" }, /server\.allowed_hosts: expected a list of strings/],
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

it("the constructor refuses headers that cannot be sent, too", () => {
  assert.throws(() => new KoaHttpTransport({ headers: { "X-A": "a\r\nb" } }), ConfigError);
  assert.throws(() => new KoaHttpTransport({ requiredHeaders: { "a b": "" } }), ConfigError);
});
