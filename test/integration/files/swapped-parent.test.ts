// Calls every file tool while a parent folder becomes a link to the outside, or stops being a link. The switch happens
// before each file system call of the tool in turn. race.test.ts races two processes.
import assert from "node:assert/strict";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { builtinTools } from "gantry";
import { PathGuard } from "../../../src/files/path-guard.js";
import { createWalkReport, walk } from "../../../src/files/walk.js";
import { PathError } from "../../../src/ports/errors.js";
import { fillProject, describeFolder, OUTSIDE_TEXT } from "../../helpers/swapped-folder.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

/**
 * Called before each file system call of this thread that receives a path. Calls on descriptors do not depend on names.
 */
let beforeCall: (() => void) | undefined;
const restoreMethods: (() => void)[] = [];

function watchCalls(module: object): void {
  const methods = module as Record<string, unknown>;
  for (const [name, method] of Object.entries(methods)) {
    // Skips classes, which begin with a capital letter. `realpathSync.native` is not wrapped: it is only called for
    // gantry's own folders.
    if (typeof method !== "function" || !/^[a-z]/.test(name)) continue;
    const wrappedMethod = function (this: unknown, ...args: unknown[]): unknown {
      const hook = typeof args[0] === "string" ? beforeCall : undefined;
      hook?.();
      return (method as (...args: unknown[]) => unknown).apply(this, args);
    };
    methods[name] = Object.assign(wrappedMethod, method);
    restoreMethods.push(() => (methods[name] = method));
  }
}

before(() => {
  for (const module of [fs, fsPromises]) watchCalls(module);
  syncBuiltinESMExports();
});
after(() => {
  for (const restoreMethod of restoreMethods) restoreMethod();
  syncBuiltinESMExports();
});

/** `switchedPath` alternates between a folder and a link to the outside. The inactive entry has another name. */
class FolderSwitch {
  #isLink = false;
  readonly #path: string;
  readonly #inactivePath: string;

  constructor(switchedPath: string, inactivePath: string) {
    this.#path = switchedPath;
    this.#inactivePath = inactivePath;
  }

