import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { BUS_EVENTS } from "../../../src/agent/options.js";
import { silentLogger } from "../../../src/base/log.js";
import { formatFailureLine, describeFailure } from "../../../src/cli/failure-message.js";
import { addSuggestion } from "../../../src/cli/suggestion.js";
import { compose } from "../../../src/serve/compose.js";
import type { AdapterReport } from "../../../src/cli/check-report.js";
import { loadConfig } from "../../../src/serve/config.js";
import { runCheck } from "../../helpers/gantry-check.js";
import { tempDir } from "../../helpers/temp-dir.js";

type AdapterKind =
  "transport" | "session-driver" | "model-provider" | "tool" | "compaction-strategy" | "permission-policy" | "hooks";

/** A config that selects `./odd.mjs`, and the key that the error message names. */
const CONFIGS_BY_KIND: Readonly<Record<AdapterKind, readonly [config: object, key: string]>> = {
  transport: [{ server: { transports: ["./odd.mjs"] } }, "server.transports[0]"],
  "session-driver": [{ session: { driver: "./odd.mjs" } }, "session.driver"],
  "model-provider": [{ providers: [{ driver: "./odd.mjs" }] }, "providers[0].driver"],
  tool: [{ agent: { tools: ["./odd.mjs"] } }, "agent.tools[0]"],
  "compaction-strategy": [{ compaction: { strategy: "./odd.mjs" } }, "compaction.strategy"],
  "permission-policy": [{ permissions: { policies: ["./odd.mjs"] } }, "permissions.policies[0]"],
  hooks: [{ hooks: ["./odd.mjs"] }, "hooks[0]"],
};

/** A valid transport, so that only the tested adapter is invalid. */
const QUIET_TRANSPORT = `export default { gantry: 1, kind: "transport", name: "quiet", create: () => ({
  name: "quiet",
  start: async () => ({ address: "nowhere", ended: new Promise(() => {}), stop: async () => {} }),
}) };`;

const createDescriptorModule = (kind: AdapterKind, fields: string) =>
  `export default { gantry: 1, kind: ${JSON.stringify(kind)}, name: "odd", ${fields} };`;
const createTransportModule = (start: string) =>
  createDescriptorModule("transport", `create: () => ({ name: "odd", start: ${start} })`);
/** Returns the module of a driver with every member of the port. The members have no effect. */
const createDriverModule = (openFunction: string) =>
  createDescriptorModule(
    "session-driver",
    `create: () => Object.assign(
      Object.fromEntries("close create get list messages head runs asks instructions write delete lease dump load"
        .split(" ").map((name) => [name, async () => {}])),
      { name: "odd", open: ${openFunction} })`,
  );
const createToolModule = (members: string) =>
  createDescriptorModule(
    "tool",
    `create: () => ({ name: "odd", description: "", inputSchema: {}, kind: "other", parallel: true, needsPermission: true,
      parse: () => ({}), describe: () => ({ title: "", locations: [] }), run: async () => ({ text: "" }), ${members} })`,
  );

