import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { silentLogger } from "../../../src/base/log.js";
import { compose } from "../../../src/serve/compose.js";
import { loadConfig } from "../../../src/serve/config.js";
import { Selection } from "../../../src/serve/selected-adapters.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Returns the code of a module of hooks with these members. `note` records a call in `globalThis.noted`. */
const createHooksModule = (members: string) =>
  `export default { gantry: 1, kind: "hooks", name: "noted", parse: (raw) => raw, create: ({ as } = {}) => ({
    note: (text) => globalThis.noted.push(as + " " + text),
    ${members}
  }) };`;

const RECORDING_HOOKS = createHooksModule(`
    async beforeToolCall(call) { this.note("before " + call.tool.name); },
    afterToolCall(call, output) { this.note("after, " + output.text.length); return { ...output, text: output.text + as }; },
    beforeModelCall({ purpose }) { if (purpose === "answer") this.note("model"); },
    listeners: {
      "run.started"() { if (!this["run.finished"]) throw new Error("this"); globalThis.noted.push(as + " started"); throw new Error("ignored"); },
      "run.finished": () => globalThis.noted.push(as + " finished"),
    },
    close() { this.note("closed"); if (as === "b") throw new Error("ignored"); },`);

async function composeHooks(t: TestContext, files: Record<string, string>, entries: unknown) {
  const folder = await tempDir(t, { ...files, "config.json": JSON.stringify({ hooks: entries }) });
  const loadedConfig = await loadConfig({ home: folder.path });
  const { path: projectDir } = await tempDir(t, { "a.txt": "text" });
  return compose({ loadedConfig, home: folder.path, projectDir, logger: silentLogger, isProcessLocal: true });
}

/** Runs a prompt that reads a file. Returns the output of the tool. */
async function runReadPrompt({ agent }: Awaited<ReturnType<typeof composeHooks>>): Promise<string> {
  let output = "";
  for await (const event of await agent.run({ message: "Read a.txt" }))
    if (event.type === "tool_result") ({ output } = event);
  return output;
}

function recordCalls(t: TestContext): string[] {
  const calls: string[] = [];
  Object.assign(globalThis, { noted: calls });
  t.after(() => Reflect.deleteProperty(globalThis, "noted"));
  return calls;
}

it("hooks are called in the order of the config, and closed in reverse order after the last run", async (t) => {
  const calls = recordCalls(t);
  const entries = ["a", "b"].map((as) => ({ hook: "./noted.mjs", as }));
  const composition = await composeHooks(t, { "noted.mjs": RECORDING_HOOKS }, entries);
  const output = await runReadPrompt(composition);
  await composition.stop();
  const { length } = output;
  assert.match(output, /text[^]*ab$/);
  assert.deepEqual(calls, [
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
  for (const [member, expectedOutput] of [
    ["beforeToolCall() { throw new Error('not today'); }", /^This call was refused: not today$/],
    ["afterToolCall() { throw new Error('secret'); }", /^read ran, but its output is withheld/],
    ["afterToolCall() { return 'text'; }", /^read ran, but its output is withheld/],
  ] as const) {
    const calls = recordCalls(t);
    const composition = await composeHooks(t, { "noted.mjs": RECORDING_HOOKS, "odd.mjs": createHooksModule(member) }, [
      "./odd.mjs",
      { hook: "./noted.mjs", as: "b" },
    ]);
    assert.match(await runReadPrompt(composition), expectedOutput);
    await composition.stop();
    assert.deepEqual(
      calls.filter((line) => line.includes(member.startsWith("before") ? "before" : "after")),
      [],
    );
  }
});

it("tool outputs stay unchanged without an afterToolCall hook", async (t) => {
  recordCalls(t);
  const composition = await composeHooks(t, { "noted.mjs": createHooksModule("beforeToolCall() {}") }, [
    { hook: "./noted.mjs", as: "a" },
  ]);
  assert.match(await runReadPrompt(composition), /text$/);
  await composition.stop();
});

it("the modules of hooks are read-only for tools", async (t) => {
  const folder = await tempDir(t, { "config.json": '{ "hooks": ["./a.mjs", { "hook": "some-hooks" }] }' });
  const readOnly = new Selection(await loadConfig({ home: folder.path }), folder.path).readOnlyPaths([]);
  assert.ok(readOnly.includes(folder.at("a.mjs")));
  assert.ok(readOnly.includes(folder.at("node_modules", "some-hooks")));
});
