// `npm run test:nodes`: `npm ci`, `npm test` and `npm run test:all` on other versions of Node, each in a copy of the project.
// NODES="22 24" selects the versions; suites or files as arguments replace both commands.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CACHE, ROOT, at, checkNode, npmCommand, run } from "./project.mjs";

checkNode();
const [npm, ...npmArgs] = npmCommand();
const failed = [];
for (const major of (process.env.NODES ?? "22 24").split(/[\s,]+/).filter(Boolean)) {
  const since = Date.now();
  const code = await testOn(major, process.argv.slice(2));
  if (code !== 0) failed.push(major);
  process.stdout.write(
    `${code === 0 ? "ok" : "FAILED"}  Node ${major} (${((Date.now() - since) / 1000).toFixed(0)} s)\n`,
  );
}
process.stdout.write(failed.length === 0 ? "\nall good\n" : `\nfailed on Node ${failed.join(", ")}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;

/** Exit code of the tests on the newest Node of this major version, which is installed from the npm registry. */
async function testOn(major, parts) {
  const folder = path.join(CACHE, "nodes", major);
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const home = path.join(folder, "node_modules", name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, "package.json"), JSON.stringify({ private: true }));
  const flags = ["--no-audit", "--no-fund", "--no-package-lock"];
  if (!existsSync(home)) {
    const code = await run(npm, [...npmArgs, "install", ...flags, `${name}@${major}`], { cwd: folder });
    if (code !== 0) return code;
  }
  process.stdout.write(`Node ${JSON.parse(readFileSync(path.join(home, "package.json"), "utf8")).version}\n`);
  const copy = mkdtempSync(path.join(tmpdir(), "gantry-nodes-"));
  try {
    for (const entry of readdirSync(ROOT)) {
      if (!/^(\.git|node_modules|coverage|dist)$|^\.dist-/.test(entry))
        cpSync(at(entry), path.join(copy, entry), { recursive: true });
    }
    // Native packages are compiled against this Node's own headers.
    const env = { ...process.env, npm_config_nodedir: home };
    env.PATH = `${path.join(home, "bin")}${path.delimiter}${process.env.PATH ?? ""}`;
    // Set by the npm that runs this script, for its own Node.
    for (const key of Object.keys(env)) if (/^(npm_(?!config_)|NODE$|NODE_OPTIONS$)/.test(key)) delete env[key];
    const commands = parts.length > 0 ? [["run", "test:only", "--", ...parts]] : [["test"], ["run", "test:all"]];
    for (const command of [["ci", "--no-audit", "--no-fund"], ...commands]) {
      const code = await run("npm", command, { cwd: copy, env });
      if (code !== 0) return code;
    }
    return 0;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