/** `suffix` is the error message after the file, the key and the module. */
const INVALID_ADAPTERS: readonly (readonly [fault: string, kind: AdapterKind, module: string, suffix: string])[] = [
  ["throws while it is imported", "tool", "throw new Error('no luck');", " could not be loaded: no luck"],
  ["is not JavaScript", "tool", "export default {", " could not be loaded: Unexpected end of input"],
  [
    "imports a package that is not installed",
    "tool",
    'import "no-such-package-of-anybody";',
    " could not be loaded: Cannot find package 'no-such-package-of-anybody' imported from FOLDER/odd.mjs",
  ],
  ["exports nothing", "transport", "", " is not a gantry adapter: expected a default export made by defineAdapter"],
  [
    "exports a number",
    "model-provider",
    "export default 5;",
    " is not a gantry adapter: expected a default export made by defineAdapter, or a provider of the AI SDK",
  ],
  [
    "exports a class",
    "permission-policy",
    "export default class Policy { judge() {} }",
    " is not a gantry adapter: expected a default export made by defineAdapter",
  ],
  [
    "has an unknown kind",
    "tool",
    'export default { gantry: 1, kind: "tol", name: "odd", create: () => ({}) };',
    ' is not a gantry adapter: kind: expected one of transport, session-driver, model-provider, tool, tool-source, compaction-strategy, permission-policy, hooks, got "tol"',
  ],
  [
    "has another kind than the config expects",
    "session-driver",
    createTransportModule("async () => {}"),
    " is a transport, expected a session-driver",
  ],
  [
    "has no name",
    "tool",
    'export default { gantry: 1, kind: "tool", create: () => ({}) };',
    " is not a gantry adapter: name: expected a string, got nothing",
  ],
  [
    "has neither create nor useClass",
    "tool",
    createDescriptorModule("tool", ""),
    " is not a gantry adapter: expected create or useClass",
  ],
  [
    "has a create that is not a function",
    "tool",
    createDescriptorModule("tool", "create: {}"),
    " is not a gantry adapter: create: expected a function, got Object",
  ],
  [
    "has a useClass that is not a class",
    "tool",
    createDescriptorModule("tool", 'useClass: "Odd"'),
    ' is not a gantry adapter: useClass: expected a class, got "Odd"',
  ],
  [
    "has an inject that is not a list",
    "tool",
    createDescriptorModule("tool", "useClass: class Odd {}, inject: {}"),
    " is not a gantry adapter: inject: expected a list of tokens, got Object",
  ],
  [
    "has a parse that is not a function",
    "tool",
    createDescriptorModule("tool", "parse: true, create: () => ({})"),
    " is not a gantry adapter: parse: expected a function, got true",
  ],
  [
    "has a schema of the wrong type",
    "tool",
    createDescriptorModule("tool", 'schema: { type: "object" }, create: () => ({})'),
    " is not a gantry adapter: schema: expected a Standard Schema, as option.section, zod and valibot make, got Object",
  ],
  [
    "has an asynchronous schema",
    "tool",
    createDescriptorModule(
      "tool",
      'schema: { "~standard": { version: 1, vendor: "odd", validate: async () => ({ value: {} }) } }, create: () => ({})',
    ),
    ": expected a synchronous schema, got an asynchronous one (an option of ./odd.mjs)",
  ],
  [
    "has a schema that throws",
    "tool",
    createDescriptorModule(
      "tool",
      'schema: { "~standard": { version: 1, vendor: "odd", validate() { throw new Error("no luck"); } } }, create: () => ({})',
    ),
    ": no luck (an option of ./odd.mjs)",
  ],
  [
    "rejects its options with a message of two lines",
    "tool",
    createDescriptorModule("tool", 'parse() { throw new Error("no\\nluck"); }, create: () => ({})'),
    ": no luck (an option of ./odd.mjs)",
  ],
  [
    "throws in create",
    "tool",
    createDescriptorModule("tool", "create() { throw new Error('no luck'); }"),
    " could not be built: no luck",
  ],
  [
    "throws a string in create",
    "tool",
    createDescriptorModule("tool", "create() { throw 'no luck'; }"),
    " could not be built: no luck",
  ],
  [
    "rejects in create",
    "model-provider",
    createDescriptorModule("model-provider", "create: async () => { throw new TypeError(); }"),
    " could not be built: TypeError",
  ],
  [
    "returns undefined from create",
    "transport",
    createDescriptorModule("transport", "create() {}"),
    " is not a valid transport: expected an object, got nothing",
  ],
  [
    "resolves with null in create",
    "compaction-strategy",
    createDescriptorModule("compaction-strategy", "create: async () => null"),
    " is not a valid compaction-strategy: expected an object, got null",
  ],
  [
    "lacks members of its port",
    "permission-policy",
    createDescriptorModule("permission-policy", "create: () => ({ decide() {} })"),
    " is not a valid permission-policy: name, judge is missing",
  ],
  [
    "has a member of another type",
    "model-provider",
    createDescriptorModule(
      "model-provider",
      'create: () => ({ name: "odd", idleTimeoutMs: "1s", maxRetries: 0, maxWaitMs: 0, configuredModels: [], models() {}, stream() {}, close() {} })',
    ),
    " is not a valid model-provider: idleTimeoutMs: expected a number, got string",
  ],
  [
    "has only a misspelt hook",
    "hooks",
    createDescriptorModule("hooks", "create: () => ({ beforeToolcall() {} })"),
    " is not a valid hooks: expected one of beforeToolCall, afterToolCall, beforeModelCall, listeners",
  ],
  [
    "has a hook that is not a function",
    "hooks",
    createDescriptorModule("hooks", "create: () => ({ beforeToolCall: true })"),
    " is not a valid hooks: beforeToolCall: expected a function, got boolean",
  ],
  [
    "listens to an unknown event",
    "hooks",
    createDescriptorModule("hooks", 'create: () => ({ listeners: { "run.finnished"() {} } })'),
    ` is not a valid hooks: listeners: expected events of ${BUS_EVENTS.join(", ")}, got run.finnished`,
  ],
  [
    "has a member that is null",
    "tool",
    createToolModule("inputSchema: null"),
    " is not a valid tool: inputSchema is missing",
  ],
  [
    "has a constructor whose parameter has no token",
    "tool",
    createDescriptorModule("tool", "useClass: class Odd { constructor(options) { this.options = options; } }"),
    " could not be built: every parameter of the constructor of Odd needs @inject(TOKEN), or a token in `inject` of its descriptor",
  ],
  [
    "needs an unregistered token",
    "tool",
    createDescriptorModule("tool", 'useClass: class Odd { constructor(store) {} }, inject: [Symbol.for("odd.store")]'),
    ' could not be built: Attempted to resolve unregistered dependency token: "Symbol(odd.store)"',
  ],
  [
    "needs the HTTP port but is not a transport",
    "tool",
    createDescriptorModule(
      "tool",
      'useClass: class Odd { constructor(http) {} }, inject: [Symbol.for("gantry.http-host")]',
    ),
    " could not be built: only transports get HTTP_HOST",
  ],
  [
    "throws in its constructor",
    "tool",
    createDescriptorModule("tool", "useClass: class Odd { constructor() { throw new Error('no luck'); } }"),
    " could not be built: no luck",
  ],
  [
    "throws in start",
    "transport",
    createTransportModule("() => { throw new Error('no luck'); }"),
    " could not start: no luck",
  ],
  [
    "rejects in start",
    "transport",
    createTransportModule("async () => { throw new Error('no luck'); }"),
    " could not start: no luck",
  ],
  [
    "resolves with nothing in start",
    "transport",
    createTransportModule("async () => {}"),
    ": start resolved with no Listening: expected an object, got nothing",
  ],
  [
    "resolves with an incomplete Listening in start",
    "transport",
    createTransportModule('async () => ({ address: "odd://here" })'),
    ": start resolved with no Listening: ended, stop is missing",
  ],
  [
    "never settles in start",
    "transport",
    createTransportModule("() => new Promise(() => {})"),
    " did not start within 5 ms",
  ],
  [
    "rejects in open",
    "session-driver",
    createDriverModule("async () => { throw new Error('no luck'); }"),
    " could not be opened: no luck",
  ],
  [
    "throws in open",
    "session-driver",
    createDriverModule("() => { throw new Error('no luck'); }"),
    " could not be opened: no luck",
  ],
];

