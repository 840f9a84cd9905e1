import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { CLIENT_ENTRY_POINT, ENTRY_POINTS, findExportFaults } from "../helpers/public-exports.js";
import { ROOT } from "../helpers/source-paths.js";

const manifest = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as {
  exports: Record<string, unknown>;
};
/** Returns the file contents by path from the repository root. */
function readFiles(folders: readonly string[], filePattern: RegExp): Map<string, string> {
  const textsByPath = new Map<string, string>();
  for (const folder of folders)
    for (const entry of readdirSync(path.join(ROOT, folder), { withFileTypes: true, recursive: true }))
      if (filePattern.test(entry.name)) {
        const file = path.join(entry.parentPath, entry.name);
        textsByPath.set(path.relative(ROOT, file).split(path.sep).join("/"), readFileSync(file, "utf8"));
      }
  return textsByPath;
}

describe("the public API", () => {
  it("has exactly eight entry points in package.json", () => {
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

  it("has a doc comment and a use for each export, and no name that two entry points export", () => {
    const sources = readFiles(["src", "adapters/koa-http-api"], /\.ts$/);
    const programs = [...readFiles(["adapters", "examples", "test"], /\.(tsx?|mjs)$/).values()];
    const users = { programs, pages: [...readFiles(["docs"], /\.md$/).values()] };
    assert.deepEqual(findExportFaults(ENTRY_POINTS, sources, users), []);
    assert.deepEqual(findExportFaults(CLIENT_ENTRY_POINT, sources, users), []);
  });

  it("is checked for star exports, other statements, missing comments, unused exports and duplicate exports", () => {
    const entryPoints = { gantry: "src/index.ts", "gantry/plugin": "src/plugin.ts" };
    const findFaults = (indexText: string, otherSources: Record<string, string>, programs: string[]): string[] => {
      const sources = new Map(Object.entries({ "src/index.ts": indexText, ...otherSources }));
      return findExportFaults(entryPoints, sources, { programs, pages: ["`B` is described, and A is not."] });
    };
    const baseSources = { "src/a.ts": "/** A thing. */\nexport interface A { b: B }\nexport type B = 1;" };
    assert.match(String(findFaults('export * from "./a.js";', baseSources, [])), /may only contain named exports/);
    assert.match(String(findFaults("export const a = 1;", {}, [])), /may only contain named exports/);
    const typeExports = 'export type { A, B } from "./a.js";';
    assert.deepEqual(findFaults(typeExports, baseSources, ['import type { A } from "gantry";']), [
      "src/index.ts: B has no sentence above it",
    ]);
    assert.deepEqual(
      findFaults('export type { A } from "./a.js";', baseSources, ['import type { A } from "gantry/http";']),
      ["src/index.ts: A is used by no adapter, document, example or test"],
    );
    const sourcesWithPlugin = { ...baseSources, "src/plugin.ts": 'export type { A } from "./a.js";' };
    assert.match(
      String(findFaults('export type { A } from "./a.js";', sourcesWithPlugin, [])),
      /A is exported by src\/index.ts too/,
    );
  });
});
