import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import descriptor from "gantry/adapters/lowdb-json-driver";

const context = { where: "/c/config.json: session", configDir: "/c", home: "/home/u/.gantry", projectDir: "/p" };
const parse = (raw: Record<string, unknown>): unknown => descriptor.parse(raw, context);

describe("options of lowdb-json-driver", () => {
  it("have defaults", () => {
    const defaults = { path: "/home/u/.gantry/sessions", durability: "full" };
    assert.deepEqual(parse({}), defaults);
    assert.deepEqual(parse({ driver: "json", path: "", durability: "full" }), defaults);
  });

  it("take a relative path from the config file's folder", () => {
    assert.deepEqual(parse({ path: "data/s", durability: "normal" }), {
      path: "/c/data/s",
      durability: "normal",
    });
    assert.deepEqual(parse({ path: "/abs/s" }), { path: "/abs/s", durability: "full" });
  });

  it("are refused with the key and what was expected", () => {
    const wrong: [Record<string, unknown>, RegExp][] = [
      [{ durabilty: "full" }, /^\/c\/config\.json: session\.durabilty: unknown key/],
      [{ path: 7 }, /^\/c\/config\.json: session\.path: expected a path/],
      [{ path: "a\0b" }, /^\/c\/config\.json: session\.path: expected a path/],
      [{ durability: "some" }, /^\/c\/config\.json: session\.durability: expected "full" or "normal"/],
    ];
    for (const [raw, message] of wrong) {
      assert.throws(
        () => parse(raw),
        (error) => hasCode(error, "config") && message.test(error.message),
      );
    }
  });
});
