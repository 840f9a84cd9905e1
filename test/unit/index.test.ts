import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { faceFaults } from "../helpers/face.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as {
  exports: Record<string, unknown>;
};
const FACES = {
  gantry: "src/index.ts",
  "gantry/plugin": "src/plugin/index.ts",
  "gantry/http": "src/http/index.ts",
  "gantry/testing": "src/testing/index.ts",
  "gantry/client": "adapters/koa-http-api/client/index.ts",
};

/** Files by path from the root. */
function files(folders: readonly string[], ending: RegExp): Map<string, string> {
  const found = new Map<string, string>();
  for (const folder of folders)
    for (const entry of readdirSync(path.join(ROOT, folder), { withFileTypes: true, recursive: true }))
      if (ending.test(entry.name)) {
        const file = path.join(entry.parentPath, entry.name);
        found.set(path.relative(ROOT, file).split(path.sep).join("/"), readFileSync(file, "utf8"));
      }
  return found;
}

describe("the public face", () => {
  it("is what package.json says, and nothing else", () => {
    assert.deepEqual(Object.keys(manifest.exports).sort(), [
      ".",
      "./adapters/*",
      "./client",
      "./config.schema.json",
      "./http",
      "./package.json",
      "./plugin",
      "./testing",
    ]);
  });

  const sources = files(["src", "adapters/koa-http-api"], /\.ts$/);
  const users = {
    programs: [...files(["examples", "test"], /\.(ts|mjs)$/).values()],
    pages: [...files(["docs"], /\.md$/).values()],
  };
  for (const [specifier, face] of Object.entries(FACES)) {
    it(`${specifier}: each export has a sentence above it, and somebody who uses it`, () => {
      assert.deepEqual(faceFaults(face, specifier, sources, users), []);
    });
  }

  it("is looked at closely", () => {
    const bites = (index: string, more: Record<string, string>, programs: string[]): string[] => {
      const sources = new Map(Object.entries({ "src/index.ts": index, ...more }));
      return faceFaults("src/index.ts", "gantry", sources, { programs, pages: ["`B` is told of, and A is not."] });
    };
    const a = { "src/a.ts": "/** A thing. */\nexport interface A { b: B }\nexport type B = 1;" };
    assert.match(String(bites('export * from "./a.js";', a, [])), /names what it exports/);
    assert.match(String(bites("export const a = 1;", {}, [])), /does nothing else/);
    const both = 'export type { A, B } from "./a.js";';
    assert.deepEqual(bites(both, a, ['import type { A } from "gantry";']), [
      "src/index.ts: B has no sentence above it",
    ]);
    assert.deepEqual(bites('export type { A } from "./a.js";', a, ['import type { A } from "gantry/http";']), [
      "src/index.ts: A is used by no document, example or test",
    ]);
  });
});
