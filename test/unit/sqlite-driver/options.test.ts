import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode, silentLogger } from "gantry";
import descriptor from "gantry/adapters/sqlite-driver";
import { tempDir } from "../../helpers/temp-dir.js";

const context = { location: "/c/config.json: session", configDir: "/c", home: "/home/u/.gantry", projectDir: "/p" };
const parseOptions = (options: Record<string, unknown>): unknown => descriptor.parse(options, context);

describe("options of sqlite-driver", () => {
  it("have defaults", () => {
    assert.deepEqual(parseOptions({}), { path: "", durability: "full", migrationCopy: true });
  });

  it("put the store into gantry's home by default, and a relative path into the config file's folder", async (t) => {
    const folder = await tempDir(t, { "home/.keep": "", "conf/.keep": "" });
    const folders = { home: folder.at("home"), configDir: folder.at("conf") };
    for (const [path, expectedPath] of [
      ["", "home/sessions.db"],
      ["data/s", "conf/data/s"],
      [folder.at("abs/s"), "abs/s"],
    ] as const) {
      const createContext = {
        ...context,
        ...folders,
        logger: silentLogger,
        allowPaths: [],
        deniedPaths: [],
        http: undefined,
      };
      const driver = await descriptor.create!(descriptor.parse({ path }, context), createContext);
      await driver.open();
      await driver.close();
      assert.ok(existsSync(folder.at(expectedPath)), expectedPath);
    }
  });

  it("reject a wrong value with its key and the expected value", () => {
    const invalidOptions: [Record<string, unknown>, RegExp][] = [
      [{ durabilty: "full" }, /^\/c\/config\.json: session\.durabilty: unknown key/],
      [{ path: 7 }, /^\/c\/config\.json: session\.path: expected a path/],
      [{ path: "a\0b" }, /^\/c\/config\.json: session\.path: expected a path/],
      [
        { durability: "some" },
        /^\/c\/config\.json: session\.durability: expected one of "full", "normal", got "some"$/,
      ],
    ];
    for (const [options, message] of invalidOptions) {
      assert.throws(
        () => parseOptions(options),
        (error) => hasCode(error, "config") && message.test(error.message),
      );
    }
  });
});
