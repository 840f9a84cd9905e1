// Calls file tools while another process repeatedly replaces the parent folder by a link to another folder.
import assert from "node:assert/strict";
import { closeSync, constants, fstatSync, mkdirSync, openSync, rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { Child } from "../../helpers/child.js";
import { fillProject, describeFolder, OUTSIDE_TEXT } from "../../helpers/swapped-folder.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

/**
 * Number of calls per tool. The long form sets `CALLS` and tests all tools, the short form only SHORT_FORM_TOOLS.
 * swapped-parent.test.ts tests each step of each tool.
 */
const CALLS_PER_TOOL = Number(process.env.CALLS ?? 30);
const SHORT_FORM_TOOLS = ["read", "apply_patch", "delete of the parent folder"];

/** Opens the real folder. The descriptor stays valid under either name. */
function openRealFolder(project: string): number {
  for (;;) {
    try {
      return openSync(join(project, "sub.real"), constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } catch {
      // The folder currently has its other name.
    }
  }
}

const path = "sub/deep/file.txt";
const createInputByTestName: Record<string, (i: number) => Record<string, unknown>> = {
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
  const selectedNames = process.env.CALLS === undefined ? SHORT_FORM_TOOLS : Object.keys(createInputByTestName);
  for (const [name, createInput] of Object.entries(createInputByTestName).filter(([testName]) =>
    selectedNames.includes(testName),
  ))
    it(`${name} reads and changes nothing outside the project`, async (t) => {
      await using folder = await createTemporaryFolder();
      const project = join(folder.path, "project");
      const outside = join(folder.path, "outside");
      await mkdir(join(project, "sub.real"), { recursive: true });
      await mkdir(outside);
      fillProject(join(project, "sub.real"), "inside");
      fillProject(outside, OUTSIDE_TEXT);
      const originalOutside = describeFolder(outside);
      let folderDescriptor = openRealFolder(project);
      const deletesParent = name === "delete of the parent folder";
      const switchedPath = deletesParent ? join(project, "top", "sub") : join(project, "sub");
      const linkSwapper = new Child("./link-swapper.ts", [switchedPath, join(project, "sub"), outside]);
      const counts = { succeeded: 0, rejected: 0, outside: 0 };
      const reasons = new Map<string, number>();
      try {
        await linkSwapper.waitForMessage();
        const tool = builtinTools().find((candidate) => candidate.name === name.split(" ")[0])!;
        // All of a few calls can be rejected. The loop therefore continues until the first success.
        for (let i = 0; i < CALLS_PER_TOOL || counts.succeeded === 0; i++) {
          if (deletesParent) {
            mkdirSync(join(project, "top"), { recursive: true });
            fillProject(join(project, "top"), "inside");
          } else if (i % 100 === 0 || name === "delete") {
            // A tool can create a folder under a name that is free for a moment. The other process then removes one of
            // the two.
            if (fstatSync(folderDescriptor).nlink === 0) {
              closeSync(folderDescriptor);
              folderDescriptor = openRealFolder(project);
            }
            fillProject(`/proc/self/fd/${folderDescriptor}`, "inside");
          }
          let output = "";
          try {
            output = (await callTool(tool, createInput(i), createToolContext(project))).text;
            counts.succeeded++;
          } catch (error) {
            counts.rejected++;
            const reason = (error as Error).message.replace(/.*?: /, "").slice(0, 60);
            reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
          }
          if (!output.includes(OUTSIDE_TEXT) && describeFolder(outside) === originalOutside) continue;
          counts.outside++;
          rmSync(outside, { recursive: true });
          mkdirSync(outside);
          fillProject(outside, OUTSIDE_TEXT);
        }
        linkSwapper.send("stop");
        await linkSwapper.waitForEnd();
      } finally {
        closeSync(folderDescriptor);
        await linkSwapper.kill();
      }
      t.diagnostic(`${name}: ${JSON.stringify(counts)} ${JSON.stringify(Object.fromEntries(reasons))}`);
      assert.equal(counts.outside, 0);
    });
});