async function composeAdapter(
  t: TestContext,
  module: string,
  config: object,
): Promise<{ line: string; folder: string }> {
  const folder = await tempDir(t, { "odd.mjs": module, "quiet.mjs": QUIET_TRANSPORT });
  const fullConfig = { server: { transports: ["./quiet.mjs"] }, ...config };
  await folder.write({ "config.json": JSON.stringify(fullConfig) });
  const loadedConfig = await loadConfig({ home: folder.path });
  const options = { loadedConfig, home: folder.path, projectDir: folder.path, logger: silentLogger, startTimeoutMs: 5 };
  const composition = await compose(options).catch((error: unknown) => ({ error }));
  if (!("error" in composition)) {
    await composition.stop();
    throw new Error("the adapter was accepted");
  }
  return { line: formatFailureLine(describeFailure(composition.error, "serve")), folder: folder.path };
}

describe("the one-line start error of an invalid adapter", () => {
  for (const [fault, kind, module, suffix] of INVALID_ADAPTERS)
    it(`names file, key and module of a ${kind} adapter that ${fault}`, async (t) => {
      const [config, key] = CONFIGS_BY_KIND[kind];
      const { line, folder } = await composeAdapter(t, module, config);
      // An error in the options is not a fault of the module, so its message has no module path.
      const location = suffix.endsWith("(an option of ./odd.mjs)") ? key : `${key}: ./odd.mjs`;
      const message = `gantry: ${folder}/config.json: ${location}${suffix.replace("FOLDER", folder)}`;
      assert.equal(line, addSuggestion(message));
    });

  it("is tested with at least 26 invalid adapters", () => assert.ok(INVALID_ADAPTERS.length >= 26));

  it("does not occur for the valid modules on which the invalid modules are based", async (t) => {
    for (const [module, kind] of [
      [QUIET_TRANSPORT, "transport"],
      [createDriverModule("async () => {}"), "session-driver"],
      [createToolModule(""), "tool"],
    ] as const)
      await assert.rejects(composeAdapter(t, module, CONFIGS_BY_KIND[kind][0]), /the adapter was accepted/);
  });
});