  toggle(): void {
    const [currentKind, nextKind] = this.#isLink ? ["link", "real"] : ["real", "link"];
    this.#isLink = !this.#isLink;
    // The tool may have deleted the first entry, or the folder around both.
    for (const [from, to] of [
      [this.#path, `${this.#inactivePath}.${currentKind}`],
      [`${this.#inactivePath}.${nextKind}`, this.#path],
    ] as const) {
      if (fs.lstatSync(from, { throwIfNoEntry: false }) && fs.existsSync(join(to, ".."))) fs.renameSync(from, to);
    }
  }
}

const path = "sub/deep/file.txt";
const createPatchInput = (section: string) => ({ input: `*** Begin Patch\n${section}\n*** End Patch` });

/** Tool and arguments by test name. `top` contains the folder that switches. */
const CALL_INPUTS: Record<string, readonly [tool: string, input: Record<string, unknown>]> = {
  read: ["read", { path }],
  "write into new folders": ["write", { path: "sub/deep/new/one/a.txt", content: "new\n" }],
  edit: ["edit", { path, old_string: "count:", new_string: "count: " }],
  "apply_patch with a move": [
    "apply_patch",
    createPatchInput(`*** Update File: ${path}\n*** Move to: sub/moved/a.txt`),
  ],
  "delete of a file": ["delete", { path: "sub/deep/gone.txt" }],
  "delete of a tree": ["delete", { path: "sub/deep/tree", recursive: true }],
  "delete of the parent folder": ["delete", { path: "top", recursive: true }],
  list: ["list", { path: "sub", depth: 4 }],
  "grep of a file": ["grep", { path, pattern: "needle" }],
  "grep of the parent folder": ["grep", { path: ".", pattern: "needle" }],
};

/** Walks a folder in this process, as the tool `list` does. Returns the paths found before the end or a PathError. */
async function walkNames(startFolder: string): Promise<string> {
  const guard = await PathGuard.create({ roots: [startFolder], deniedPaths: [] });
  const names: string[] = [];
  try {
    const folder = await guard.openFolder(startFolder);
    try {
      const options = { guard, maxDepth: 9, ignoredPaths: new Set<string>(), signal: new AbortController().signal };
      for await (const { path } of walk(folder, options, createWalkReport())) names.push(path);
    } finally {
      await folder.close();
    }
  } catch (error) {
    if (!(error instanceof PathError)) throw error;
  }
  return names.join("\n");
}

/** Whether the folder is a link at first, and the number of calls that the first switch lasts. */
const SWITCHES = [
  [false, Infinity],
  [false, 1],
  [true, 1],
] as const;

/** The result of a call during which the folder switched. */
interface Outcome {
  /** Number of observed file system calls. */
  callCount: number;
  error: unknown;
}

const tools = builtinTools();
const ACTIONS: Record<string, (project: string) => Promise<string>> = Object.fromEntries([
  ...Object.entries(CALL_INPUTS).map(([name, [tool, input]]) => [
    name,
    async (project: string) =>
      (
        await callTool(
          tools.find((candidate) => candidate.name === tool)!,
          input,
          createToolContext(project),
        )
      ).text,
  ]),
  ["walk of the folder", (project: string) => walkNames(join(project, "sub", "deep"))],
  ["walk of the parent folder", (project: string) => walkNames(project)],
]) as Record<string, (project: string) => Promise<string>>;

describe(
  "a parent folder that becomes a link to an outside folder before each file system call",
  { skip: process.platform === "linux" ? false : "only Linux opens paths relative to an open folder" },
  () => {
    for (const [name, action] of Object.entries(ACTIONS))
      it(`${name} reads and changes nothing outside the project`, async (t) => {
        await using folder = await createTemporaryFolder();
        const project = join(folder.path, "project");
        const outside = join(folder.path, "outside");
        fs.mkdirSync(outside);
        fillProject(outside, OUTSIDE_TEXT);
        const originalOutside = describeFolder(outside);

        /** Calls the tool once. The folder switches before the file system calls with the numbers in `switchCalls`. */
        const runCase = async (isLinkFirst: boolean, switchCalls: readonly number[]): Promise<Outcome> => {
          fs.rmSync(project, { recursive: true, force: true });
          const deletesParent = name === "delete of the parent folder";
          const folderPath = deletesParent ? join(project, "top", "sub") : join(project, "sub");
          fs.mkdirSync(folderPath, { recursive: true });
          fillProject(folderPath, "inside");
          fs.symlinkSync(outside, join(project, "sub.link"));
          const folderSwitch = new FolderSwitch(folderPath, join(project, "sub"));
          if (isLinkFirst) folderSwitch.toggle();
          let callCount = 0;
          const hook = (): void => {
            beforeCall = undefined;
            if (switchCalls.includes(++callCount)) folderSwitch.toggle();
            beforeCall = hook;
          };
          beforeCall = hook;
          const { output, error } = await action(project).then(
            (text) => ({ output: text, error: undefined }),
            (reason: unknown) => ({ output: "", error: reason }),
          );
          beforeCall = undefined;
          const situation = `${isLinkFirst ? "a link" : "a folder"} at first, switched before ${switchCalls.join(" and ")}`;
          assert.doesNotMatch(output, new RegExp(OUTSIDE_TEXT), situation);
          assert.equal(describeFolder(outside), originalOutside, situation);
          return { callCount, error };
        };

        const { error } = await runCase(false, []);
        assert.equal(error, undefined, "the call succeeds without a switch");
        let caseCount = 0;
        for (const [isLinkFirst, linkCallCount] of SWITCHES)
          for (let firstCall = 1, callCount = Infinity; firstCall <= callCount; firstCall++, caseCount++)
            ({ callCount } = await runCase(isLinkFirst, [firstCall, firstCall + linkCallCount]));
        t.diagnostic(`${caseCount} cases`);
        assert.ok(caseCount > 3 * SWITCHES.length, `${caseCount} cases`);
      });
  },
);
