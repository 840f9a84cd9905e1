import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import type { AdapterReport } from "../../../src/cli/check-report.js";
import { runCheck } from "../../helpers/gantry-check.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Returns the module of a valid tool in which `members` replace valid members. */
const createToolModule = (members: string, prefix = "") => `${prefix}
  export const descriptor = { gantry: 1, kind: "tool", name: "odd", parse: (raw) => raw, create: (options, context) => ({
    name: "odd", description: "Odd.", inputSchema: { type: "object" }, kind: "other", parallel: true, needsPermission: true,
    parse: (input) => input, describe: () => ({ title: "odd", locations: [] }), run: async () => ({ text: "" }), ${members} }) };
  export default descriptor;`;

async function checkModule(t: TestContext, module: string, flags: Parameters<typeof runCheck>[1] = {}) {
  const folder = await tempDir(t, { "odd.mjs": module });
  const { code, stdout } = await runCheck([folder.at("odd.mjs")], { json: true, timeout: 5, ...flags });
  return { code, folder, adapters: (JSON.parse(stdout) as { adapters: AdapterReport[] }).adapters };
}

describe("gantry check", () => {
  it("reports each adapter once, and the checks that need a fixture as not_checked", async (t) => {
    const { code, adapters } = await checkModule(
      t,
      `${createToolModule("")} export const strategy = { gantry: 1, kind: "compaction-strategy", name: "none", parse: () => ({}),
         create: () => ({ name: "none", compact: async ({ messages }) => messages }) };`,
    );
    assert.equal(code, 1);
    assert.deepEqual(
      adapters.map(({ exportName, kind, name }) => [exportName, kind, name]),
      [
        ["default export", "tool", "odd"],
        ["export strategy", "compaction-strategy", "none"],
      ],
    );
    const [oddReport, noneReport] = adapters;
    assert.deepEqual(oddReport?.notDeclared, ["preview", "models", "replaces", "close"]);
    const getStatus = (name: string) => oddReport?.checks.find((check) => check.name.startsWith(name))?.status;
    assert.equal(getStatus("name:"), "passed");
    assert.equal(getStatus("parse: rejects values that are not objects"), "failed");
    assert.equal(getStatus("run: does the work"), "not_checked");
    const failedCheck = noneReport?.checks.find(({ status }) => status === "failed");
    assert.equal(failedCheck?.name, "compact: gives a conversation that is smaller and not empty");
    assert.equal(failedCheck.group, "compact");
  });

  it("prints a text report grouped by capability", async (t) => {
    const folder = await tempDir(t, { "odd.mjs": createToolModule('name: "o d d"') });
    const { code, stdout } = await runCheck([folder.at("odd.mjs")]);
    assert.equal(code, 1);
    assert.match(stdout, /^odd \(tool, default export\)\n {2}adapter +1 passed\n {2}name +1 failed\n {4}FAILED name: /);
    assert.match(
      stdout,
      /\n {2}not checked: needs create of a fixture \(--fixture\)\n15 checks: 3 passed, 2 failed, 10 not checked\n$/,
    );
  });

  it("ends hanging checks, skips the remaining checks after three hanging checks, and removes its folder", async (t) => {
    const { code, adapters, folder } = await checkModule(
      t,
      `export let home;
       export default { gantry: 1, kind: "hooks", name: "slow", parse: () => ({}), create(options, context) {
         home = context.home;
         return { beforeToolCall() {}, close: () => new Promise(() => {}) };
       } };`,
      { timeout: 2 },
    );
    assert.equal(code, 1);
    assert.deepEqual(
      adapters[0]?.checks.map(({ group, status }) => `${group} ${status}`),
      ["adapter passed", "members failed", "run failed", "afterToolCall failed", "signal not_run", "listeners not_run"],
    );
    assert.match(adapters[0].checks[1]?.message ?? "", /^close: timed out after 2000 ms$/);
    const { home } = (await import(folder.at("odd.mjs"))) as { home: string };
    assert.ok(home.includes("gantry-check-"));
    assert.equal(existsSync(home), false);
  });

  it("exits with code 130 when it is interrupted", async (t) => {
    const folder = await tempDir(t, {
      "odd.mjs":
        'export default { gantry: 1, kind: "hooks", name: "slow", create: () => (globalThis.created(), new Promise(() => {})) };',
    });
    const controller = new AbortController();
    Object.assign(globalThis, { created: () => controller.abort("SIGINT") });
    t.after(() => Reflect.deleteProperty(globalThis, "created"));
    assert.equal((await runCheck([folder.at("odd.mjs")], { timeout: 60 }, controller.signal)).code, 130);
  });

  it("exits with code 2 and one line on stderr for an invalid command line or a module without an adapter", async (t) => {
    const folder = await tempDir(t, {
      "none.mjs": "export const count = 5; export default class Odd {}",
      "empty.mjs": "",
      "odd.mjs": createToolModule(""),
      "list.json": "[]",
    });
    for (const [args, flags, line] of [
      [[], {}, /expected one MODULE, got 0/],
      [["./a", "./b"], {}, /expected one MODULE, got 2/],
      [[folder.at("gone.mjs")], {}, /gone\.mjs: module not found: expected a file or package/],
      [["no-such-package-of-anybody"], {}, /module not found: expected a file or package/],
      [[folder.at("none.mjs")], {}, /exports no adapter: expected a default or named .*, got count \(5\), default \(/],
      [[folder.at("empty.mjs")], {}, /exports no adapter: .* got no export$/],
      [[folder.at("odd.mjs")], { options: "{" }, /--options: expected JSON or a JSON file: /],
      [[folder.at("odd.mjs")], { options: folder.at("list.json") }, /--options: expected an object, got /],
      [
        [folder.at("odd.mjs")],
        { fixture: folder.at("none.mjs") },
        /--fixture .*: expected the export fixture, .* nothing/,
      ],
    ] as const) {
      const { code, stdout, stderr } = await runCheck(args, flags);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr.trimEnd(), line);
      assert.equal(stderr.split("\n").length, 2);
    }
  });
});
