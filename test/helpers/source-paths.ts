import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root, with a slash at the end. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const DIST_CLI = path.join(ROOT, "dist/src/cli.js");

/** Node flags for a program that imports the sources. Absolute, so that the program can run in any folder. */
export const SOURCE_FLAGS: readonly string[] = ["--import", import.meta.resolve("tsx"), "--conditions=@gantry/source"];

/** Absolute path of a file of the repository. */
export function sourcePath(file: string): string {
  return path.join(ROOT, file);
}

/** Arguments of Node that run `gantry`. Default: the build if the test runner has made it, otherwise the sources. */
export function gantryCommand(from?: "source" | "dist"): string[] {
  const isBuilt = process.env.GANTRY_TEST_DIST === "1" && existsSync(DIST_CLI);
  return (from ?? (isBuilt ? "dist" : "source")) === "dist"
    ? [DIST_CLI]
    : [...SOURCE_FLAGS, sourcePath("src/cli/main.ts")];
}
