import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { isAbsolute } from "node:path";
import { hasCode } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import type { SubagentResult } from "../ports/spawn.js";
import type { Tool, ToolContext, ToolOutput } from "../ports/tool.js";
import { DEFAULT_TIMEOUT_MS, withTimeout, type Check, type CheckRules } from "./check.js";

/** A tool and the project folder on which it works. */
export interface ToolTestbed {
  readonly tool: Tool;
  /** Absolute path of the session's project folder. */
  readonly projectDir: string;
  /** Arguments in the form that a model sends. The tool works with them in `projectDir`. */
  readonly input: unknown;
  /** Arguments that keep the tool busy until the signal aborts. Undefined for a tool that is always quick. */
  readonly slow: unknown;
  /** Shared state of the session's tools. Default empty. */
  readonly state?: Map<string, unknown>;
}

/** Gives the checks access to a tool. */
export interface ToolFixture {
  /** Called once at the start of every check. */
  create(): Promise<ToolTestbed>;
  /** Removes what `create` left. Called at the end of every check. */
  clean(): Promise<void>;
  /** Time limit of the checks for expected events, in ms. Default 10,000. Only failing checks take that long. */
  readonly timeoutMs?: number | undefined;
}

/** Returns one check for each rule of the `Tool` contract. All are required. */
export function toolChecks(fixture: ToolFixture): Check[] {
  return Object.entries(RULES).map(([name, body]) => ({
    name,
    run: async () => {
      const testbed = await fixture.create();
      try {
        await body(testbed, fixture.timeoutMs ?? DEFAULT_TIMEOUT_MS);
      } finally {
        await fixture.clean();
      }
    },
  }));
}

/** Time after which a call is aborted in the middle of its work, in ms. */
const ABORT_DELAY_MS = 100;
const KINDS = ["read", "edit", "delete", "search", "execute", "fetch", "think", "other"];

