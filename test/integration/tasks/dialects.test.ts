// Names and arguments of the tools are those of the named agents, as their models write them. Most come from requests of
// Claude Code 2.1, codex 0.16, opencode 1.18, gemini-cli 0.61, qwen-code 0.24 and pi 0.74; those of earlier versions were
// not compared with a source. test/helpers/agent-dialects.ts names the schemas.
import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { errorStep } from "../../helpers/fake-model-server.js";
import {
  createFailedTurn,
  createTestFile,
  createToolUse,
  createTurn,
  PACKAGE_JSON,
  readText,
  requireMatch,
  runTask,
} from "../../helpers/task-worker.js";

describe("a small task in the dialect of another agent's model", { concurrency: 2 }, () => {
  it("is solved by calls for Claude Code: a server in the background, and a command past its limit", async (t) => {
    await runTask(t, {
      ...{ wire: "anthropic", model: "claude-sonnet-4-5" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/server.js":
          'import { greeting } from "./greeting.js";\nconsole.log(`ready: ${greeting}`);\nsetInterval(() => {}, 1000);\n',
        "src/greeting.js": 'export const greeting = "helo";\n',
        "test/greeting.test.js": createTestFile(
          'import { greeting } from "../src/greeting.js";',
          'test("greeting", () => assert.equal(greeting, "hello"));',
        ),
      },
      prompt: "The server greets wrongly.",
      *worker({ projectDir }) {
        const todos = [
          { content: "Start the server", status: "in_progress", activeForm: "Starting the server" },
          { content: "Mend the greeting", status: "pending", activeForm: "Mending the greeting" },
        ];
        const [todoResult, hangResult, startResult] = yield createTurn(
          createToolUse("TodoWrite", { todos }),
          createToolUse("Bash", { command: "node src/server.js", timeout: 2500, description: "Try the server" }),
          createToolUse("Bash", { command: "node src/server.js", run_in_background: true }),
        );
        requireMatch(todoResult!.text, /Mend the greeting/);
        requireMatch(hangResult!.text, /ready: helo[^]*stopped after 3 s/);
        const id = requireMatch(startResult!.text, /\b(bg-[\w-]+)/);
        const [outputResult, searchResult] = yield createTurn(
          createToolUse("BashOutput", { bash_id: id }),
          createToolUse("Grep", { pattern: "helo", output_mode: "content", "-n": true, glob: "*.js" }),
        );
        requireMatch(outputResult!.text, new RegExp(`${id}|ready`));
        const file = path.join(projectDir, requireMatch(searchResult!.text, /src\/greeting\.js/));
        const [, fileResult] = yield createTurn(
          createToolUse("KillShell", { shell_id: id }),
          createToolUse("Read", { file_path: file }),
        );
        requireMatch(fileResult!.text, /greeting = "helo"/);
        const createEdit = (oldText: string) =>
          createToolUse("Edit", { file_path: file, old_string: oldText, new_string: '"hello"', replace_all: false });
        const [mismatchResult] = yield createTurn(createEdit("'Helo'"));
        requireMatch(mismatchResult!.text, /was not found/);
        const [editResult] = yield createTurn(createEdit('"helo"'));
        requireMatch(editResult!.text, /Edited src\/greeting\.js/);
        return "Done.";
      },
    });
  });

  it("is solved by calls for codex: patches typed into the shell, the first of which does not match", async (t) => {
    const result = await runTask(t, {
      ...{ wire: "openai-responses", model: "gpt-5.1-codex" },
      files: {
        "package.json": PACKAGE_JSON,
        "lib/pad.js": "export function pad(text, width) {\n  return text.padStart(width);\n}\n",
        "test/pad.test.js": createTestFile(
          'import { pad } from "../lib/pad.js";',
          'test("pads at the end", () => assert.equal(pad("a", 3), "a.."));',
        ),
      },
      prompt: "pad() must pad with dots at the end.",
      *worker({ projectDir }) {
        const createShellCall = (script: string, folder = projectDir) =>
          createToolUse("shell", { command: ["bash", "-lc", script], workdir: folder, timeout_ms: 10_000 });
        const createPatch = (line: string) =>
          `apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: pad.js\n@@\n-${line}\n+  return text.padEnd(width, ".");\n*** End Patch\nEOF`;
        const plan = [
          { step: "Read the code", status: "in_progress" },
          { step: "Patch it", status: "pending" },
        ];
        const [, listResult] = yield createTurn(
          createToolUse("update_plan", { explanation: "Small steps", plan }),
          createToolUse("exec_command", { cmd: "ls", workdir: path.join(projectDir, "lib"), yield_time_ms: 1000 }),
        );
        requireMatch(listResult!.text, /pad\.js/);
        const lib = path.join(projectDir, "lib");
        const [mismatchResult] = yield createTurn(createShellCall(createPatch("  return text.padLeft(width);"), lib));
        requireMatch(mismatchResult!.text, /lib\/pad\.js: the patch was not found/);
        const [fileResult] = yield createTurn(createShellCall("sed -n '1,200p' pad.js", lib));
        const line = requireMatch(fileResult!.text, /  return text\.padStart\(width\);/);
        yield createFailedTurn(errorStep(429, "Rate limit reached", { "retry-after-ms": "5" }));
        const [patchResult] = yield createTurn(createShellCall(createPatch(line), lib));
        requireMatch(patchResult!.text, /lib\/pad\.js/);
        const [testResult] = yield createTurn(createToolUse("shell", { command: ["node", "--test"] }));
        requireMatch(testResult!.text, /^[#ℹ] fail 0$/m);
        return "pad() pads at the end.";
      },
    });
    assert.match(result.stderr, /lib\/pad\.js/, "the patch is shown as a change of the file");
  });

  it("is solved by calls for opencode: a command in a package deletes nothing in the root", async (t) => {
    const result = await runTask(t, {
      ...{ model: "kimi-k2" },
      files: {
        "package.json": PACKAGE_JSON,
        "build/keep.txt": "of the root\n",
        "packages/x/build/old.js": "old\n",
        "packages/x/source.js": "export const version = 1;\n",
        "packages/x/build.js":
          'import { copyFileSync, mkdirSync } from "node:fs";\nmkdirSync("build");\ncopyFileSync("source.js", "build/x.js");\n',
        "test/build.test.js": createTestFile(
          'import { readdirSync } from "node:fs";',
          'test("is built", async () => {',
          '  assert.deepEqual([readdirSync("build"), readdirSync("packages/x/build")], [["keep.txt"], ["x.js"]]);',
          '  assert.equal((await import("../packages/x/build/x.js")).version, 2);',
          "});",
        ),
      },
      prompt: "Set the version of package x to 2 and build it from scratch.",
      *worker({ projectDir }) {
        const todos = [{ content: "Build package x", status: "in_progress", priority: "high" }];
        const [, globResult] = yield createTurn(
          createToolUse("todowrite", { todos }),
          createToolUse("glob", { pattern: "**/source.js", path: projectDir }),
        );
        const filePath = path.join(projectDir, requireMatch(globResult!.text, /packages\/x\/source\.js/));
        yield createTurn(createToolUse("read", { filePath }));
        const edit = { filePath, oldString: "version = 1", newString: "version = 2" };
        const [editResult] = yield createTurn(createToolUse("edit", edit));
        requireMatch(editResult!.text, /Edited packages\/x\/source\.js/);
        const build = { command: "rm -rf build && node build.js", description: "Build package x", timeout: 20_000 };
        const [unknownResult] = yield createTurn(createToolUse("bash", { ...build, folder_name: "packages/x" }));
        requireMatch(unknownResult!.text, /folder_name.*did not run/s);
        yield createTurn(createToolUse("bash", { ...build, workdir: path.dirname(filePath) }));
        return "Built.";
      },
    });
    assert.equal(await readText(result.folder, "build/keep.txt"), "of the root\n");
  });

  it("is solved by calls for gemini-cli: a replacement of a text that occurs twice, and an answer that breaks off", async (t) => {
    await runTask(t, {
      ...{ wire: "google", model: "gemini-2.5-pro" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/limits.js": "export const limits = {\n  users: { max: 10 },\n  rooms: { max: 10 },\n};\n",
        "test/limits.test.js": createTestFile(
          'import { limits } from "../src/limits.js";',
          'import { NAME } from "../src/name.js";',
          'test("limits", () => assert.deepEqual([limits.users.max, limits.rooms.max, NAME], [10, 20, "wares"]));',
        ),
      },
      prompt: "Allow 20 rooms, and export the package's name from src/name.js.",
      *worker({ projectDir }) {
        const file = path.join(projectDir, "src/limits.js");
        const [listResult, searchResult] = yield createTurn(
          createToolUse("list_directory", { path: path.join(projectDir, "src") }),
          createToolUse("search_file_content", { pattern: "ROOMS", include: "*.js" }),
        );
        requireMatch(listResult!.text, /limits\.js/);
        requireMatch(searchResult!.text, /src\/limits\.js/);
        yield createTurn(
          createToolUse("read_file", { absolute_path: file }),
          createToolUse("read_file", { absolute_path: path.join(projectDir, "package.json") }),
        );
        const createReplace = (old_string: string, new_string: string) =>
          createToolUse("replace", {
            ...{ file_path: file, instruction: "Allow 20 rooms.", old_string, new_string, expected_replacements: 1 },
          });
        const [ambiguousResult] = yield createTurn(createReplace("max: 10", "max: 20"));
        requireMatch(ambiguousResult!.text, /occurs 2 times/);
        const calls = [
          createReplace("rooms: { max: 10 }", "rooms: { max: 20 }"),
          createToolUse("write_file", {
            file_path: path.join(projectDir, "src/name.js"),
            content: 'export const NAME = "wares";\n',
          }),
        ];
        yield createFailedTurn({ breaks: { at: 0.5, by: "cut" } }, ...calls);
        const [replaceResult] = yield createTurn(...calls);
        requireMatch(replaceResult!.text, /Edited src\/limits\.js/);
        const [testResult] = yield createTurn(
          createToolUse("run_shell_command", {
            command: "node --test",
            directory: projectDir,
            description: "Run the tests",
          }),
        );
        requireMatch(testResult!.text, /^[#ℹ] fail 0$/m);
        return "Done.";
      },
    });
  });

  it("is solved by calls for qwen-code: malformed arguments and a tool that gantry lacks", async (t) => {
    await runTask(t, {
      ...{ model: "qwen3-coder-plus" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/celsius.js": "export const celsius = (fahrenheit) => fahrenheit - 32 * (5 / 9);\n",
        "test/celsius.test.js": createTestFile(
          'import { celsius } from "../src/celsius.js";',
          'test("boils", () => assert.equal(celsius(212), 100));',
        ),
      },
      prompt: "celsius() is wrong.",
      *worker({ projectDir }) {
        const file_path = path.join(projectDir, "src/celsius.js");
        const todos = [{ id: "1", content: "Mend celsius()", status: "in_progress" }];
        const [todoResult, searchResult, planResult] = yield createTurn(
          createToolUse("todo_write", { todos }),
          createToolUse("grep_search", { pattern: "celsius", path: path.join(projectDir, "src"), glob: "*.js" }),
          createToolUse("exit_plan_mode", { plan: "Add parentheses." }),
        );
        requireMatch(todoResult!.text, /Mend celsius/);
        requireMatch(searchResult!.text, /celsius\.js/);
        requireMatch(planResult!.text, /does not exist/);
        yield createTurn(createToolUse("read_file", { file_path, offset: 0, limit: 200 }));
        const edit = { file_path, old_string: "fahrenheit - 32 *", new_string: "(fahrenheit - 32) *" };
        const [brokenResult] = yield createTurn(createToolUse("edit", `${JSON.stringify(edit).slice(0, -2)}`));
        requireMatch(brokenResult!.text, /not valid JSON/);
        const [editResult] = yield createTurn(createToolUse("edit", edit));
        requireMatch(editResult!.text, /Edited src\/celsius\.js/);
        const command = { command: "node --test", is_background: false, timeout: 20_000, directory: projectDir };
        const [testResult] = yield createTurn(createToolUse("run_shell_command", command));
        requireMatch(testResult!.text, /^[#ℹ] fail 0$/m);
        return "Parentheses were missing.";
      },
    });
  });

  it("is solved by calls for pi: a list of edits, one of which does not match", async (t) => {
    await runTask(t, {
      wire: "openai-responses",
      files: {
        "package.json": PACKAGE_JSON,
        "src/names.js":
          "export const first = (name) => name.split(' ')[1];\nexport const last = (name) => name.split(' ')[0];\n",
        "test/names.test.js": createTestFile(
          'import { first, last } from "../src/names.js";',
          'test("names", () => assert.deepEqual([first("Ada King"), last("Ada King")], ["Ada", "King"]));',
        ),
      },
      prompt: "first() and last() are swapped.",
      *worker({ projectDir }) {
        const [listResult, findResult] = yield createTurn(
          createToolUse("ls", { path: "src" }),
          createToolUse("find", { pattern: "*.js", path: "src" }),
        );
        requireMatch(listResult!.text, /names\.js/);
        requireMatch(findResult!.text, /names\.js/);
        yield createTurn(createToolUse("read", { path: "src/names.js" }));
        const createEdit = (...oldTexts: string[]) =>
          createToolUse("edit", {
            path: "src/names.js",
            edits: oldTexts.map((oldText, i) => ({ oldText, newText: oldText.replace(/\[\d\]/, `[${i}]`) })),
          });
        const [mismatchResult] = yield createTurn(
          createEdit("first = (name) => name.split(' ')[1]", "last = (text) => name.split(' ')[0]"),
        );
        requireMatch(mismatchResult!.text, /was not found/);
        const [unchangedResult] = yield createTurn(
          createToolUse("bash", { command: "git status --short", timeout: 5 }),
        );
        assert.doesNotMatch(unchangedResult!.text, /names/, "a list of edits is applied completely or not at all");
        const [editResult] = yield createTurn(
          createEdit("first = (name) => name.split(' ')[1]", "last = (name) => name.split(' ')[0]"),
        );
        requireMatch(editResult!.text, /Edited src\/names\.js/);
        const [testResult] = yield createTurn(createToolUse("bash", { command: `cd ${projectDir} && node --test` }));
        requireMatch(testResult!.text, /^[#ℹ] fail 0$/m);
        return "They were swapped.";
      },
    });
  });
});