const OPTION_SUFFIX = / \(an option of [^)]*\)$/;

/** Converts the suffix of a start error to the message of `gantry check`, which reads no config. */
function getCheckLine(suffix: string): string | RegExp {
  if (suffix.includes("expected a default export")) return /^gantry: odd\.mjs exports no adapter: /;
  if (suffix.startsWith(" could not be loaded")) return `odd.mjs${suffix}`;
  if (suffix.startsWith(" is not a gantry adapter")) return `odd.mjs: default export${suffix}`;
  if (suffix.endsWith("(an option of ./odd.mjs)")) return `odd.mjs: options${suffix.replace(OPTION_SUFFIX, "")}`;
  return `odd.mjs: default export: odd${suffix.replace("5 ms", "1000 ms")}`;
}

describe("the one-line error of `gantry check` for an invalid adapter", () => {
  // A transport is invalid as a driver in a config, but is valid for `gantry check`.
  for (const [fault, kind, module, suffix] of INVALID_ADAPTERS.filter(([, , , suffix]) => !suffix.startsWith(" is a ")))
    it(`reports a ${kind} adapter that ${fault}`, async (t) => {
      const folder = await tempDir(t, { "odd.mjs": module });
      const timeoutSeconds = fault === "never settles in start" ? 1 : 60;
      const { code, line } = await runCheck([folder.at("odd.mjs")], { json: true, timeout: timeoutSeconds }).then(
        ({ code, stdout, stderr }) => {
          if (stderr !== "") return { code, line: stderr.trimEnd() };
          const { adapters } = JSON.parse(stdout) as { adapters: AdapterReport[] };
          assert.equal(adapters[0]?.checks.length, 1, "only the loading is reported");
          return { code, line: adapters[0].checks[0]?.message ?? "" };
        },
        (error: Error) => ({ code: 1, line: error.message }),
      );
      const printedLine = line.replaceAll(`${folder.path}/odd.mjs`, "odd.mjs").replace(OPTION_SUFFIX, "");
      const expectedLine = getCheckLine(suffix);
      if (typeof expectedLine === "string") assert.equal(printedLine, expectedLine.replaceAll("FOLDER/", ""));
      else assert.match(printedLine, expectedLine);
      assert.equal(code, typeof expectedLine === "string" ? 1 : 2);
    });
});
