import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import type { Tool, ToolContext } from "gantry";
import { ToolInputError } from "gantry/plugin";
import { toolChecks, type Check } from "gantry/testing";
import { assertCaught } from "../../helpers/caught.js";

/** A correct tool. */
const RIGHT: Tool<{ word: string }> = {
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

function checksOf(tool: Tool): Check[] {
  return toolChecks({
    create: () => Promise.resolve({ tool, projectDir: "/", input: { word: "hello" }, slow: undefined }),
    clean: () => Promise.resolve(),
    timeoutMs: 300,
  });
}

const SCHEMA = "inputSchema: JSON Schema of an object, as JSON, the same on every read";
const OUTPUT = "run: does the work; its output is text, with parts, diffs and places of the right shape";
const DISK = "describe: never touches the disk, and never throws";
const ARGUMENTS = "parse: rejects a missing or wrong argument with ToolInputError";
let reads = 0;

const WRONG: [what: string, wrong: Partial<Tool<{ word: string }>>, check: string][] = [
  ["has a name with a dot", { name: "my.shout" }, "name: letters, digits, `_` and `-`, at most 64"],
  [
    "says nothing of itself",
    { description: " " },
    "spec: a description, a kind, and whether it runs in parallel and needs permission",
  ],
  [
    "is of a kind of its own",
    { kind: "shouting" as "other" },
    "spec: a description, a kind, and whether it runs in parallel and needs permission",
  ],
  ["takes a string", { inputSchema: { type: "string" } }, SCHEMA],
  ["has a schema with functions in it", { inputSchema: { type: "object", check: () => true } }, SCHEMA],
  ["requires what is no property", { inputSchema: { type: "object", required: ["other"] } }, SCHEMA],
  [
    "has another schema each time",
    Object.defineProperty({}, "inputSchema", {
      enumerable: true,
      get: () => ({ type: "object", title: String(reads++) }),
    }),
    SCHEMA,
  ],
  ["takes anything", { parse: () => ({ word: "" }) }, "parse: rejects values that are not objects with ToolInputError"],
  [
    "throws any error at a wrong argument",
    {
      parse(input) {
        if (typeof input !== "object" || Array.isArray(input)) throw new ToolInputError("an object");
        return { word: (input as { word: string }).word.trim() };
      },
    },
    ARGUMENTS,
  ],
  [
    "takes a wrong argument",
    { parse: (input) => ({ ...RIGHT.parse({ word: "x" }), ...(input as object) }) },
    ARGUMENTS,
  ],
  [
    "falls over null",
    {
      parse(input) {
        if (input === null) throw new TypeError("null");
        return RIGHT.parse(input);
      },
    },
    "parse: throws nothing but ToolInputError, for any value",
  ],
  [
    "changes what it was given",
    { parse: (input) => (Object.assign(input as object, { seen: true }), RIGHT.parse(input)) },
    "parse: accepts what a model sends, and does not modify it",
  ],
  [
    "has a title of two lines",
    { describe: () => ({ title: "a\nb", locations: [] }) },
    "describe: a one-line title, absolute paths, lines from 1",
  ],
  [
    "shows a relative place",
    { describe: () => ({ title: "a", locations: [{ path: "a" }] }) },
    "describe: a one-line title, absolute paths, lines from 1",
  ],
  [
    "looks at the disk to describe itself",
    { describe: ({ word }) => ({ title: existsSync(word) ? "there" : "not there", locations: [] }) },
    DISK,
  ],
  [
    "cannot be described in a folder that is gone",
    {
      describe(_args, projectDir) {
        if (projectDir !== "/") throw new Error("no such folder");
        return { title: "a", locations: [] };
      },
    },
    DISK,
  ],
  ["answers with no text", { run: () => Promise.resolve({ text: 5 as unknown as string }) }, OUTPUT],
  ["fails at its work", { run: () => Promise.resolve({ text: "no", failed: true }) }, OUTPUT],
  [
    "shows a relative diff",
    { run: () => Promise.resolve({ text: "", diff: [{ path: "a", oldText: "", newText: "" }] }) },
    OUTPUT,
  ],
  [
    "rejects with a string",
    {
      run: (args, { projectDir }: ToolContext) =>
        projectDir === "/" ? RIGHT.run(args, {} as ToolContext) : Promise.reject("gone"),
    },
    "run: in a deleted folder fails with an Error or does its work; it never hangs",
  ],
  [
    "hangs when it is aborted",
    {
      run: (args, { signal }: ToolContext) =>
        signal.aborted ? new Promise(() => undefined) : RIGHT.run(args, {} as ToolContext),
    },
    "run: settles when the signal has aborted already",
  ],
  [
    "does not hear an abort",
    { run: () => new Promise(() => undefined) },
    "run: settles when the signal aborts in the middle of its work",
  ],
  [
    "says that it may run twice and may not",
    (() => {
      let busy = false;
      return {
        run: async ({ word }: { word: string }) => {
          if (busy) throw new Error("busy");
          busy = true;
          await new Promise((resolve) => setImmediate(resolve));
          busy = false;
          return { text: word };
        },
      };
    })(),
    "run: two concurrent calls, if the tool is parallel",
  ],
];

describe("the tool kit", () => {
  describe("lets pass what is right", () => {
    for (const check of checksOf(RIGHT)) it(check.name, () => check.run());
  });
  describe("catches a tool that", () => {
    for (const [what, wrong, check] of WRONG)
      it(what, () =>
        assertCaught(checksOf(Object.defineProperties({ ...RIGHT }, Object.getOwnPropertyDescriptors(wrong))), check),
      );
  });
});
