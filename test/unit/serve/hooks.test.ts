import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { silentLogger } from "../../../src/base/log.js";
import { compose } from "../../../src/serve/compose.js";
import { loadConfig } from "../../../src/serve/config.js";
import { Selection } from "../../../src/serve/selected-adapters.js";
import { tempDir } from "../../helpers/temp.js";

/** A module of hooks that record their arguments in a list of this process. */
const hooks = (members: string) =>
  `export default { gantry: 1, kind: "hooks", name: "noted", parse: (raw) => raw, create: ({ as } = {}) => ({
    note: (text) => globalThis.noted.push(as + " " + text),
    ${members}
  }) };`;

const NOTED = hooks(`
    async beforeToolCall(call) { this.note("before " + call.tool.name); },
    afterToolCall(call, output) { this.note("after, " + output.text.length); return { ...output, text: output.text + as }; },
    beforeModelCall({ purpose }) { if (purpose === "answer") this.note("model"); },
    listeners: {
      "run.started"() { if (!this["run.finished"]) throw new Error("this"); globalThis.noted.push(as + " started"); throw new Error("ignored"); },
      "run.finished": () => globalThis.noted.push(as + " finished"),
    },
    close() { this.note("closed"); if (as === "b") throw new Error("ignored"); },`);

async function composed(t: TestContext, files: Record<string, string>, entries: unknown) {
  const folder = await tempDir(t, { ...files, "config.json": JSON.stringify({ hooks: entries }) });
  const loaded = await loadConfig({ home: folder.path });
  const { path: projectDir } = await tempDir(t, { "a.txt": "text" });
  return compose({ loaded, home: folder.path, projectDir, logger: silentLogger, isProcessLocal: true });
}

/** Runs a model that reads a file. Returns the output of the tool. */
async function outputOf({ agent }: Awaited<ReturnType<typeof composed>>): Promise<string> {
  let output = "";
  for await (const event of await agent.run({ message: "Read a.txt" }))
    if (event.type === "tool_result") ({ output } = event);
  return output;
}

function noted(t: TestContext): string[] {
  const list: string[] = [];
  Object.assign(globalThis, { noted: list });
  t.after(() => Reflect.deleteProperty(globalThis, "noted"));
  return list;
}

it("hooks of the config are called in their order, and closed in reverse order after the last run", async (t) => {
  const list = noted(t);
  const entries = ["a", "b"].map((as) => ({ hook: "./noted.mjs", as }));
  const composition = await composed(t, { "noted.mjs": NOTED }, entries);
  const output = await outputOf(composition);
  await composition.stop();
  const { length } = output;
  assert.match(output, /text[^]*ab$/);
  assert.deepEqual(list, [
    "a started",
    "b started",
    "a model",
    "b model",
    "a before read",
    "b before read",
    `a after, ${length - 2}`,
    `b after, ${length - 1}`,
    "a model",
    "b model",
    "a finished",
    "b finished",
    "b closed",
    "a closed",
  ]);
});

it("a hook that fails blocks the call or withholds its output, and later hooks are not called", async (t) => {
  for (const [member, expected] of [
    ["beforeToolCall() { throw new Error('not today'); }", /^This call was refused: not today$/],
    ["afterToolCall() { throw new Error('secret'); }", /^read ran, but its output is withheld/],
    ["afterToolCall() { return 'text'; }", /^read ran, but its output is withheld/],
  ] as const) {
    const list = noted(t);
    const composition = await composed(t, { "noted.mjs": NOTED, "odd.mjs": hooks(member) }, [
      "./odd.mjs",
      { hook: "./noted.mjs", as: "b" },
    ]);
    assert.match(await outputOf(composition), expected);
    await composition.stop();
    assert.deepEqual(
      list.filter((line) => line.includes(member.startsWith("before") ? "before" : "after")),
      [],
    );
  }
});

it("tool outputs stay unchanged without an afterToolCall hook", async (t) => {
  noted(t);
  const composition = await composed(t, { "noted.mjs": hooks("beforeToolCall() {}") }, [
    { hook: "./noted.mjs", as: "a" },
  ]);
  assert.match(await outputOf(composition), /text$/);
  await composition.stop();
});

it("the modules of hooks are read-only for tools", async (t) => {
  const folder = await tempDir(t, { "config.json": '{ "hooks": ["./a.mjs", { "hook": "some-hooks" }] }' });
  const readOnly = new Selection(await loadConfig({ home: folder.path }), folder.path).readOnlyPaths([]);
  assert.ok(readOnly.includes(folder.at("a.mjs")));
  assert.ok(readOnly.includes(folder.at("node_modules", "some-hooks")));
});
