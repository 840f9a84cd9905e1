import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import ts from "typescript";
import { ROOT } from "../helpers/source-paths.js";

interface Manifest {
  dependencies: Record<string, string>;
  devDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

const readText = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const readManifest = (folder: string): Manifest => JSON.parse(readText(join(folder, "package.json"))) as Manifest;
const { dependencies, devDependencies = {}, peerDependencies = {} } = readManifest(".");
const DEPENDENCIES = Object.keys(dependencies);
/**
 * Packages whose code is only in the build, as CONTRIBUTING.md says. An installed gantry does not load them from
 * `node_modules`, and an embedder can use other versions of them.
 */
const BUNDLED_PACKAGES = /^@opentelemetry\//;
/** Sources of the console pages, which are built from development dependencies. */
const BROWSER_SOURCES = /^adapters\/web-console\/app\//;

/** Names of the packages that the sources import, including types. */
function findImportedPackages(): Set<string> {
  const packageNames = new Set<string>();
  const files = ["src", "adapters"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  );
  for (const file of files) {
    if (!/\.tsx?$/.test(file) || BROWSER_SOURCES.test(file)) continue;
    const text = readText(file);
    // The ripgrep package is resolved instead of imported, because only the path of its program is needed.
    const resolvedPackages = [...text.matchAll(/\.resolve\("(@[^"]+)"\)/g)].map(([, fileName = ""]) => ({ fileName }));
    for (const { fileName } of [...ts.preProcessFile(text).importedFiles, ...resolvedPackages]) {
      const [name] = /^(@[^/]+\/)?[^/.][^/]*/.exec(fileName) ?? [];
      if (name !== undefined && !fileName.startsWith("node:") && name !== "gantry") packageNames.add(name);
    }
  }
  return packageNames;
}

describe("package.json", () => {
  const packages = findImportedPackages();

  it("lists each package that the sources import", () => {
    const isListed = (name: string) =>
      BUNDLED_PACKAGES.test(name) ? name in devDependencies : DEPENDENCIES.includes(name) || name in peerDependencies;
    const missingPackages = [...packages].filter((name) => !isListed(name));
    assert.deepEqual(missingPackages, []);
  });

  it("lists no package without an import, except peer dependencies that CONTRIBUTING.md names", () => {
    const peerPackages = new Set(
      [...packages].flatMap((name) => Object.keys(readManifest(`node_modules/${name}`).peerDependencies ?? {})),
    );
    const contributingText = readText("CONTRIBUTING.md");
    const unimportedPackages = DEPENDENCIES.filter((name) => !packages.has(name));
    assert.deepEqual(
      unimportedPackages.filter((name) => !peerPackages.has(name) || !contributingText.includes(`\`${name}\``)),
      [],
    );
  });

  it("installs neither the MCP SDK nor its web servers for production", () => {
    const lock = JSON.parse(readText("package-lock.json")) as { packages: Record<string, { dev?: boolean }> };
    const packagePaths = ["express", "hono", "@modelcontextprotocol/sdk"].map((name) => `node_modules/${name}`);
    assert.deepEqual(
      packagePaths.filter((path) => path in lock.packages && lock.packages[path]?.dev !== true),
      [],
    );
  });
});
