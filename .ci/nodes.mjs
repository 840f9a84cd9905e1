// `npm run test:nodes`: the tests on other versions of Node, each from the npm registry, the native addon built for it.
// NODES="22 24" says which.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CACHE, ROOT, at, checkNode, install, npmCommand, run, testFiles } from "./project.mjs";

/** About the repository and not about what runs: the same on every Node, and tested on the first. */
const REPOSITORY_ALONE = /^test\/(architecture|package)\.test\.ts$/;

checkNode();
await install();

const majors = (process.env.NODES ?? "22 24").split(/[\s,]+/).filter(Boolean);
const files = process.argv.slice(2);
const failed = [];
for (const major of majors) {
  const since = Date.now();
  const version = await tests(major);
  const seconds = ((Date.now() - since) / 1000).toFixed(0);
  process.stdout.write(`${failed.includes(major) ? "FAILED" : "ok"}  Node ${version ?? major} (${seconds} s)\n`);
}
process.stdout.write(failed.length === 0 ? "\nall good\n" : `\nfailed on Node ${failed.join(", ")}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;

/** The tests on one version, in a copy of the project whose node_modules leads to this one's. */
async function tests(major) {
  const runtime = await provide(major);
  if (!runtime) {
    failed.push(major);
    return undefined;
  }
  const { node, env, packages } = runtime;
  const copy = mkdtempSync(path.join(tmpdir(), "gantry-nodes-"));
  try {
    for (const name of readdirSync(ROOT)) {
      // What is built here is the same for every Node, and is found to be so.
      if (!/^(\.git|node_modules|coverage)$|^\.dist-/.test(name))
        cpSync(at(name), path.join(copy, name), { recursive: true });
    }
    mkdirSync(path.join(copy, "node_modules"));
    for (const name of readdirSync(at("node_modules"))) {
      if (name === ".cache") continue;
      const target = name === "better-sqlite3" ? path.join(packages, name) : at("node_modules", name);
      symlinkSync(target, path.join(copy, "node_modules", name));
    }
    const wanted = files.length > 0 ? files : testFiles().filter((file) => !REPOSITORY_ALONE.test(file));
    const code = await run(node, [path.join(copy, ".ci/test.mjs"), "--only", ...wanted], {
      cwd: copy,
      env: { ...env, GANTRY_TEST_BRIEF: "1" },
      stdio: ["ignore", "inherit", "inherit"],
    });
    if (code !== 0) failed.push(major);
    return runtime.version;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** A Node of this major version and the addon built for it; undefined, with the reason printed, when it cannot be had. */
async function provide(major) {
  const folder = path.join(CACHE, "nodes", major);
  const packages = path.join(folder, "node_modules");
  const platform = process.platform === "win32" ? "win" : process.platform;
  const home = path.join(packages, `node-${platform}-${process.arch}`);
  const node = path.join(home, "bin", process.platform === "win32" ? "node.exe" : "node");
  const addon = JSON.parse(readFileSync(at("node_modules/better-sqlite3/package.json"), "utf8")).version;
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    path.join(folder, "package.json"),
    JSON.stringify({ private: true, allowScripts: { "better-sqlite3": true } }),
  );
  const env = { ...process.env, PATH: `${path.dirname(node)}${path.delimiter}${process.env.PATH ?? ""}` };
  // Of the npm that runs this; they would be taken for the other Node's.
  for (const name of Object.keys(env)) if (/^npm_(?!config_(registry|cache|userconfig))/.test(name)) delete env[name];
  const add = (runner, what, more = {}) => {
    const [command, ...args] = runner;
    return run(command, [...args, "install", "--no-audit", "--no-fund", "--no-package-lock", "--save-exact", ...what], {
      cwd: folder,
      env: { ...env, ...more },
      stdio: ["ignore", "ignore", "inherit"],
    });
  };
  const npm = npmCommand();
  if (!existsSync(node) && (await add(npm, [`node-${platform}-${process.arch}@${major}`])) !== 0) return undefined;
  const { version } = JSON.parse(readFileSync(path.join(home, "package.json"), "utf8"));
  const stamp = path.join(folder, "built.txt");
  const wanted = `${version} ${addon}`;
  if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== wanted) {
    // By that very Node, with its own headers: nothing else would be loaded by it.
    const runner = npm[0] === process.execPath ? [node, ...npm.slice(1)] : npm;
    rmSync(path.join(packages, "better-sqlite3"), { recursive: true, force: true });
    const what = [`node-${platform}-${process.arch}@${version}`, `better-sqlite3@${addon}`];
    if ((await add(runner, what, { npm_config_nodedir: home })) !== 0) return undefined;
    writeFileSync(stamp, wanted);
  }
  return { node, env, packages, version };
}
