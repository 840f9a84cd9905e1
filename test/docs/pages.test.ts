import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { ROOT, SOURCE_FLAGS } from "../helpers/node.js";
import { runGantry } from "../helpers/server.js";
import { tempDir, type TempDir } from "../helpers/temp.js";

const run = promisify(execFile);

/** An empty folder in which someone did what a page says: its package, and every file that it says to save. */
async function followed(t: TestContext, page: string): Promise<TempDir> {
  const text = readFileSync(path.join(ROOT, "docs", page), "utf8");
  const folder = await stranger(t);
  const [, name] = /^mkdir (\S+) && cd/m.exec(text) ?? [];
  assert.ok(name, "the page makes a folder");
  const saved = [...text.matchAll(/[Ss]ave as `([^`]+)`:\n\n```\w+\n(.*?)^```$/gms)];
  assert.ok(saved.length >= 3, "a module, its test and a config");
  await folder.write({
    "package.json": JSON.stringify({ name, type: "module", exports: "./index.js" }),
    ...Object.fromEntries(saved.map(([, file = "", content = ""]) => [file, content])),
  });
  return folder;
}

/** Node there; what it printed, and what it complained of. */
async function node(folder: TempDir, ...args: string[]): Promise<string> {
  const env: NodeJS.ProcessEnv = { ...process.env, TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json") };
  // Of the test runner that runs this file.
  delete env.NODE_TEST_CONTEXT;
  // Whoever follows a page has the build, which also starts quicker; a test that is run alone may have none.
  const isBuilt = process.env.GANTRY_TEST_DIST === "1";
  const flags = isBuilt ? [] : SOURCE_FLAGS;
  const output = (out: { stdout: string; stderr: string }): string => out.stdout + out.stderr;
  const options = { cwd: folder.path, env, maxBuffer: 1 << 26 };
  return run(process.execPath, [...flags, ...args], options).then(output, output);
}

/** A folder from which `gantry` is found. */
async function stranger(t: TestContext): Promise<TempDir> {
  const folder = await tempDir(t);
  mkdirSync(folder.at("node_modules"));
  symlinkSync(ROOT, folder.at("node_modules", "gantry"), "dir");
  return folder;
}

describe("what the pages say is true", () => {
  for (const [page, kind, count] of [
    ["writing-a-transport.md", "transport", 20],
    ["writing-a-driver.md", "session-driver", 70],
    ["writing-a-provider.md", "model-provider", 15],
    ["plugins.md", "tool", 14],
  ] as const) {
    it(page, async (t) => {
      const folder = await followed(t, page);
      const output = await node(folder, "--test", "--test-reporter=tap", "index.test.js");
      assert.match(output, /^# fail 0$/m, output);
      assert.ok(Number(/^# pass (\d+)$/m.exec(output)?.[1]) >= count, output);
      const config = folder.at("config.json");
      const listed = await runGantry(t, ["adapters", "--json", "--config", config], {
        projectDir: folder.path,
      });
      assert.equal(listed.code, 0, listed.stdout + listed.stderr);
      const entries = JSON.parse(listed.stdout) as { kind: string; name: string; selectedBy: string[] }[];
      assert.equal(entries.find(({ name }) => name === "./index.js")?.kind, kind);
    });
  }

  it("tests and scripts that scripts and pages name are there", () => {
    const files = ["package.json", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
    for (const folder of [".ci", "docs"])
      files.push(
        ...readdirSync(path.join(ROOT, folder), { recursive: true }).map((file) => `${folder}/${String(file)}`),
      );
    for (const file of files.filter((name) => path.extname(name) !== "" && !name.endsWith(".svg"))) {
      const named = readFileSync(path.join(ROOT, file), "utf8").matchAll(
        /(?<![\w/])(?:test|\.ci)\/[\w/.-]+\.(?:ts|mjs)\b/g,
      );
      for (const [name] of named) assert.ok(existsSync(path.join(ROOT, name)), `${file} names ${name}`);
    }
  });

  it("writing-a-driver.md lists every member of the port, the optional ones apart", () => {
    const port = readFileSync(path.join(ROOT, "src/ports/session-driver.ts"), "utf8");
    const [, body = ""] = /^export interface SessionDriver \{\n(.*?)^\}/ms.exec(port) ?? [];
    const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)(\?)?[(:]/gm)];
    const text = readFileSync(path.join(ROOT, "docs/writing-a-driver.md"), "utf8");
    const tables = text.slice(text.indexOf("### Without documents")).split("Three members are optional");
    const [required, optional] = tables.map((table) =>
      [...table.matchAll(/^\| `.*? \|/gm)].flatMap(([row]) => [...row.matchAll(/`(\w+)/g)].map(([, name]) => name)),
    );
    const named = (isOptional: boolean) =>
      members.filter(([, , mark]) => (mark === "?") === isOptional).map(([, name]) => name);
    assert.deepEqual(["name", ...(required ?? [])].sort(), named(false).sort());
    assert.deepEqual(optional?.sort(), named(true).sort());
    assert.match(text, new RegExp(`It has a \`name\` and ${named(false).length - 1} methods`));
  });

  it("live.md tells of every event", () => {
    const events = readFileSync(path.join(ROOT, "src/ports/watch.ts"), "utf8").matchAll(/^ {2}\| \{ type: "(\w+)"/gm);
    const text = readFileSync(path.join(ROOT, "docs/live.md"), "utf8");
    const rows = [...text.matchAll(/^\| `(\w+)` /gm)].map(([, name]) => name);
    assert.deepEqual(
      rows,
      // One that has a cursor in one place alone is two.
      [...new Set([...events].map(([, name]) => name))],
    );
  });

  describe("embedding.md", () => {
    const text = readFileSync(path.join(ROOT, "docs/embedding.md"), "utf8");
    it("tells of every error", () => {
      const errors = readFileSync(path.join(ROOT, "src/ports/errors.ts"), "utf8");
      const all = [...errors.matchAll(/class (\w+) extends GantryError \{\n\s+readonly code = "(\w+)"/g)];
      const rows = [...text.matchAll(/^\| `(\w+)` +\| `(\w+Error)`/gm)].map(([, code, name]) => `${code} ${name}`);
      assert.deepEqual(rows.sort(), all.map(([, name, code]) => `${code} ${name}`).sort());
    });
    const programs = [...text.matchAll(/^## ([^\n]+)$|^```js\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/gms)];
    let chapter = "";
    for (const [, heading, program, printed] of programs) {
      if (program === undefined) chapter = heading ?? "";
      else
        it(chapter, async (t) => {
          const folder = await stranger(t);
          await folder.write({ "package.json": '{ "type": "module" }', "program.js": program });
          const output = await node(folder, "program.js");
          if (printed !== undefined) assert.equal(output, printed);
          assert.doesNotMatch(output, /^\s+at /m);
        });
    }
  });
});
