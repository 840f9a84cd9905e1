import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import type { Tool, ToolContext } from "gantry";
import { ToolInputError } from "gantry/plugin";
import { toolChecks, type Check } from "gantry/testing";
import { assertCheckRejects } from "../../helpers/assert-check-rejects.js";

/** A correct tool. */
const VALID_TOOL: Tool<{ word: string }> = {
  name: "shout",
  description: "Say a word in capitals.",
  inputSchema: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
  kind: "other",
  parallel: true,
  needsPermission: false,
  parse(input) {
    const word = (input as { word?: unknown } | null | undefined)?.word;
    if (typeof input !== "object" || typeof word !== "string") throw new ToolInputError("word: expected a string");
    return { word };
  },
  describe: ({ word }) => ({ title: `Shout ${word}`, locations: [] }),
  run: ({ word }) => Promise.resolve({ text: word.toUpperCase() }),
};

function createChecks(tool: Tool): Check[] {
  return toolChecks({
    create: () => Promise.resolve({ tool, projectDir: "/", input: { word: "hello" }, slow: undefined }),
    clean: () => Promise.resolve(),
    timeoutMs: 300,
  });
}

const SCHEMA_CHECK = "inputSchema: JSON Schema of an object, as JSON, the same on every read";
const OUTPUT_CHECK = "run: does the work; its output has text, and parts, diffs and locations of the right shape";
const DISK_CHECK = "describe: never touches the disk, and never throws";
const ARGUMENTS_CHECK = "parse: rejects a missing or wrong argument with ToolInputError";
let schemaReadCount = 0;

const FAULTY_TOOLS: [fault: string, faultyFields: Partial<Tool<{ word: string }>>, checkName: string][] = [
  ["has a name with a dot", { name: "my.shout" }, "name: letters, digits, `_` and `-`, at most 64 characters"],
  [
    "has a blank description",
    { description: " " },
    "spec: a description, a kind, and whether it runs in parallel and needs permission",
  ],
  [
    "has an unknown kind",
    { kind: "shouting" as "other" },
    "spec: a description, a kind, and whether it runs in parallel and needs permission",
  ],
  ["has a schema of type string", { inputSchema: { type: "string" } }, SCHEMA_CHECK],
  ["has a function in its schema", { inputSchema: { type: "object", check: () => true } }, SCHEMA_CHECK],
  [
    "requires an argument that is not a property",
    { inputSchema: { type: "object", required: ["other"] } },
    SCHEMA_CHECK,
  ],
  [
    "returns a different schema on each read",
    Object.defineProperty({}, "inputSchema", {
      enumerable: true,
      get: () => ({ type: "object", title: String(schemaReadCount++) }),
    }),
    SCHEMA_CHECK,
  ],
  [
    "accepts any input",
    { parse: () => ({ word: "" }) },
    "parse: rejects values that are not objects with ToolInputError",
  ],
  [
    "throws a TypeError for a wrong argument",
    {
      parse(input) {
        if (typeof input !== "object" || Array.isArray(input)) throw new ToolInputError("an object");
        return { word: (input as { word: string }).word.trim() };
      },
    },
    ARGUMENTS_CHECK,
  ],
  [
    "accepts a wrong argument",
    { parse: (input) => ({ ...VALID_TOOL.parse({ word: "x" }), ...(input as object) }) },
    ARGUMENTS_CHECK,
  ],
  [
    "throws a TypeError for null",
    {
      parse(input) {
        if (input === null) throw new TypeError("null");
        return VALID_TOOL.parse(input);
      },
    },
    "parse: throws nothing but ToolInputError, for any value",
  ],
  [
    "modifies its input",
    { parse: (input) => (Object.assign(input as object, { seen: true }), VALID_TOOL.parse(input)) },
    "parse: accepts what a model sends, and does not modify it",
  ],
  [
    "has a title with two lines",
    { describe: () => ({ title: "a\nb", locations: [] }) },
    "describe: a one-line title, absolute paths, lines from 1",
  ],
  [
    "returns a location with a relative path",
    { describe: () => ({ title: "a", locations: [{ path: "a" }] }) },
    "describe: a one-line title, absolute paths, lines from 1",
  ],
  [
    "accesses the disk in describe",
    { describe: ({ word }) => ({ title: existsSync(word) ? "there" : "not there", locations: [] }) },
    DISK_CHECK,
  ],
  [
    "throws in describe if the folder does not exist",
    {
      describe(_args, projectDir) {
        if (projectDir !== "/") throw new Error("no such folder");
        return { title: "a", locations: [] };
      },
    },
    DISK_CHECK,
  ],
  ["returns a number as its text", { run: () => Promise.resolve({ text: 5 as unknown as string }) }, OUTPUT_CHECK],
  ["returns a failed result", { run: () => Promise.resolve({ text: "no", failed: true }) }, OUTPUT_CHECK],
  [
    "returns a diff with a relative path",
    { run: () => Promise.resolve({ text: "", diff: [{ path: "a", oldText: "", newText: "" }] }) },
    OUTPUT_CHECK,
  ],
  [
    "rejects with a string",
    {
      run: (args, { projectDir }: ToolContext) =>
        projectDir === "/" ? VALID_TOOL.run(args, {} as ToolContext) : Promise.reject("gone"),
    },
    "run: in a deleted folder fails with an Error or does its work; it never hangs",
  ],
  [
    "hangs if the signal has already aborted",
    {
      run: (args, { signal }: ToolContext) =>
        signal.aborted ? new Promise(() => undefined) : VALID_TOOL.run(args, {} as ToolContext),
    },
    "run: settles when the signal has aborted already",
  ],
  [
    "ignores an abort",
    { run: () => new Promise(() => undefined) },
    "run: settles when the signal aborts in the middle of its work",
  ],
  [
    "is marked as parallel but fails in concurrent calls",
    (() => {
      let isBusy = false;
      return {
        run: async ({ word }: { word: string }) => {
          if (isBusy) throw new Error("busy");
          isBusy = true;
          await new Promise((resolve) => setImmediate(resolve));
          isBusy = false;
          return { text: word };
        },
      };
    })(),
    "run: supports two concurrent calls if the tool is parallel",
  ],
];

describe("the tool checks", () => {
  describe("on a valid tool", () => {
    for (const check of createChecks(VALID_TOOL)) it(check.name, () => check.run());
  });
  describe("on an invalid tool", () => {
    for (const [fault, faultyFields, check] of FAULTY_TOOLS)
      it(`catches a tool that ${fault}`, () =>
        assertCheckRejects(
          createChecks(Object.defineProperties({ ...VALID_TOOL }, Object.getOwnPropertyDescriptors(faultyFields))),
          check,
        ));
  });
});
