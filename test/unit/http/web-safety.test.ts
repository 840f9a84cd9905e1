import assert from "node:assert/strict";
import { it } from "node:test";
import { parseHostHeader, isJsonType, isLoopback, hostOfOrigin } from "../../../src/http/web-safety.js";

it("isLoopback accepts loopback hosts and rejects similar hosts", () => {
  for (const host of [
    "localhost",
    "LocalHost",
    "localhost.",
    "a.localhost",
    "127.0.0.1",
    "127.255.0.9",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
  ])
    assert.equal(isLoopback(host), true, host);
  for (const host of [
    "",
    "127.evil.com",
    "127.0.0.1.evil.com",
    "localhost.evil.com",
    "xlocalhost",
    "128.0.0.1",
    "0.0.0.0",
    "::",
    "::2",
    "10.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "::ffff:10.0.0.1",
  ])
    assert.equal(isLoopback(host), false, host);
});

it("parseHostHeader returns the host of a Host header without its port, or undefined for an invalid header", () => {
  const cases: [header: string, host: string | undefined][] = [
    ["a.example", "a.example"],
    ["A.Example.:80", "a.example"],
    ["[::1]:8080", "::1"],
    ["127.0.0.1:1", "127.0.0.1"],
    ["a:b", undefined],
    ["a:1:2", undefined],
    ["a:99999", undefined],
    ["[::1", undefined],
    ["[a]", undefined],
    ["a b", undefined],
    ["a/b", undefined],
    ["u@a", undefined],
    ["a..b", undefined],
    [".a", undefined],
    ["", undefined],
  ];
  for (const [header, host] of cases) assert.equal(parseHostHeader(header), host, header);
});

it("hostOfOrigin returns the host of an HTTP origin, or undefined for an invalid origin", () => {
  assert.equal(hostOfOrigin("http://localhost:3000"), "localhost");
  assert.equal(hostOfOrigin("https://A.example"), "a.example");
  for (const origin of [
    "null",
    "",
    "localhost",
    "http://a/b",
    "http://u@localhost",
    "http://a, http://localhost",
    "http://localhost#@evil.com",
  ])
    assert.equal(hostOfOrigin(origin), undefined, origin);
});

it("isJsonType accepts JSON content types and rejects other types", () => {
  for (const type of [
    "application/json",
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "application/vnd.api+json",
  ])
    assert.equal(isJsonType(type), true, type);
  for (const type of [
    undefined,
    "",
    "text/json",
    "application/jsonp",
    "text/plain;application/json",
    "application/x-json-stream",
    "application/json, text/plain",
  ])
    assert.equal(isJsonType(type), false, type);
});
