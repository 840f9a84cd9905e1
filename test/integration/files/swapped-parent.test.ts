// Every file tool while its parent folder becomes a link to the outside, or stops being a link. The switch happens
// before each file system call of the tool in turn. race.test.ts races two processes.
import assert from "node:assert/strict";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { builtinTools } from "gantry";
import { PathGuard } from "../../../src/files/path-guard.js";
import { newReport, walk } from "../../../src/files/walk.js";
import { PathError } from "../../../src/ports/errors.js";
import { fillProject, pictureOf, SECRET } from "../../helpers/swapped-folder.js";
import { callTool, temporaryFolder, toolContext } from "../../helpers/tool-context.js";

/**
 * Called before each file system call of this thread that receives a path. Calls on descriptors do not depend on names.
 */
let onCall: (() => void) | undefined;
const restore: (() => void)[] = [];

function watchCalls(module: object): void {
  const methods = module as Record<string, unknown>;
  for (const [name, method] of Object.entries(methods)) {
    // Skips classes, which begin with a capital letter. `realpathSync.native` is not wrapped: it is only called for
    // gantry's own folders.
    if (typeof method !== "function" || !/^[a-z]/.test(name)) continue;
    const wrapped = function (this: unknown, ...args: unknown[]): unknown {
      const hook = typeof args[0] === "string" ? onCall : undefined;
      hook?.();
      return (method as (...args: unknown[]) => unknown).apply(this, args);
    };
    methods[name] = Object.assign(wrapped, method);
    restore.push(() => (methods[name] = method));
  }
}

before(() => {
  for (const module of [fs, fsPromises]) watchCalls(module);
  syncBuiltinESMExports();
});
after(() => {
  for (const restoreMethod of restore) restoreMethod();
  syncBuiltinESMExports();
});

/** `way` alternates between a folder and a link to the outside. The inactive one is stored under another name. */
class Flipping {
  #isLink = false;
  readonly #way: string;
  readonly #parked: string;

  constructor(way: string, parked: string) {
    this.#way = way;
    this.#parked = parked;
  }

  flip(): void {
    const [now, next] = this.#isLink ? ["link", "real"] : ["real", "link"];
    this.#isLink = !this.#isLink;
    // The tool may have deleted the first entry, or the folder around both.
    for (const [from, to] of [
      [this.#way, `${this.#parked}.${now}`],
      [`${this.#parked}.${next}`, this.#way],
    ] as const) {
      if (fs.lstatSync(from, { throwIfNoEntry: false }) && fs.existsSync(join(to, ".."))) fs.renameSync(from, to);
    }
  }
}

const path = "sub/deep/file.txt";
const patch = (section: string) => ({ input: `*** Begin Patch\n${section}\n*** End Patch` });

/** Tool and arguments by test name. `top` contains the folder that switches. */
const CALLS: Record<string, readonly [tool: string, input: Record<string, unknown>]> = {
  read: ["read", { path }],
  "write into new folders": ["write", { path: "sub/deep/new/one/a.txt", content: "new\n" }],
  edit: ["edit", { path, old_string: "count:", new_string: "count: " }],
  "apply_patch with a move": ["apply_patch", patch(`*** Update File: ${path}\n*** Move to: sub/moved/a.txt`)],
  "delete of a file": ["delete", { path: "sub/deep/gone.txt" }],
  "delete of a tree": ["delete", { path: "sub/deep/tree", recursive: true }],
  "delete of the parent folder": ["delete", { path: "top", recursive: true }],
  list: ["list", { path: "sub", depth: 4 }],
  "grep of a file": ["grep", { path, pattern: "needle" }],
  "grep of the parent folder": ["grep", { path: ".", pattern: "needle" }],
};

/** The part of `list` that runs in this process. */
async function walkNames(start: string): Promise<string> {
  const guard = await PathGuard.create({ roots: [start], denied: [] });
  const names: string[] = [];
  try {
    const folder = await guard.openFolder(start);
    try {
      const options = { guard, depth: 9, ignored: new Set<string>(), signal: new AbortController().signal };
      for await (const { path } of walk(folder, options, newReport())) names.push(path);
    } finally {
      await folder.close();
    }
  } catch (error) {
    if (!(error instanceof PathError)) throw error;
  }
  return names.join("\n");
}

/** Whether the folder is a link at first, and the number of calls that the first switch lasts. */
const WINDOWS = [
  [false, Infinity],
  [false, 1],
  [true, 1],
] as const;

/** The result of a call during which the folder switched. */
interface Outcome {
  /** Number of observed file system calls. */
  calls: number;
  error: unknown;
}

const tools = builtinTools();
const WORK: Record<string, (project: string) => Promise<string>> = Object.fromEntries([
  ...Object.entries(CALLS).map(([name, [tool, input]]) => [
    name,
    async (project: string) =>
      (
        await callTool(
          tools.find((candidate) => candidate.name === tool)!,
          input,
          toolContext(project),
        )
      ).text,
  ]),
  ["walk of the folder", (project: string) => walkNames(join(project, "sub", "deep"))],
  ["walk of the parent folder", (project: string) => walkNames(project)],
]) as Record<string, (project: string) => Promise<string>>;

describe(
  "a parent folder that becomes a link to an outside folder before each file system call",
  { skip: process.platform === "linux" ? false : "other systems reach nothing by a handle" },
  () => {
    for (const [name, work] of Object.entries(WORK))
      it(`${name} reads and changes nothing outside the project`, async (t) => {
        await using folder = await temporaryFolder();
        const project = join(folder.path, "project");
        const outside = join(folder.path, "outside");
        fs.mkdirSync(outside);
        fillProject(outside, SECRET);
        const picture = pictureOf(outside);

        /** One call of the tool. The folder switches before the file system calls with these numbers. */
        const call = async (isLinkFirst: boolean, flips: readonly number[]): Promise<Outcome> => {
          fs.rmSync(project, { recursive: true, force: true });
          const isAround = name === "delete of the parent folder";
          const way = isAround ? join(project, "top", "sub") : join(project, "sub");
          fs.mkdirSync(way, { recursive: true });
          fillProject(way, "inside");
          fs.symlinkSync(outside, join(project, "sub.link"));
          const flipping = new Flipping(way, join(project, "sub"));
          if (isLinkFirst) flipping.flip();
          let calls = 0;
          const hook = (): void => {
            onCall = undefined;
            if (flips.includes(++calls)) flipping.flip();
            onCall = hook;
          };
          onCall = hook;
          const { output, error } = await work(project).then(
            (text) => ({ output: text, error: undefined }),
            (reason: unknown) => ({ output: "", error: reason }),
          );
          onCall = undefined;
          const situation = `${isLinkFirst ? "a link" : "a folder"} at first, flipped before ${flips.join(" and ")}`;
          assert.doesNotMatch(output, new RegExp(SECRET), situation);
          assert.equal(pictureOf(outside), picture, situation);
          return { calls, error };
        };

        const { error } = await call(false, []);
        assert.equal(error, undefined, "the call succeeds without a switch");
        let cases = 0;
        for (const [isLinkFirst, duration] of WINDOWS)
          for (let first = 1, calls = Infinity; first <= calls; first++, cases++)
            ({ calls } = await call(isLinkFirst, [first, first + duration]));
        t.diagnostic(`${cases} cases`);
        assert.ok(cases > 3 * WINDOWS.length, `${cases} cases`);
      });
  },
);
