import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { runGantry } from "./helpers/server.js";
import { tempDir, type TempDir } from "./helpers/temp.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const run = promisify(execFile);

/** An empty folder in which someone did what a page says: its package, and every file that it says to save. */
async function followed(t: TestContext, page: string): Promise<TempDir> {
  const text = readFileSync(path.join(ROOT, "docs", page), "utf8");
  const folder = await tempDir(t);
  const [, name] = /^mkdir (\S+) && cd/m.exec(text) ?? [];
  assert.ok(name, "the page makes a folder");
  const saved = [...text.matchAll(/[Ss]ave as `([^`]+)`:\n\n```\w+\n(.*?)^```$/gms)];
  assert.ok(saved.length >= 3, "a module, its test and a config");
  await folder.write({
    "package.json": JSON.stringify({ name, type: "module", exports: "./index.js" }),
    ...Object.fromEntries(saved.map(([, file = "", content = ""]) => [file, content])),
  });
  mkdirSync(folder.at("node_modules"));
  symlinkSync(ROOT, folder.at("node_modules", "gantry"), "dir");
  return folder;
}

/** `node --test` there; what it printed. */
async function tested(folder: TempDir): Promise<string> {
  const env: NodeJS.ProcessEnv = { ...process.env, TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json") };
  // Of the test runner that runs this file.
  delete env.NODE_TEST_CONTEXT;
  const flags = ["--import", import.meta.resolve("tsx"), "--conditions=@gantry/source"];
  const { stdout } = await run(process.execPath, [...flags, "--test", "--test-reporter=tap", "index.test.js"], {
    cwd: folder.path,
    env,
    maxBuffer: 1 << 26,
  }).catch((error: { stdout: string; stderr: string }) => ({ stdout: error.stdout + error.stderr }));
  return stdout;
}

describe("what the pages say is true", () => {
  for (const [page, kind, count] of [
    ["writing-a-transport.md", "transport", 20],
    ["writing-a-driver.md", "session-driver", 70],
  ] as const) {
    it(page, async (t) => {
      const folder = await followed(t, page);
      const output = await tested(folder);
      assert.match(output, /^# fail 0$/m, output);
      assert.ok(Number(/^# pass (\d+)$/m.exec(output)?.[1]) >= count, output);
      const config = folder.at("config.json");
      const listed = await runGantry(t, ["adapters", "--json", "--config", config], {
        projectDir: folder.path,
        from: "source",
      });
      assert.equal(listed.code, 0, listed.stdout + listed.stderr);
      const entries = JSON.parse(listed.stdout) as { kind: string; name: string; selectedBy: string[] }[];
      assert.equal(entries.find(({ name }) => name === "./index.js")?.kind, kind);
    });
  }
});
