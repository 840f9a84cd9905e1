import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode, silentLogger } from "gantry";
import descriptor from "gantry/adapters/postgres-driver";

const context = { location: "/c/config.json: session", configDir: "/c", home: "/home/u/.gantry", projectDir: "/p" };
const parse = (raw: Record<string, unknown>): unknown => descriptor.parse(raw, context);
const url = "postgres://me:secret@db.example:5433/sessions?sslmode=require";

describe("the option parser of postgres-driver", () => {
  it("returns defaults for all options except url", () => {
    const pool = { size: 10, connectTimeout: 10, idleTimeout: 30, statementTimeout: 15, listenUrl: "" };
    assert.deepEqual(parse({ url }), { url, schema: "gantry", durability: "full", pool });
  });

  it("rejects an invalid value with an error that has the key and the expected value, and never a URL", () => {
    const invalidOptions: [Record<string, unknown>, RegExp][] = [
      [{}, /^\/c\/config\.json: session\.url: expected a postgres:\/\/ URL, got nothing$/],
      [{ url: "" }, /^\/c\/config\.json: session\.url: expected a postgres:\/\/ URL/],
      [{ url: "mysql://me:secret@h/d" }, /^\/c\/config\.json: session\.url: expected a postgres:\/\/ URL/],
      [{ url: 5 }, /^\/c\/config\.json: session\.url: expected a postgres:\/\/ URL/],
      [{ url, path: "x" }, /^\/c\/config\.json: session\.path: unknown key/],
      [
        { url, schema: "Gantry" },
        /^\/c\/config\.json: session\.schema: expected a name of at most 40 lowercase letters/,
      ],
      [{ url, schema: 'x"; DROP TABLE y; --' }, /^\/c\/config\.json: session\.schema: expected a name/],
      [{ url, schema: "pg_x" }, /^\/c\/config\.json: session\.schema: expected a name/],
      [{ url, schema: "x".repeat(41) }, /^\/c\/config\.json: session\.schema: expected a name/],
      [{ url, pool: 5 }, /^\/c\/config\.json: session\.pool: expected an object with the keys size/],
      [
        { url, pool: { size: 0 } },
        /^\/c\/config\.json: session\.pool\.size: expected a whole number from 1 to 1000, got 0$/,
      ],
      [
        { url, pool: { listen_url: "http://me:secret@h" } },
        /^\/c\/config\.json: session\.pool\.listen_url: expected a post/,
      ],
      [
        { url, durability: "some" },
        /^\/c\/config\.json: session\.durability: expected one of "full", "normal", got "some"$/,
      ],
    ];
    for (const [raw, message] of invalidOptions) {
      assert.throws(
        () => parse(raw),
        (error) => hasCode(error, "config") && message.test(error.message) && !/secret/.test(error.message),
        JSON.stringify(raw),
      );
    }
  });

  it("accepts the URL of an unreachable server; the error of driver.open has the server's address but no credentials", async () => {
    const createContext = { ...context, logger: silentLogger, allowPaths: [], deniedPaths: [], http: undefined };
    const raw = { url: "postgres://me:secret@127.0.0.1:1/sessions", pool: { connect_timeout: 0.2 } };
    const driver = await descriptor.create!(descriptor.parse(raw, context), createContext);
    await assert.rejects(driver.open(), (error) => {
      assert.ok(hasCode(error, "store"));
      assert.match(error.message, /127\.0\.0\.1:1\/sessions/);
      assert.doesNotMatch(`${error.message} ${error.stack}`, /secret|me:/);
      return true;
    });
    await driver.close();
  });
});
