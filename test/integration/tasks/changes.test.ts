import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PACKAGE_JSON, requireMatch, readText, createTurn, createToolUse, runTask } from "../../helpers/task-worker.js";

describe("an agent with a small task in a repository with tests", () => {
  it("fixes a failing test in the code, not in the test", async (t) => {
    const totalSource = [
      "/** Price of a basket in cents, with the discount of its size. */",
      "export function total(items) {",
      "  let sum = 0;",
      "  for (let i = 0; i <= items.length - 1; i++) {",
      "    sum += items[i].price * items[i].count;",
      "  }",
      "  if (items.length > 10) return Math.floor(sum * 0.9);",
      "  return sum;",
      "}",
      "",
    ].join("\n");
    const testSource = [
      'import assert from "node:assert/strict";',
      'import { test } from "node:test";',
      'import { total } from "../src/total.js";',
      "",
      'test("ten things or more are cheaper", () => {',
      "  const ten = Array.from({ length: 10 }, () => ({ price: 100, count: 1 }));",
      "  assert.equal(total(ten), 900);",
      "});",
      'test("few are not", () => assert.equal(total([{ price: 5, count: 3 }]), 15));',
      "",
    ].join("\n");
    const result = await runTask(t, {
      files: { "package.json": PACKAGE_JSON, "src/total.js": totalSource, "test/total.test.js": testSource },
      prompt: "A test fails. Find out why and mend it.",
      *worker() {
        const [testRun] = yield createTurn(createToolUse("bash", { command: "node --test 2>&1 | tail -60" }));
        const testFile = requireMatch(testRun!.text, /test\/(total\.test\.js)/);
        const [testFileText, codeSearch] = yield createTurn(
          createToolUse("read", { path: `test/${testFile}` }),
          createToolUse("grep", { pattern: "items.length", path: "src" }),
        );
        assert.match(testFileText!.text, /length: 10/);
        requireMatch(codeSearch!.text, /items\.length > 10/);
        const [editResult] = yield createTurn(
          createToolUse("edit", {
            path: "src/total.js",
            old_string: "  if (items.length > 10) return Math.floor(sum * 0.9);",
            new_string: "  if (items.length >= 10) return Math.floor(sum * 0.9);",
          }),
        );
        requireMatch(editResult!.text, /Edited src\/total\.js/);
        const [secondTestRun] = yield createTurn(createToolUse("bash", { command: "node --test" }));
        requireMatch(secondTestRun!.text, /^[#ℹ] fail 0$/m);
        return "The discount began at eleven things instead of ten (src/total.js). All tests pass now.";
      },
    });
    assert.match(result.answer, /src\/total\.js/);
    assert.equal((await result.git("diff", "--stat", "--", "test")).trim(), "", "the test file is unchanged");
  });

  it("renames a function in five files, and keeps a function with a similar name", async (t) => {
    const userFiles = Object.fromEntries(
      ["a", "b", "c", "d"].map((name) => [
        `src/${name}.js`,
        [
          'import { getUser } from "./users.js";',
          "",
          `export function ${name}(id) {`,
          "  // getUserName is another one.",
          "  return getUser(id).name + getUser(id).id;",
          "}",
          "",
        ].join("\n"),
      ]),
    );
    const definitionSource = [
      "export function getUser(id) {",
      '  return { id, name: "n" };',
      "}",
      "export function getUserName(id) {",
      "  return getUser(id).name;",
      "}",
      "",
    ].join("\n");
    const testSource = [
      'import assert from "node:assert/strict";',
      'import { readFileSync } from "node:fs";',
      'import { test } from "node:test";',
      'test("the new name is there and the old one is not", async () => {',
      '  const users = await import("../src/users.js");',
      '  assert.deepEqual(Object.keys(users).sort(), ["findUser", "getUserName"]);',
      '  for (const name of ["a", "b", "c", "d"]) {',
      "    const one = await import(`../src/${name}.js`);",
      '    assert.equal(one[name](1), "n1");',
      '    assert.match(readFileSync(`src/${name}.js`, "utf8"), /getUserName is another one/);',
      "  }",
      "});",
      "",
    ].join("\n");
    const taskResult = await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/users.js": definitionSource,
        ...userFiles,
        "test/users.test.js": testSource,
      },
      prompt: "Rename getUser to findUser everywhere.",
      *worker({ tools }) {
        assert.ok(tools.includes("multiedit"));
        const [initialSearch] = yield createTurn(createToolUse("grep", { pattern: "\\bgetUser\\b", path: "." }));
        const files = [...new Set([...initialSearch!.text.matchAll(/src\/\w+\.js/g)].map(([file]) => file))].sort();
        assert.equal(files.length, 5);
        yield { toolUses: files.map((path) => createToolUse("read", { path })) };
        const edits = [
          { old_string: "getUser(", new_string: "findUser(", replace_all: true },
          { old_string: "{ getUser }", new_string: "{ findUser }" },
        ];
        const editResults = yield {
          text: "Now the change.",
          toolUses: files.map((path) =>
            createToolUse("multiedit", { path, edits: path === "src/users.js" ? edits.slice(0, 1) : edits }),
          ),
        };
        for (const { text } of editResults) requireMatch(text, /Edited src/);
        const [finalSearch] = yield createTurn(createToolUse("grep", { pattern: "\\bgetUser\\b", path: "src" }));
        assert.doesNotMatch(finalSearch!.text, /getUser\(/);
        return "getUser is findUser in 5 files.";
      },
    });
    assert.equal((await taskResult.git("diff", "--name-only")).trim().split("\n").length, 5);
    assert.match(await readText(taskResult.folder, "src/users.js"), /export function getUserName/);
  });

  it("keeps uncommitted changes of the user", async (t) => {
    const result = await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/slug.js": 'export const slug = (text) => text.toLowerCase().replace(" ", "-");\n',
        "notes.md": "# Notes\n",
        "test/slug.test.js":
          'import assert from "node:assert/strict";\nimport { test } from "node:test";\nimport { slug } from "../src/slug.js";\ntest("slug", () => assert.equal(slug("A b C"), "a-b-c"));\n',
      },
      uncommitted: { "notes.md": "# Notes\n\nHalf a thought\n", "draft.txt": "mine\n" },
      prompt: "slug() replaces only the first blank. Mend it.",
      *worker() {
        const [gitStatus] = yield createTurn(createToolUse("bash", { command: "git status --short" }));
        requireMatch(gitStatus!.text, / M notes\.md/);
        yield createTurn(createToolUse("read", { path: "src/slug.js" }));
        yield createTurn(
          createToolUse("edit", {
            path: "src/slug.js",
            old_string: 'replace(" ", "-")',
            new_string: 'replaceAll(" ", "-")',
          }),
        );
        const [testRun] = yield createTurn(createToolUse("bash", { command: "node --test" }));
        requireMatch(testRun!.text, /^[#ℹ] fail 0$/m);
        return "Done: src/slug.js. Your changes in notes.md and draft.txt are as they were.";
      },
    });
    assert.equal(await readText(result.folder, "notes.md"), "# Notes\n\nHalf a thought\n");
    assert.equal((await result.git("status", "--short")).trim(), "M notes.md\n M src/slug.js\n?? draft.txt");
  });
});
