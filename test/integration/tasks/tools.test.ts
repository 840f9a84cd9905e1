import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { describe, it } from "node:test";
import { runGantry } from "../../helpers/server.js";
import { matchIn, textOf, turn, use, work } from "../../helpers/task-worker.js";

const PACKAGE = JSON.stringify({ name: "wares", version: "1.0.0", type: "module", private: true });

/** A test file with these lines and the common imports. */
function tests(...lines: string[]): string {
  return ['import assert from "node:assert/strict";', 'import { test } from "node:test";', ...lines, ""].join("\n");
}

/** The program of an installed package, as a command for the config. */
function installed(name: string): string {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve(`${name}/package.json`);
  const { bin } = require(manifest) as { bin: Record<string, string> };
  return path.join(path.dirname(manifest), Object.values(bin)[0]!);
}

describe("a small task that needs a specific tool", () => {
  it("is solved with a background service that is started, probed and stopped", async (t) => {
    const server = [
      'import { createServer } from "node:http";',
      'import { answer } from "./answer.js";',
      "const server = createServer((_, response) => response.end(answer()));",
      'server.listen(0, "127.0.0.1", () => console.log(`ready on ${server.address().port}`));',
      "",
    ].join("\n");
    await work(t, {
      files: {
        "package.json": PACKAGE,
        "src/server.js": server,
        "src/answer.js": 'export const answer = () => "helo";\n',
        "test/answer.test.js": tests(
          'import { answer } from "../src/answer.js";',
          'test("says hello", () => assert.equal(answer(), "hello"));',
        ),
      },
      prompt: "The service says something odd. Start it, look what it says, and mend it.",
      *worker() {
        const start = use("bash", { command: "node src/server.js", background: true });
        const probe = (port: string) =>
          use("bash", {
            command: `node -e 'fetch("http://127.0.0.1:${port}").then(async (r) => console.log("<" + (await r.text()) + ">"))'`,
          });
        let [begun] = yield turn(start);
        let id = matchIn(begun!.text, /\b(bg-[\w-]+)/);
        let [out] = yield turn(use("bash_output", { id, wait_for: "ready on \\d+" }));
        const [probeResult] = yield turn(probe(matchIn(out!.text, /ready on (\d+)/)));
        matchIn(probeResult!.text, /<helo>/);
        yield turn(use("bash_stop", { id }), use("grep", { pattern: "helo" }));
        yield turn(use("read", { path: "src/answer.js" }));
        yield turn(use("edit", { path: "src/answer.js", old_string: '"helo"', new_string: '"hello"' }));
        [begun] = yield turn(start);
        id = matchIn(begun!.text, /\b(bg-[\w-]+)/);
        [out] = yield turn(use("bash_output", { id, wait_for: "ready on \\d+" }));
        const [now] = yield turn(probe(matchIn(out!.text, /ready on (\d+)/)));
        matchIn(now!.text, /<hello>/);
        const [ended] = yield turn(use("bash_stop", { id }));
        assert.doesNotMatch(ended!.text, /is running/);
        return "It said helo (src/answer.js); now it says hello. The service is stopped.";
      },
    });
  });

  it("is solved with the AGENTS.md nearest to the changed file, which is shown once", async (t) => {
    await work(t, {
      files: {
        "package.json": PACKAGE,
        "AGENTS.md": "Each function has a doc comment.\n",
        "packages/api/AGENTS.md": "In this package every doc comment ends with the line `@since 4.2`.\n",
        "packages/api/add.js": "/** Adds.\n * @since 4.2 */\nexport const add = (a, b) => a + b;\n",
        "packages/api/index.js": 'export * from "./add.js";\n',
        "test/api.test.js": tests(
          'import { readFileSync } from "node:fs";',
          'test("mul", async () => {',
          '  const { mul } = await import("../packages/api/index.js");',
          "  assert.equal(mul(3, 4), 12);",
          '  assert.match(readFileSync("packages/api/mul.js", "utf8"), /\\/\\*\\*[^]*@since 4\\.2[^]*\\*\\/\\s*export/);',
          "});",
        ),
      },
      prompt: "Add mul(a, b) to the api package.",
      *worker({ system }) {
        matchIn(system, /Each function has a doc comment/);
        assert.doesNotMatch(system, /@since/);
        const [read] = yield turn(use("read", { path: "packages/api/index.js" }));
        const rule = matchIn(read!.text, /ends with the line `(@since [\d.]+)`/);
        const [again] = yield turn(use("read", { path: "packages/api/add.js" }));
        assert.doesNotMatch(again!.text, /ends with the line/, "it is told once");
        yield turn(
          use("write", {
            path: "packages/api/mul.js",
            content: `/**\n * Multiplies.\n * ${rule}\n */\nexport const mul = (a, b) => a * b;\n`,
          }),
          use("write", {
            path: "packages/api/index.js",
            content: 'export * from "./add.js";\nexport * from "./mul.js";\n',
          }),
        );
        return "mul is there.";
      },
    });
  });

  it("is solved with one apply_patch call over several files by gpt-5.1-codex", async (t) => {
    const done = await work(t, {
      model: "gpt-5.1-codex",
      files: {
        "package.json": PACKAGE,
        "src/list.js":
          "export function first(list) {\n  return list[0];\n}\n\nexport function last(list) {\n  return list[list.length];\n}\n",
        "src/old.js": "export const unused = 1;\n",
        "test/list.test.js": tests(
          'import { existsSync } from "node:fs";',
          'test("list", async () => {',
          '  const { last } = await import("../src/list.js");',
          '  const { sum } = await import("../src/sum.js");',
          "  assert.deepEqual([last([1, 2, 3]), sum([1, 2])], [3, 3]);",
          '  assert.ok(!existsSync("src/old.js"));',
          "});",
        ),
      },
      prompt: "Mend last(), add sum(list) in src/sum.js, and take src/old.js away.",
      *worker({ tools }) {
        assert.ok(tools.includes("apply_patch") && !tools.includes("edit") && !tools.includes("multiedit"));
        yield turn(use("read", { path: "src/list.js" }), use("read", { path: "src/old.js" }));
        const input = [
          "*** Begin Patch",
          "*** Update File: src/list.js",
          "@@ export function last(list) {",
          "-  return list[list.length];",
          "+  return list[list.length - 1];",
          " }",
          "*** Add File: src/sum.js",
          "+export const sum = (list) => list.reduce((a, b) => a + b, 0);",
          "*** Delete File: src/old.js",
          "*** End Patch",
        ].join("\n");
        const [patched] = yield turn(use("apply_patch", { input }));
        matchIn(patched!.text, /src\/sum\.js/);
        const [run] = yield turn(use("bash", { command: "node --test" }));
        matchIn(run!.text, /^[#ℹ] fail 0$/m);
        return "Done.";
      },
    });
    assert.equal(
      await textOf(done.folder, "src/sum.js"),
      "export const sum = (list) => list.reduce((a, b) => a + b, 0);\n",
    );
  });

  it("is solved after the edit result reports a new syntax error", async (t) => {
    await work(t, {
      files: {
        "package.json": PACKAGE,
        "src/max.js":
          "export function max(list) {\n  let most = 0;\n  for (const one of list) if (one > most) most = one;\n  return most;\n}\n",
        "test/max.test.js": tests(
          'import { max } from "../src/max.js";',
          'test("max", () => assert.equal(max([-3, -2]), -2));',
        ),
      },
      prompt: "max() is wrong for numbers below 0.",
      *worker() {
        yield turn(use("read", { path: "src/max.js" }));
        const [edit] = yield turn(
          use("edit", { path: "src/max.js", old_string: "let most = 0;", new_string: "let most = -Infinity;;)" }),
        );
        matchIn(edit!.text, /syntax error[^]*src\/max\.js:2/);
        const [mended] = yield turn(
          use("edit", { path: "src/max.js", old_string: "-Infinity;;)", new_string: "-Infinity;" }),
        );
        assert.doesNotMatch(mended!.text, /syntax error/);
        return "It began at 0.";
      },
    });
  });

  it("is solved with the search result of a read-only subagent", async (t) => {
    const many = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `src/part-${i}.js`,
        i === 23 ? "export const LIMIT = 99;\n" : `export const part = ${i};\n`,
      ]),
    );
    const done = await work(t, {
      files: {
        "package.json": PACKAGE,
        ...many,
        "test/limit.test.js": tests(
          'import { readdirSync, readFileSync } from "node:fs";',
          'test("the limit is 100", () => {',
          '  const all = readdirSync("src").map((name) => readFileSync(`src/${name}`, "utf8")).join("");',
          "  assert.match(all, /LIMIT = 100;/);",
          "});",
        ),
      },
      prompt: "Make the limit 100.",
      *worker() {
        const [helped] = yield turn(
          use("task", {
            description: "find the limit",
            prompt: "Find the file that defines LIMIT. Answer with its path alone.",
            read_only: true,
          }),
        );
        const path = matchIn(helped!.text, /src\/part-\d+\.js/);
        yield turn(use("read", { path }));
        yield turn(use("edit", { path, old_string: "LIMIT = 99", new_string: "LIMIT = 100" }));
        return `LIMIT is 100 now (${path}).`;
      },
      *subagent({ tools }) {
        assert.ok(!tools.includes("task") && !tools.includes("write") && !tools.includes("bash"), "it may only look");
        const [hits] = yield turn(use("grep", { pattern: "LIMIT" }));
        return matchIn(hits!.text, /src\/part-\d+\.js/);
      },
    });
    assert.match(done.stderr, /Read-only task: find the limit/);
  });

  it("is solved with information from a tool of an MCP server", async (t) => {
    const memory = JSON.stringify({
      type: "entity",
      ...{ name: "greeting", entityType: "requirement", observations: ["greet(name) says: Ahoy, NAME!"] },
    });
    const folder = await (await import("../../helpers/temp.js")).tempDir(t, { "memory.jsonl": `${memory}\n` });
    await work(t, {
      files: {
        "package.json": PACKAGE,
        "src/greet.js": "export const greet = (name) => name;\n",
        "test/greet.test.js": tests(
          'import { greet } from "../src/greet.js";',
          'test("greets", () => assert.equal(greet("Ada"), "Ahoy, Ada!"));',
        ),
      },
      config: {
        mcp_servers: {
          memory: {
            command: process.execPath,
            args: [installed("@modelcontextprotocol/server-memory")],
            env: { MEMORY_FILE_PATH: folder.at("memory.jsonl") },
          },
        },
      },
      prompt: "greet() must say what the memory server knows of it.",
      *worker({ tools }) {
        assert.ok(tools.includes("memory__search_nodes"));
        const [memoryResult, code] = yield turn(
          use("memory__search_nodes", { query: "greeting" }),
          use("read", { path: "src/greet.js" }),
        );
        const word = matchIn(memoryResult!.text, /says: (\w+), NAME!/);
        matchIn(code!.text, /=> name;/);
        yield turn(
          use("edit", { path: "src/greet.js", old_string: "=> name;", new_string: `=> \`${word}, \${name}!\`;` }),
        );
        return "Done.";
      },
    });
  });

  it("is solved with a skill that the system prompt lists", async (t) => {
    await work(t, {
      files: {
        "package.json": PACKAGE,
        ".agents/skills/release-notes/SKILL.md":
          "---\nname: release-notes\ndescription: How notes of a release are written here.\n---\nThe notes are in NOTES.md. Each entry begins with `* ` and ends with a full stop. The form is in form.txt.\n",
        ".agents/skills/release-notes/form.txt": "* [area] what changed.\n",
        "NOTES.md": "# Notes\n\n* [core] It begins.\n",
        "test/notes.test.js": tests(
          'import { readFileSync } from "node:fs";',
          'test("an entry", () => assert.match(readFileSync("NOTES.md", "utf8"), /^\\* \\[cli\\] A flag --quiet\\.$/m));',
        ),
      },
      prompt: "Write the release note for the new flag --quiet of the cli.",
      *worker({ system, tools }) {
        matchIn(system, /- release-notes \(project\): How notes of a release are written here/);
        assert.ok(tools.includes("skill"));
        const [skill] = yield turn(use("skill", { name: "release-notes" }));
        const file = matchIn(skill!.text, /The notes are in (\S+)\./);
        const [form] = yield turn(
          use("skill", { name: "release-notes", file: matchIn(skill!.text, /form\.txt/) }),
          use("read", { path: file }),
        );
        matchIn(form!.text, /\* \[area\]/);
        yield turn(
          use("edit", {
            path: file,
            old_string: "* [core] It begins.\n",
            new_string: "* [core] It begins.\n* [cli] A flag --quiet.\n",
          }),
        );
        return "The note is in NOTES.md.";
      },
    });
  });

  it("is solved with a project command that is expanded into the prompt", async (t) => {
    await work(t, {
      files: {
        "package.json": PACKAGE,
        ".agents/commands/constant.md":
          "---\ndescription: Add a constant\nargument-hint: NAME VALUE\n---\nAdd a constant $1 with the value $2 to src/constants.js, in upper case.\n",
        "src/constants.js": "export const ONE = 1;\n",
        "test/constants.test.js": tests(
          'test("two", async () => assert.equal((await import("../src/constants.js")).TWO, 2));',
        ),
      },
      prompt: "/constant two 2",
      *worker({ prompt }) {
        const name = matchIn(prompt, /Add a constant (\w+) with the value 2/);
        const [read] = yield turn(use("read", { path: "src/constants.js" }));
        matchIn(read!.text, /ONE = 1/);
        yield turn(
          use("edit", {
            path: "src/constants.js",
            old_string: "export const ONE = 1;",
            new_string: `export const ONE = 1;\nexport const ${name.toUpperCase()} = 2;`,
          }),
        );
        return "Added.";
      },
    });
  });

  it("is solved with a search in the saved output of a command whose result was truncated", async (t) => {
    await work(t, {
      files: {
        "package.json": PACKAGE,
        "src/table.js": "export const table = Array.from({ length: 60_000 }, (_, i) => (i === 41_234 ? -1 : i));\n",
        "check.js":
          'import { table } from "./src/table.js";\ntable.forEach((v, i) => console.log(v === i ? `row ${i} is as it should be` : `row ${i} BROKEN: ${v}`));\n',
        "test/table.test.js": tests(
          'import { table } from "../src/table.js";',
          'test("rows", () => assert.ok(table.every((v, i) => v === i)));',
        ),
      },
      prompt: "node check.js says that a row is broken. Which? Mend it.",
      *worker() {
        const [out] = yield turn(use("bash", { command: "node check.js" }));
        assert.doesNotMatch(out!.text, /BROKEN/);
        const file = matchIn(out!.text, /(\/\S+\/outputs\/[^\s\]:]+)/);
        const [hit] = yield turn(use("grep", { pattern: "BROKEN", path: file }));
        const row = matchIn(hit!.text, /row (\d+) BROKEN/);
        assert.equal(row, "41234");
        yield turn(use("read", { path: "src/table.js" }));
        yield turn(use("edit", { path: "src/table.js", old_string: "(i === 41_234 ? -1 : i)", new_string: "i" }));
        return "Row 41234.";
      },
    });
  });

  it("can have its file changes reverted by gantry sessions undo", async (t) => {
    const files = {
      "package.json": PACKAGE,
      "src/a.js": "export const a = 1;\n",
      "src/b.js": "export const b = 2;\n",
      "test/a.test.js": tests('import { a } from "../src/a.js";', 'test("a", () => assert.ok(a >= 1));'),
    };
    const done = await work(t, {
      files,
      fails: false,
      prompt: "Put b into a.js.",
      *worker() {
        yield turn(use("read", { path: "src/a.js" }), use("read", { path: "src/b.js" }));
        yield turn(
          use("write", { path: "src/a.js", content: "export const a = 1;\nexport const b = 2;\n" }),
          use("delete", { path: "src/b.js" }),
          use("write", { path: "src/c/d.js", content: "export {};\n" }),
        );
        return "Done.";
      },
    });
    assert.notEqual((await done.git("status", "--short")).trim(), "");
    const [session] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(done.stderr) ?? [""];
    const undone = await runGantry(t, ["sessions", "undo", session], { home: done.home, projectDir: done.folder.path });
    assert.equal(undone.code, 0, undone.stderr);
    assert.equal((await done.git("status", "--short")).trim(), "");
    assert.equal(await textOf(done.folder, "src/b.js"), files["src/b.js"]);
  });
});