const RULES: CheckRules<[testbed: ToolTestbed, timeoutMs: number]> = {
  "name: letters, digits, `_` and `-`, at most 64 characters": async ({ tool }) =>
    assert.match(tool.name, /^[a-zA-Z0-9_-]{1,64}$/),
  "spec: a description, a kind, and whether it runs in parallel and needs permission": async ({ tool }) => {
    assert.ok(typeof tool.description === "string" && tool.description.trim() !== "", "description");
    assert.ok(KINDS.includes(tool.kind), `kind ${tool.kind}`);
    assert.equal(typeof tool.parallel, "boolean", "parallel");
    assert.equal(typeof tool.needsPermission, "boolean", "needsPermission");
  },
  "inputSchema: JSON Schema of an object, as JSON, the same on every read": async ({ tool }) => {
    const { inputSchema } = tool;
    const text = JSON.stringify(inputSchema);
    assert.deepEqual(JSON.parse(text), inputSchema, "the schema is plain JSON");
    assert.equal(inputSchema["type"], "object", "type");
    const properties = inputSchema["properties"] ?? {};
    assert.ok(isRecord(properties), "properties");
    for (const [name, schema] of Object.entries(properties)) assert.ok(isRecord(schema), `schema of ${name}`);
    for (const name of listRequiredProperties(tool))
      assert.ok(name in properties, `the required name ${name} is not a property`);
    assert.equal(JSON.stringify(tool.inputSchema), text, "providers cache the prefix of a prompt: it must not change");
  },
  "parse: accepts what a model sends, and does not modify it": async ({ tool, input }) => {
    const inputBefore = JSON.stringify(input);
    const firstArguments: unknown = tool.parse(input);
    assert.deepEqual(tool.parse(structuredClone(input)), firstArguments, "the same input gives the same arguments");
    assert.equal(JSON.stringify(input), inputBefore);
  },
  "parse: rejects values that are not objects with ToolInputError": async ({ tool }) => {
    for (const invalidInput of [5, true, "text", [1], [[]]]) expectRejected(tool, invalidInput);
  },
  "parse: rejects a missing or wrong argument with ToolInputError": async ({ tool, input }) => {
    const validInput = isRecord(input) ? input : {};
    for (const name of listRequiredProperties(tool)) {
      const { [name]: _omitted, ...incompleteInput } = validInput;
      expectRejected(tool, incompleteInput);
    }
    const properties = tool.inputSchema["properties"];
    for (const [name, schema] of Object.entries(isRecord(properties) ? properties : {})) {
      const type = isRecord(schema) ? schema["type"] : undefined;
      if (typeof type !== "string") continue;
      expectRejected(tool, { ...validInput, [name]: type === "object" ? 5 : { no: "such" } });
    }
  },
  "parse: throws nothing but ToolInputError, for any value": async ({ tool, input }) => {
    const unusualInputs: unknown[] = [
      undefined,
      null,
      {},
      JSON.parse('{"__proto__":{"polluted":true},"constructor":null}'),
      { ...(isRecord(input) ? input : {}), "\0": "\ud800", deep: nestArrays(200) },
      "x".repeat(100_000),
    ];
    for (const unusualInput of unusualInputs) {
      try {
        tool.parse(unusualInput);
      } catch (error) {
        assert.ok(hasCode(error, "tool_input"), `expected a ToolInputError, got ${String(error)}`);
      }
    }
    assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  },
  "describe: a one-line title, absolute paths, lines from 1": async ({ tool, input, projectDir }) => {
    const { title, locations } = tool.describe(tool.parse(input), projectDir);
    assert.match(title, /^[^\r\n]{1,500}$/);
    for (const { path, line } of locations) {
      assert.ok(isAbsolute(path), `an absolute path, got ${path}`);
      assert.ok(line === undefined || (Number.isSafeInteger(line) && line >= 1), `line ${String(line)}`);
    }
  },
  "describe: never touches the disk, and never throws": async ({ tool, input, projectDir }) => {
    const args: unknown = tool.parse(input);
    const fileCalls = recordFileCalls(() => {
      tool.describe(args, projectDir);
      tool.describe(args, "/no/such/folder");
    });
    assert.deepEqual(fileCalls, [], "describe touched the disk");
  },
  "run: does the work; its output has text, and parts, diffs and locations of the right shape": async (
    { tool, input, projectDir, state },
    timeoutMs,
  ) => {
    const output = await withTimeout(
      tool.run(tool.parse(input), createContext(projectDir, { state })),
      "the call",
      timeoutMs,
    );
    checkOutput(output);
    assert.notEqual(output.failed, true, output.text);
  },
  "run: in a deleted folder fails with an Error or does its work; it never hangs": async (
    { tool, input, state },
    timeoutMs,
  ) => {
    await expectSettled(tool, input, createContext("/no/such/folder", { state }), timeoutMs);
  },
  "run: settles when the signal has aborted already": async ({ tool, input, projectDir, state }, timeoutMs) => {
    await expectSettled(
      tool,
      input,
      createContext(projectDir, { state, signal: AbortSignal.abort(new Error("stop")) }),
      timeoutMs,
    );
  },
  "run: settles when the signal aborts in the middle of its work": async (
    { tool, input, slow, projectDir, state },
    timeoutMs,
  ) => {
    const abortController = new AbortController();
    const work = expectSettled(
      tool,
      slow ?? input,
      createContext(projectDir, { state, signal: abortController.signal }),
      timeoutMs,
    );
    setTimeout(() => abortController.abort(new Error("stop")), slow === undefined ? 0 : ABORT_DELAY_MS);
    await work;
  },
  "run: supports two concurrent calls if the tool is parallel": async (
    { tool, input, projectDir, state },
    timeoutMs,
  ) => {
    if (!tool.parallel) return;
    const sharedContext = createContext(projectDir, { state });
    const calls = [1, 2].map(() => tool.run(tool.parse(structuredClone(input)), sharedContext));
    for (const output of await withTimeout(Promise.all(calls), "both calls", timeoutMs)) checkOutput(output);
  },
};

function listRequiredProperties(tool: Tool): string[] {
  const required = tool.inputSchema["required"] ?? [];
  assert.ok(Array.isArray(required) && required.every((name) => typeof name === "string"), "required");
  return required as string[];
}

