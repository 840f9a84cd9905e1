import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isTargetAllowed, parseConnectTarget, parseHostRule, parseHttpTarget } from "../../../src/http/host-rules.js";

/** Whether the entries allow a CONNECT to the target. Undefined: the target is invalid. */
function isAllowed(entries: readonly string[], target: string): boolean | undefined {
  const rules = entries.map((entry) => parseHostRule(entry) ?? assert.fail(`invalid entry ${entry}`));
  const parsedTarget = parseConnectTarget(target);
  return parsedTarget && isTargetAllowed(rules, parsedTarget);
}

describe("host rules", () => {
  it("allow a name in any case, with a final dot, on the ports of HTTP and HTTPS", () => {
    for (const target of ["registry.npmjs.org:443", "registry.npmjs.org:80", "Registry.NPMJS.org.:443"])
      assert.equal(isAllowed(["registry.npmjs.org"], target), true, target);
    for (const target of [
      "registry.npmjs.org:22",
      "npmjs.org:443",
      "a.registry.npmjs.org:443",
      "registry.npmjs.orgs:443",
    ])
      assert.equal(isAllowed(["registry.npmjs.org"], target), false, target);
    assert.equal(isAllowed(["Bücher.example."], "xn--bcher-kva.example:443"), true);
  });

  it("allow only the port of an entry with a port", () => {
    assert.equal(isAllowed(["example.com:8443"], "example.com:8443"), true);
    assert.equal(isAllowed(["example.com:8443"], "example.com:443"), false);
    assert.equal(isAllowed(["*.example.com:8443"], "a.example.com:8443"), true);
  });

  it("allow the subdomains of a wildcard, but not the domain itself", () => {
    for (const target of ["a.example.com:443", "a.b.example.com:80"])
      assert.equal(isAllowed(["*.example.com"], target), true, target);
    for (const target of ["example.com:443", "badexample.com:443", "example.com.evil:443"])
      assert.equal(isAllowed(["*.example.com"], target), false, target);
  });

  it("allow an address only if it is listed, in any spelling", () => {
    for (const target of ["1.1.1.1:443", "169.254.169.254:80", "[2606:4700::1111]:443", "0x01010101:443"])
      assert.equal(isAllowed(["*.example.com", "example.com"], target), false, target);
    assert.equal(isAllowed(["1.1.1.1"], "0x01010101:443"), true);
    assert.equal(isAllowed(["[2606:4700::1111]"], "[2606:4700:0::1111]:443"), true);
    assert.equal(isAllowed(["[2606:4700::1111]:8443"], "[2606:4700::1111]:8443"), true);
  });

  it("refuse targets that are more than a host and a port", () => {
    const targets = ["", "example.com", ":443", "example.com:0", "example.com:65536", "user@example.com:443"];
    targets.push("evil.example@example.com:443", "evil.example#example.com:443", "evil.example/example.com:443");
    targets.push(
      "evil.example\\example.com:443",
      "example.com%2eevil:443",
      "a b:443",
      "::1:443",
      "example.com:443:443",
    );
    for (const target of targets) assert.equal(parseConnectTarget(target), undefined, target);
    for (const url of [
      "https://example.com/",
      "http://user@example.com/",
      "http://:pw@example.com/",
      "ftp://example.com/",
    ])
      assert.equal(parseHttpTarget(new URL(url)), undefined, url);
    assert.deepEqual(parseHttpTarget(new URL("http://Example.com./x")), { host: "example.com", port: 80 });
  });

  it("refuse invalid entries", () => {
    const entries = [
      "",
      "*",
      "*.",
      "*.1.1.1.1",
      "a.*.example",
      "https://example.com",
      "example.com/x",
      "example.com:0",
    ];
    for (const entry of [...entries, "example.com:70000", "user@example.com", "a b", "::1", "*.*.example"])
      assert.equal(parseHostRule(entry), undefined, entry);
  });
});
