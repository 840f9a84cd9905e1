import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { describe, it } from "node:test";
import { runGantry } from "../../helpers/server.js";
import {
  PACKAGE_JSON,
  createTestFile,
  requireMatch,
  readText,
  createTurn,
  createToolUse,
  runTask,
} from "../../helpers/task-worker.js";

/** Returns the absolute path of the program of an installed package. */
function findProgram(name: string): string {
  const require = createRequire(import.meta.url);
  const manifestPath = require.resolve(`${name}/package.json`);
  const { bin } = require(manifestPath) as { bin: Record<string, string> };
  return path.join(path.dirname(manifestPath), Object.values(bin)[0]!);
}

describe("a small task that needs a specific tool", () => {
  it("is solved with a background service that is started, probed and stopped", async (t) => {
    const serverSource = [
      'import { createServer } from "node:http";',
      'import { answer } from "./answer.js";',
      "const server = createServer((_, response) => response.end(answer()));",
      'server.listen(0, "127.0.0.1", () => console.log(`ready on ${server.address().port}`));',
      "",
    ].join("\n");
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/server.js": serverSource,
        "src/answer.js": 'export const answer = () => "helo";\n',
        "test/answer.test.js": createTestFile(
          'import { answer } from "../src/answer.js";',
          'test("says hello", () => assert.equal(answer(), "hello"));',
        ),
      },
      prompt: "The service says something odd. Start it, look what it says, and mend it.",
      *worker() {
        const startCall = createToolUse("bash", { command: "node src/server.js", background: true });
        const createProbeCall = (port: string) =>
          createToolUse("bash", {
            command: `node -e 'fetch("http://127.0.0.1:${port}").then(async (r) => console.log("<" + (await r.text()) + ">"))'`,
          });
        let [startResult] = yield createTurn(startCall);
        let id = requireMatch(startResult!.text, /\b(bg-[\w-]+)/);
        let [outputResult] = yield createTurn(createToolUse("bash_output", { id, wait_for: "ready on \\d+" }));
        const [probeResult] = yield createTurn(createProbeCall(requireMatch(outputResult!.text, /ready on (\d+)/)));
        requireMatch(probeResult!.text, /<helo>/);
        yield createTurn(createToolUse("bash_stop", { id }), createToolUse("grep", { pattern: "helo" }));
        yield createTurn(createToolUse("read", { path: "src/answer.js" }));
        yield createTurn(createToolUse("edit", { path: "src/answer.js", old_string: '"helo"', new_string: '"hello"' }));
        [startResult] = yield createTurn(startCall);
        id = requireMatch(startResult!.text, /\b(bg-[\w-]+)/);
        [outputResult] = yield createTurn(createToolUse("bash_output", { id, wait_for: "ready on \\d+" }));
        const [secondProbeResult] = yield createTurn(
          createProbeCall(requireMatch(outputResult!.text, /ready on (\d+)/)),
        );
        requireMatch(secondProbeResult!.text, /<hello>/);
        const [stopResult] = yield createTurn(createToolUse("bash_stop", { id }));
        assert.doesNotMatch(stopResult!.text, /is running/);
        return "It said helo (src/answer.js); now it says hello. The service is stopped.";
      },
    });
  });

  it("is solved with the AGENTS.md nearest to the changed file, which is shown once", async (t) => {
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "AGENTS.md": "Each function has a doc comment.\n",
        "packages/api/AGENTS.md": "In this package every doc comment ends with the line `@since 4.2`.\n",
        "packages/api/add.js": "/** Adds.\n * @since 4.2 */\nexport const add = (a, b) => a + b;\n",
        "packages/api/index.js": 'export * from "./add.js";\n',
        "test/api.test.js": createTestFile(
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
        requireMatch(system, /Each function has a doc comment/);
        assert.doesNotMatch(system, /@since/);
        const [indexResult] = yield createTurn(createToolUse("read", { path: "packages/api/index.js" }));
        const rule = requireMatch(indexResult!.text, /ends with the line `(@since [\d.]+)`/);
        const [addResult] = yield createTurn(createToolUse("read", { path: "packages/api/add.js" }));
        assert.doesNotMatch(addResult!.text, /ends with the line/, "the rule is shown once");
        yield createTurn(
          createToolUse("write", {
            path: "packages/api/mul.js",
            content: `/**\n * Multiplies.\n * ${rule}\n */\nexport const mul = (a, b) => a * b;\n`,
          }),
          createToolUse("write", {
            path: "packages/api/index.js",
            content: 'export * from "./add.js";\nexport * from "./mul.js";\n',
          }),
        );
        return "mul is there.";
      },
    });
  });

  it("is solved with one apply_patch call over several files by gpt-5.1-codex", async (t) => {
    const patchTask = await runTask(t, {
      model: "gpt-5.1-codex",
      files: {
        "package.json": PACKAGE_JSON,
        "src/list.js":
          "export function first(list) {\n  return list[0];\n}\n\nexport function last(list) {\n  return list[list.length];\n}\n",
        "src/old.js": "export const unused = 1;\n",
        "test/list.test.js": createTestFile(
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
        yield createTurn(createToolUse("read", { path: "src/list.js" }), createToolUse("read", { path: "src/old.js" }));
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
        const [patchResult] = yield createTurn(createToolUse("apply_patch", { input }));
        requireMatch(patchResult!.text, /src\/sum\.js/);
        const [testResult] = yield createTurn(createToolUse("bash", { command: "node --test" }));
        requireMatch(testResult!.text, /^[#ℹ] fail 0$/m);
        return "Done.";
      },
    });
    assert.equal(
      await readText(patchTask.folder, "src/sum.js"),
      "export const sum = (list) => list.reduce((a, b) => a + b, 0);\n",
    );
  });

  it("is solved after the edit result reports a new syntax error", async (t) => {
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/max.js":
          "export function max(list) {\n  let most = 0;\n  for (const one of list) if (one > most) most = one;\n  return most;\n}\n",
        "test/max.test.js": createTestFile(
          'import { max } from "../src/max.js";',
          'test("max", () => assert.equal(max([-3, -2]), -2));',
        ),
      },
      prompt: "max() is wrong for numbers below 0.",
      *worker() {
        yield createTurn(createToolUse("read", { path: "src/max.js" }));
        const [editResult] = yield createTurn(
          createToolUse("edit", {
            path: "src/max.js",
            old_string: "let most = 0;",
            new_string: "let most = -Infinity;;)",
          }),
        );
        requireMatch(editResult!.text, /syntax error[^]*src\/max\.js:2/);
        const [fixResult] = yield createTurn(
          createToolUse("edit", { path: "src/max.js", old_string: "-Infinity;;)", new_string: "-Infinity;" }),
        );
        assert.doesNotMatch(fixResult!.text, /syntax error/);
        return "It began at 0.";
      },
    });
  });

  it("is solved with the search result of a read-only subagent", async (t) => {
    const partFiles = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `src/part-${i}.js`,
        i === 23 ? "export const LIMIT = 99;\n" : `export const part = ${i};\n`,
      ]),
    );
    const searchTask = await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        ...partFiles,
        "test/limit.test.js": createTestFile(
          'import { readdirSync, readFileSync } from "node:fs";',
          'test("the limit is 100", () => {',
          '  const all = readdirSync("src").map((name) => readFileSync(`src/${name}`, "utf8")).join("");',
          "  assert.match(all, /LIMIT = 100;/);",
          "});",
        ),
      },
      prompt: "Make the limit 100.",
      *worker() {
        const [subagentResult] = yield createTurn(
          createToolUse("task", {
            description: "find the limit",
            prompt: "Find the file that defines LIMIT. Answer with its path alone.",
            read_only: true,
          }),
        );
        const path = requireMatch(subagentResult!.text, /src\/part-\d+\.js/);
        yield createTurn(createToolUse("read", { path }));
        yield createTurn(createToolUse("edit", { path, old_string: "LIMIT = 99", new_string: "LIMIT = 100" }));
        return `LIMIT is 100 now (${path}).`;
      },
      *subagent({ tools }) {
        assert.ok(
          !tools.includes("task") && !tools.includes("write") && !tools.includes("bash"),
          "a read-only subagent has no tool that makes changes",
        );
        const [grepResult] = yield createTurn(createToolUse("grep", { pattern: "LIMIT" }));
        return requireMatch(grepResult!.text, /src\/part-\d+\.js/);
      },
    });
    assert.match(searchTask.stderr, /Read-only task: find the limit/);
  });

  it("is solved with information from a tool of an MCP server", async (t) => {
    const memory = JSON.stringify({
      type: "entity",
      ...{ name: "greeting", entityType: "requirement", observations: ["greet(name) says: Ahoy, NAME!"] },
    });
    const folder = await (await import("../../helpers/temp-dir.js")).tempDir(t, { "memory.jsonl": `${memory}\n` });
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/greet.js": "export const greet = (name) => name;\n",
        "test/greet.test.js": createTestFile(
          'import { greet } from "../src/greet.js";',
          'test("greets", () => assert.equal(greet("Ada"), "Ahoy, Ada!"));',
        ),
      },
      config: {
        mcp_servers: {
          memory: {
            command: process.execPath,
            args: [findProgram("@modelcontextprotocol/server-memory")],
            env: { MEMORY_FILE_PATH: folder.at("memory.jsonl") },
          },
        },
      },
      prompt: "greet() must say what the memory server knows of it.",
      *worker({ tools }) {
        assert.ok(tools.includes("memory__search_nodes"));
        const [memoryResult, fileResult] = yield createTurn(
          createToolUse("memory__search_nodes", { query: "greeting" }),
          createToolUse("read", { path: "src/greet.js" }),
        );
        const greeting = requireMatch(memoryResult!.text, /says: (\w+), NAME!/);
        requireMatch(fileResult!.text, /=> name;/);
        yield createTurn(
          createToolUse("edit", {
            path: "src/greet.js",
            old_string: "=> name;",
            new_string: `=> \`${greeting}, \${name}!\`;`,
          }),
        );
        return "Done.";
      },
    });
  });

  it("is solved with a skill that the system prompt lists", async (t) => {
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        ".agents/skills/release-notes/SKILL.md":
          "---\nname: release-notes\ndescription: How notes of a release are written here.\n---\nThe notes are in NOTES.md. Each entry begins with `* ` and ends with a full stop. The form is in form.txt.\n",
        ".agents/skills/release-notes/form.txt": "* [area] what changed.\n",
        "NOTES.md": "# Notes\n\n* [core] It begins.\n",
        "test/notes.test.js": createTestFile(
          'import { readFileSync } from "node:fs";',
          'test("an entry", () => assert.match(readFileSync("NOTES.md", "utf8"), /^\\* \\[cli\\] A flag --quiet\\.$/m));',
        ),
      },
      prompt: "Write the release note for the new flag --quiet of the cli.",
      *worker({ system, tools }) {
        requireMatch(system, /- release-notes \(project\): How notes of a release are written here/);
        assert.ok(tools.includes("skill"));
        const [skillResult] = yield createTurn(createToolUse("skill", { name: "release-notes" }));
        const file = requireMatch(skillResult!.text, /The notes are in (\S+)\./);
        const [formResult] = yield createTurn(
          createToolUse("skill", { name: "release-notes", file: requireMatch(skillResult!.text, /form\.txt/) }),
          createToolUse("read", { path: file }),
        );
        requireMatch(formResult!.text, /\* \[area\]/);
        yield createTurn(
          createToolUse("edit", {
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
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        ".agents/commands/constant.md":
          "---\ndescription: Add a constant\nargument-hint: NAME VALUE\n---\nAdd a constant $1 with the value $2 to src/constants.js, in upper case.\n",
        "src/constants.js": "export const ONE = 1;\n",
        "test/constants.test.js": createTestFile(
          'test("two", async () => assert.equal((await import("../src/constants.js")).TWO, 2));',
        ),
      },
      prompt: "/constant two 2",
      *worker({ prompt }) {
        const name = requireMatch(prompt, /Add a constant (\w+) with the value 2/);
        const [constantsResult] = yield createTurn(createToolUse("read", { path: "src/constants.js" }));
        requireMatch(constantsResult!.text, /ONE = 1/);
        yield createTurn(
          createToolUse("edit", {
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
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/table.js": "export const table = Array.from({ length: 60_000 }, (_, i) => (i === 41_234 ? -1 : i));\n",
        "check.js":
          'import { table } from "./src/table.js";\ntable.forEach((v, i) => console.log(v === i ? `row ${i} is as it should be` : `row ${i} BROKEN: ${v}`));\n',
        "test/table.test.js": createTestFile(
          'import { table } from "../src/table.js";',
          'test("rows", () => assert.ok(table.every((v, i) => v === i)));',
        ),
      },
      prompt: "node check.js says that a row is broken. Which? Mend it.",
      *worker() {
        const [commandResult] = yield createTurn(createToolUse("bash", { command: "node check.js" }));
        assert.doesNotMatch(commandResult!.text, /BROKEN/);
        const file = requireMatch(commandResult!.text, /(\/\S+\/outputs\/[^\s\]:]+)/);
        const [matchResult] = yield createTurn(createToolUse("grep", { pattern: "BROKEN", path: file }));
        const row = requireMatch(matchResult!.text, /row (\d+) BROKEN/);
        assert.equal(row, "41234");
        yield createTurn(createToolUse("read", { path: "src/table.js" }));
        yield createTurn(
          createToolUse("edit", { path: "src/table.js", old_string: "(i === 41_234 ? -1 : i)", new_string: "i" }),
        );
        return "Row 41234.";
      },
    });
  });

  it("can have its file changes reverted by gantry sessions undo", async (t) => {
    const files = {
      "package.json": PACKAGE_JSON,
      "src/a.js": "export const a = 1;\n",
      "src/b.js": "export const b = 2;\n",
      "test/a.test.js": createTestFile('import { a } from "../src/a.js";', 'test("a", () => assert.ok(a >= 1));'),
    };
    const changeTask = await runTask(t, {
      files,
      hasFailingTests: false,
      prompt: "Put b into a.js.",
      *worker() {
        yield createTurn(createToolUse("read", { path: "src/a.js" }), createToolUse("read", { path: "src/b.js" }));
        yield createTurn(
          createToolUse("write", { path: "src/a.js", content: "export const a = 1;\nexport const b = 2;\n" }),
          createToolUse("delete", { path: "src/b.js" }),
          createToolUse("write", { path: "src/c/d.js", content: "export {};\n" }),
        );
        return "Done.";
      },
    });
    assert.notEqual((await changeTask.git("status", "--short")).trim(), "");
    const [session] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(changeTask.stderr) ?? [""];
    const undoRun = await runGantry(t, ["sessions", "undo", session], {
      home: changeTask.home,
      projectDir: changeTask.folder.path,
    });
    assert.equal(undoRun.code, 0, undoRun.stderr);
    assert.equal((await changeTask.git("status", "--short")).trim(), "");
    assert.equal(await readText(changeTask.folder, "src/b.js"), files["src/b.js"]);
  });
});
