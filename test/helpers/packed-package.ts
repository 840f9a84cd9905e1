import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as {
  dependencies: Record<string, string>;
};

/** Command that starts npm: the npm that runs the tests, if known. */
export const NPM = process.env.npm_execpath?.endsWith(".js") ? [process.execPath, process.env.npm_execpath] : ["npm"];

/** Runs `npm pack` into `folder`. Returns the absolute path of the tarball. */
export function packPackage(folder: string): string {
  // `npm test` has already built, and other tests use that build: it must not change.
  if (process.env.GANTRY_TEST_DIST !== "1")
    execFileSync(process.execPath, [path.join(ROOT, ".ci/build.mjs")], { stdio: ["ignore", "ignore", "pipe"] });
  const [command = "npm", ...args] = NPM;
  execFileSync(command, [...args, "pack", "--ignore-scripts", "--silent", "--pack-destination", folder], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"));
  if (tarball === undefined) throw new Error("npm pack made no tarball");
  return path.join(folder, tarball);
}

/**
 * Installs a tarball into a folder's `node_modules` as npm does, with a command in `.bin`. `extraPackages` are
 * installed in addition to the declared dependencies. Returns the folder of the installed package.
 */
export function installPackage(tarball: string, folder: string, extraPackages: readonly string[] = []): string {
  const modulesFolder = path.join(folder, "node_modules");
  const packageFolder = path.join(modulesFolder, "gantry");
  mkdirSync(packageFolder, { recursive: true });
  execFileSync("tar", ["-xzf", tarball, "-C", packageFolder, "--strip-components=1"]);
  // Links exactly the dependencies that npm would install; compiling a native dependency would take a minute.
  for (const name of [...Object.keys(manifest.dependencies), ...extraPackages]) {
    mkdirSync(path.dirname(path.join(modulesFolder, name)), { recursive: true });
    symlinkSync(path.join(ROOT, "node_modules", name), path.join(modulesFolder, name), "dir");
  }
  mkdirSync(path.join(modulesFolder, ".bin"));
  symlinkSync("../gantry/dist/src/cli.js", path.join(modulesFolder, ".bin", "gantry"));
  return packageFolder;
}
