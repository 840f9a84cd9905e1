import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { ALL_EVENTS } from "../../adapters/koa-http-api/all-event-shapes.js";
import { TEMPLATES } from "../../src/cli/descriptions/new.js";
import type { AdapterReport } from "../../src/cli/check-report.js";
import { createPackageFiles } from "../../src/cli/new.js";
import { ROOT, SOURCE_FLAGS } from "../helpers/source-paths.js";
import { runGantry, startServer } from "../helpers/server.js";
import { tempDir, type TempDir } from "../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);

/** Runs Node in a folder. Resolves with the text of stdout and stderr, also if Node fails. */
async function runNode(cwd: string, ...args: string[]): Promise<string> {
  const env: NodeJS.ProcessEnv = { ...process.env, TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json") };
  // Set by the test runner that runs this file.
  delete env.NODE_TEST_CONTEXT;
  // Users of the pages have the build, which also starts faster. A test that runs alone may have no build.
  const isBuilt = process.env.GANTRY_TEST_DIST === "1";
  const flags = isBuilt ? [] : SOURCE_FLAGS;
  const joinOutputs = (result: { stdout: string; stderr: string }): string => result.stdout + result.stderr;
  const options = { cwd, env, maxBuffer: 64 * 1024 * 1024 };
  return execFileAsync(process.execPath, [...flags, ...args], options).then(joinOutputs, joinOutputs);
}

/** Creates a folder in which `gantry` can be imported. */
async function createUserProject(t: TestContext): Promise<TempDir> {
  const folder = await tempDir(t);
  mkdirSync(folder.at("node_modules"));
  symlinkSync(ROOT, folder.at("node_modules", "gantry"), "dir");
  return folder;
}

describe("the pages of docs", () => {
  for (const [template, kind, minTestCount] of [
    ["transport", "transport", 20],
    ["driver", "session-driver", 70],
    ["provider", "model-provider", 15],
    ["tool", "tool", 14],
    ["hook", "hooks", 5],
  ] as const) {
    const page = TEMPLATES[template];
    it(`${page} has the files that gantry new ${template} creates, which pass their tests and checks`, async (t) => {
      const folder = await tempDir(t);
      const projectDir = folder.at("new");
      const newRun = await runGantry(t, ["new", template, "@own/thing", "--dir", "new"], { projectDir: folder.path });
      assert.equal(newRun.code, 0, newRun.stderr);
      mkdirSync(folder.at("new", "node_modules"));
      symlinkSync(ROOT, folder.at("new", "node_modules", "gantry"), "dir");
      // Except for the package's name, the files equal the files of the page.
      const files = createPackageFiles(readFileSync(path.join(ROOT, "docs", page), "utf8"), "@own/thing");
      for (const [file, text] of Object.entries(files)) assert.equal(await folder.read(`new/${file}`), text, file);
      for (const file of ["index.js", "fixture.js", "index.test.js", "config.json", "README.md"])
        assert.ok(Object.hasOwn(files, file), `${page} has ${file}`);
      const manifest = JSON.parse(files["package.json"] ?? "") as { scripts: Record<"test" | "check", string> };
      assert.equal(manifest.scripts.test, "node --test");
      const output = await runNode(projectDir, "--test", "--test-reporter=tap");
      assert.match(output, /^# fail 0$/m, output);
      assert.ok(Number(/^# pass (\d+)$/m.exec(output)?.[1]) >= minTestCount, output);
      const [, ...args] = manifest.scripts.check.split(" ");
      const checkRun = await runGantry(t, [...args, "--json"], { projectDir });
      assert.equal(checkRun.code, 0, checkRun.stdout + checkRun.stderr);
      const { adapters } = JSON.parse(checkRun.stdout) as { adapters: AdapterReport[] };
      assert.deepEqual(
        adapters.map((adapter) => [adapter.kind, adapter.name]),
        [[kind, "@own/thing"]],
      );
      assert.ok(adapters[0]!.checks.every(({ status }) => status === "passed"));
      // The page's ports may be in use on this machine.
      const config = (await folder.read("new/config.json")).replace(/"port": \d+/g, '"port": 0');
      await folder.write({ "new/config.json": config });
      const server = await startServer(t, { projectDir, args: ["serve", "--config", "config.json", "--port", "0"] });
      assert.equal((await server.stop()).code, 0, server.stderr);
    });
  }

  it("scripts and pages name only existing tests and scripts", () => {
    const files = ["package.json", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
    for (const folder of [".ci", "docs"])
      files.push(
        ...readdirSync(path.join(ROOT, folder), { recursive: true }).map((file) => `${folder}/${String(file)}`),
      );
    for (const file of files.filter((name) => path.extname(name) !== "" && !name.endsWith(".svg"))) {
      const referencedFiles = readFileSync(path.join(ROOT, file), "utf8").matchAll(
        /(?<![\w/])(?:test|\.ci)\/[\w/.-]+\.(?:ts|mjs)\b/g,
      );
      for (const [name] of referencedFiles) assert.ok(existsSync(path.join(ROOT, name)), `${file} names ${name}`);
    }
  });

  it("writing-a-driver-reference.md lists every member of the port, optional members separately", () => {
    const port = readFileSync(path.join(ROOT, "src/ports/session-driver.ts"), "utf8");
    const [, body = ""] = /^export interface SessionDriver \{\n(.*?)^\}/ms.exec(port) ?? [];
    const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)(\?)?[(:]/gm)];
    const text = readFileSync(path.join(ROOT, "docs/writing-a-driver-reference.md"), "utf8");
    const tables = text.slice(text.indexOf("## Members"), text.indexOf("## Rules")).split("members are optional");
    const [requiredNames, optionalNames] = tables.map((table) =>
      [...table.matchAll(/^\| `.*? \|/gm)].flatMap(([row]) => [...row.matchAll(/`(\w+)/g)].map(([, name]) => name)),
    );
    const listMembers = (isOptional: boolean) =>
      members.filter(([, , optionalMark]) => (optionalMark === "?") === isOptional).map(([, name]) => name);
    assert.deepEqual(["name", ...(requiredNames ?? [])].sort(), listMembers(false).sort());
    assert.deepEqual(optionalNames?.sort(), listMembers(true).sort());
    assert.match(text, new RegExp(`It has a \`name\` and ${listMembers(false).length - 1} methods`));
  });

  it("live.md lists every event type, those of one session first", () => {
    const eventTypes = readFileSync(path.join(ROOT, "src/ports/watch.ts"), "utf8").matchAll(
      /^ {2}\| \{ type: "(\w+)"/gm,
    );
    const text = readFileSync(path.join(ROOT, "docs/live.md"), "utf8");
    const rows = [...text.matchAll(/^\| `(\w+)` /gm)].map(([, name]) => name);
    assert.deepEqual(
      rows,
      // An event type with and without a cursor has two entries in the port. `GET /api/events` adds its own types.
      [...new Set([...[...eventTypes].map(([, name]) => name), ...Object.keys(ALL_EVENTS)])],
    );
  });

  it("embedding-reference.md lists every option and every error", () => {
    const text = readFileSync(path.join(ROOT, "docs/embedding-reference.md"), "utf8");
    const [, options = ""] =
      /^export interface AgentOptions \{\n(.*?)^\}/ms.exec(
        readFileSync(path.join(ROOT, "src/agent/options.ts"), "utf8"),
      ) ?? [];
    const table = text.slice(text.indexOf("## Options of `Agent`"), text.indexOf("## Events of the agent"));
    const documentedOptions = [...table.matchAll(/^\| (`[^|]+`) +\|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    assert.deepEqual(
      documentedOptions.sort(),
      [...options.matchAll(/^ {2}(\w+)\??:/gm)].map(([, name]) => name).sort(),
    );
    const errors = readFileSync(path.join(ROOT, "src/ports/errors.ts"), "utf8");
    const errorClasses = [...errors.matchAll(/class (\w+) extends errorClass\(\s*"(\w+)"/g)];
    const rows = [...text.matchAll(/^\| `(\w+)` +\| `(\w+Error)`/gm)].map(([, code, name]) => `${code} ${name}`);
    assert.deepEqual(rows.sort(), errorClasses.map(([, name, code]) => `${code} ${name}`).sort());
  });

  describe("embedding.md", () => {
    const text = readFileSync(path.join(ROOT, "docs/embedding.md"), "utf8");
    const programs = [...text.matchAll(/^## ([^\n]+)$|^```js\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/gms)];
    let chapter = "";
    let programNumber = 0;
    for (const [, heading, program, documentedOutput] of programs) {
      if (program === undefined) [chapter, programNumber] = [heading ?? "", 0];
      else
        it(`has a program ${(programNumber += 1)} in "${chapter}" that ${documentedOutput === undefined ? "runs" : "prints the documented output"}`, async (t) => {
          const folder = await createUserProject(t);
          await folder.write({ "package.json": '{ "type": "module" }', "program.js": program });
          const output = await runNode(folder.path, "program.js");
          if (documentedOutput !== undefined) assert.equal(output, documentedOutput);
          assert.doesNotMatch(output, /^\s+at /m);
        });
    }
  });
});