/** Asserts that `parse` rejects the input with a `ToolInputError` whose message is not empty or too long. */
function expectRejected(tool: Tool, input: unknown): void {
  let outcome: { error: unknown } | undefined;
  try {
    tool.parse(input);
  } catch (error) {
    outcome = { error };
  }
  const inputText = JSON.stringify(input);
  assert.ok(outcome, `parse accepted ${inputText}`);
  const { error } = outcome;
  assert.ok(hasCode(error, "tool_input"), `${inputText}: expected a ToolInputError, got ${String(error)}`);
  assert.ok(error.message !== "" && error.message.length < 5000, "a message that a model can act on");
}

function nestArrays(levels: number): unknown {
  let value: unknown = [];
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

/** Result of every subagent that a tool starts in a check. */
const SUBAGENT_RESULT: SubagentResult = {
  output: "done",
  endedBy: "model",
  usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0, cost: 0 },
  iterations: 1,
};

function createContext(
  projectDir: string,
  options: { signal?: AbortSignal; state?: Map<string, unknown> | undefined },
): ToolContext {
  return {
    runId: "run",
    sessionId: "session",
    callId: "call",
    projectDir,
    signal: options.signal ?? new AbortController().signal,
    ask: () => Promise.resolve("allow"),
    askUser: () => Promise.resolve(undefined),
    progress: () => undefined,
    spawn: () =>
      Promise.resolve({ runId: "subagent-run", sessionId: "subagent", result: Promise.resolve(SUBAGENT_RESULT) }),
    state: options.state ?? new Map<string, unknown>(),
  };
}

/** Asserts that the call settles. It may fail with an Error. */
async function expectSettled(tool: Tool, input: unknown, context: ToolContext, timeoutMs: number): Promise<void> {
  const outcome = await withTimeout(
    (async () => tool.run(tool.parse(input), context))().then(
      (output) => ({ output }),
      (error: unknown) => ({ error }),
    ),
    "the end of the call",
    timeoutMs,
  );
  if ("output" in outcome) checkOutput(outcome.output);
  else assert.ok(outcome.error instanceof Error, `expected an Error, got ${String(outcome.error)}`);
}

function checkOutput(output: ToolOutput): void {
  assert.equal(typeof output.text, "string", "text");
  for (const part of output.parts ?? []) {
    assert.ok(part.type === "image" || part.type === "file", `part ${String((part as { type: unknown }).type)}`);
    assert.match(part.mediaType, /^[\w.+-]+\/[\w.+-]+/, "mediaType");
    assert.match(part.data, /^[A-Za-z0-9+/]*={0,2}$/, "base64");
  }
  for (const { path, oldText, newText } of output.diff ?? []) {
    assert.ok(isAbsolute(path), `diff of an absolute path, got ${path}`);
    assert.ok(oldText === null || typeof oldText === "string", "oldText");
    assert.equal(typeof newText, "string", "newText");
  }
  for (const { path } of output.locations ?? []) assert.ok(isAbsolute(path), `an absolute path, got ${path}`);
  assert.ok(output.failed === undefined || typeof output.failed === "boolean", "failed");
}

/** Returns the names of the synchronous and asynchronous file functions that `work` calls. */
function recordFileCalls(work: () => void): string[] {
  const fileCalls: string[] = [];
  const restores: (() => void)[] = [];
  for (const target of [fs, fs.promises] as unknown as Record<string, unknown>[]) {
    for (const [name, originalFunction] of Object.entries(target)) {
      if (typeof originalFunction !== "function" || /^[A-Z_]/.test(name)) continue;
      target[name] = (...args: unknown[]): unknown => {
        fileCalls.push(name);
        return Reflect.apply(originalFunction as (...all: unknown[]) => unknown, target, args);
      };
      restores.push(() => (target[name] = originalFunction));
    }
  }
  syncBuiltinESMExports();
  try {
    work();
  } finally {
    for (const restore of restores) restore();
    syncBuiltinESMExports();
  }
  return fileCalls;
}
