// Every file tool while another process repeatedly replaces the parent folder by a link to another folder.
import assert from "node:assert/strict";
import { closeSync, constants, fstatSync, mkdirSync, openSync, rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { Child } from "../../helpers/child.js";
import { fillProject, pictureOf, SECRET } from "../../helpers/swapped-folder.js";
import { callTool, temporaryFolder, toolContext } from "../../helpers/tool-context.js";

/**
 * Number of calls per tool. The long form sets more calls and tests all tools. swapped-parent.test.ts tests each step
 * of each tool.
 */
const CALLS = Number(process.env.CALLS ?? 30);
const SHORT_FORM_TOOLS = ["read", "apply_patch", "delete of the parent folder"];

/** Opens the real folder. The descriptor stays valid under either name. */
function openReal(project: string): number {
  for (;;) {
    try {
      return openSync(join(project, "sub.real"), constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } catch {
      // The folder currently has its other name.
    }
  }
}

const path = "sub/deep/file.txt";
const calls: Record<string, (i: number) => Record<string, unknown>> = {
  read: () => ({ path }),
  write: (i) =>
    i % 2 ? { path, content: `${i} needle\ncount: 1\n` } : { path: `sub/deep/n${i % 9}/${i}`, content: "" },
  edit: () => ({ path, old_string: "count:", new_string: "count: " }),
  multiedit: () => ({ path, edits: [{ old_string: "count:", new_string: "count: " }] }),
  apply_patch: (i) => {
    const sections = [
      `*** Update File: ${path}\n-count: 1\n+count: 2`,
      `*** Update File: ${path}\n-count: 2\n+count: 1`,
      `*** Add File: sub/deep/n${i % 9}/${i}\n+new`,
      "*** Delete File: sub/deep/gone.txt",
      `*** Update File: ${path}\n*** Move to: sub/moved/${i}.txt`,
    ];
    return { input: `*** Begin Patch\n${sections[i % 5]}\n*** End Patch` };
  },
  delete: (i) => (i % 2 ? { path: "sub/deep/tree", recursive: true } : { path: "sub/deep/gone.txt" }),
  // The switching folder is inside the deleted folder.
  "delete of the parent folder": () => ({ path: "top", recursive: true }),
  list: (i) => ({ path: ["sub", "sub/deep", "."][i % 3], depth: 4 }),
  glob: (i) => ({ path: ["sub", "sub/deep", "."][i % 3], pattern: "**/*" }),
  grep: (i) => ({ path: ["sub", path, "."][i % 3], pattern: "needle" }),
};

describe("a parent folder that another process replaces by a link to an outside folder", () => {
  const names = process.env.CALLS === undefined ? SHORT_FORM_TOOLS : Object.keys(calls);
  for (const [name, inputOf] of Object.entries(calls).filter(([callName]) => names.includes(callName)))
    it(`${name} reads and changes nothing outside the project`, async (t) => {
      await using folder = await temporaryFolder();
      const project = join(folder.path, "project");
      const outside = join(folder.path, "outside");
      await mkdir(join(project, "sub.real"), { recursive: true });
      await mkdir(outside);
      fillProject(join(project, "sub.real"), "inside");
      fillProject(outside, SECRET);
      const before = pictureOf(outside);
      let inside = openReal(project);
      const isAround = name === "delete of the parent folder";
      const flips = isAround ? join(project, "top", "sub") : join(project, "sub");
      const swapper = new Child("./link-swapper.ts", [flips, join(project, "sub"), outside]);
      const counts = { done: 0, refused: 0, outside: 0 };
      const reasons = new Map<string, number>();
      try {
        await swapper.message();
        const tool = builtinTools().find((candidate) => candidate.name === name.split(" ")[0])!;
        // All of a few calls can be rejected, so the loop continues until the first success.
        for (let i = 0; i < CALLS || counts.done === 0; i++) {
          if (isAround) {
            mkdirSync(join(project, "top"), { recursive: true });
            fillProject(join(project, "top"), "inside");
          } else if (i % 100 === 0 || name === "delete") {
            // A tool can create a folder under a name that is free for a moment. The other process then removes one of
            // the two.
            if (fstatSync(inside).nlink === 0) {
              closeSync(inside);
              inside = openReal(project);
            }
            fillProject(`/proc/self/fd/${inside}`, "inside");
          }
          let output = "";
          try {
            output = (await callTool(tool, inputOf(i), toolContext(project))).text;
            counts.done++;
          } catch (error) {
            counts.refused++;
            const reason = (error as Error).message.replace(/.*?: /, "").slice(0, 60);
            reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
          }
          if (!output.includes(SECRET) && pictureOf(outside) === before) continue;
          counts.outside++;
          rmSync(outside, { recursive: true });
          mkdirSync(outside);
          fillProject(outside, SECRET);
        }
        swapper.send("stop");
        await swapper.ended();
      } finally {
        closeSync(inside);
        await swapper.kill();
      }
      t.diagnostic(`${name}: ${JSON.stringify(counts)} ${JSON.stringify(Object.fromEntries(reasons))}`);
      assert.equal(counts.outside, 0);
    });
});
