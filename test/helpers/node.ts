import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const DIST_CLI = path.join(ROOT, "dist/src/cli.js");
const { GANTRY_TEST_COMPILED: compiled, GANTRY_TEST_DIST } = process.env;

/** What Node is told before a program of the sources: where `npm test` has compiled them it loads nothing for that. */
export const SOURCE_FLAGS: readonly string[] = [
  // Absolute, because it would be looked for from the folder where the program runs.
  ...(compiled ? [] : ["--import", import.meta.resolve("tsx")]),
  "--conditions=@gantry/source",
];

/** Where the sources are that Node runs with these flags: laid out like the project's own folder. */
export const SOURCES = compiled ?? ROOT;

/** Where Node finds a source, given from the project's folder as it is there (`src/cli.ts`). */
export function source(file: string): string {
  return path.join(SOURCES, compiled ? file.replace(/\.ts$/, ".js") : file);
}

/** Arguments of Node that run `gantry`: default the build where `npm test` has just made it, else the sources. */
export function gantryCommand(from?: "source" | "dist"): string[] {
  const isBuilt = GANTRY_TEST_DIST === "1" && existsSync(DIST_CLI);
  return (from ?? (isBuilt ? "dist" : "source")) === "dist" ? [DIST_CLI] : [...SOURCE_FLAGS, source("src/cli.ts")];
}
