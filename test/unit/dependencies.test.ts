import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import ts from "typescript";
import { ROOT } from "../helpers/node.js";

interface Manifest {
  dependencies: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const manifestOf = (folder: string): Manifest => JSON.parse(read(join(folder, "package.json"))) as Manifest;
const DEPENDENCIES = Object.keys(manifestOf(".").dependencies);
/** The console pages are built from development dependencies. */
const FOR_BROWSERS = /^adapters\/web-console\/app\//;

/** Names of the packages that the sources import, including types. */
function importedPackages(): Set<string> {
  const names = new Set<string>();
  const files = ["src", "adapters"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  );
  for (const file of files) {
    if (!/\.tsx?$/.test(file) || FOR_BROWSERS.test(file)) continue;
    const text = read(file);
    // The ripgrep package is not imported. It only provides the path of a program.
    const resolved = [...text.matchAll(/\.resolve\("(@[^"]+)"\)/g)].map(([, fileName = ""]) => ({ fileName }));
    for (const { fileName } of [...ts.preProcessFile(text).importedFiles, ...resolved]) {
      const [name] = /^(@[^/]+\/)?[^/.][^/]*/.exec(fileName) ?? [];
      if (name !== undefined && !fileName.startsWith("node:") && name !== "gantry") names.add(name);
    }
  }
  return names;
}

describe("package.json", () => {
  it("lists each package that the sources import", () => {
    const missing = [...importedPackages()].filter((name) => !DEPENDENCIES.includes(name));
    assert.deepEqual(missing, []);
  });

  it("lists no package without an import, except peer dependencies that CONTRIBUTING.md names", () => {
    const imported = importedPackages();
    const peers = new Set(
      [...imported].flatMap((name) => Object.keys(manifestOf(`node_modules/${name}`).peerDependencies ?? {})),
    );
    const documented = read("CONTRIBUTING.md");
    const unimportedPackages = DEPENDENCIES.filter((name) => !imported.has(name));
    assert.deepEqual(
      unimportedPackages.filter((name) => !peers.has(name) || !documented.includes(`\`${name}\``)),
      [],
    );
  });

  it("installs neither the MCP SDK nor its web servers for production", () => {
    const lock = JSON.parse(read("package-lock.json")) as { packages: Record<string, { dev?: boolean }> };
    const servers = ["express", "hono", "@modelcontextprotocol/sdk"].map((name) => `node_modules/${name}`);
    assert.deepEqual(
      servers.filter((path) => path in lock.packages && lock.packages[path]?.dev !== true),
      [],
    );
  });
});
