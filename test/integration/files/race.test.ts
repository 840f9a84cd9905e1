// Every file tool against a parent folder that another process makes a link to somewhere else, again and again.
import assert from "node:assert/strict";
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { Child } from "../../helpers/child.js";
import { callTool, temporaryFolder, toolContext } from "../../helpers/tool-context.js";

/** Calls of each tool; the long form sets more. */
const CALLS = Number(process.env.CALLS ?? 60);
const SECRET = "OUTSIDE";

function fill(folder: string, mark: string): void {
  // One after the other: `recursive` never ends below a folder that was removed.
  for (const way of ["deep", "deep/tree", "deep/tree/a"]) {
    try {
      mkdirSync(join(folder, way));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
  for (const file of ["file.txt", "gone.txt", `${mark}.name`, "tree/keep", "tree/a/keep"])
    writeFileSync(join(folder, "deep", file), `${mark} needle\ncount: 1\n`);
}

/** The folder that is really there, open: whatever its name is at the moment, it is reached by this. */
function openReal(project: string): number {
  for (;;) {
    try {
      return openSync(join(project, "sub.real"), constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } catch {
      // It has its other name just now.
    }
  }
}

/** All names and contents below a folder. */
function picture(folder: string): string {
  const lines: string[] = [];
  const walk = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const full = join(path, entry.name);
      lines.push(entry.isFile() ? `${full}: ${readFileSync(full, "utf8")}` : full);
      if (entry.isDirectory()) walk(full);
    }
  };
  walk(folder);
  return lines.sort().join("\n");
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
  // Here the folder that flips lies in what is deleted.
  "delete around it": () => ({ path: "top", recursive: true }),
  list: (i) => ({ path: ["sub", "sub/deep", "."][i % 3], depth: 4 }),
  glob: (i) => ({ path: ["sub", "sub/deep", "."][i % 3], pattern: "**/*" }),
  grep: (i) => ({ path: ["sub", path, "."][i % 3], pattern: "needle" }),
};

describe("a parent folder that flips between a folder and a link to the outside", () => {
  for (const [name, inputOf] of Object.entries(calls))
    it(`${name}: never reaches the outside`, async (t) => {
      await using folder = await temporaryFolder();
      const project = join(folder.path, "project");
      const outside = join(folder.path, "outside");
      await mkdir(join(project, "sub.real"), { recursive: true });
      await mkdir(outside);
      fill(join(project, "sub.real"), "inside");
      fill(outside, SECRET);
      const before = picture(outside);
      let inside = openReal(project);
      const around = name === "delete around it";
      const flips = around ? join(project, "top", "sub") : join(project, "sub");
      const flipper = new Child("./flipper.ts", [flips, join(project, "sub"), outside]);
      const counts = { done: 0, refused: 0, outside: 0 };
      const reasons = new Map<string, number>();
      try {
        await flipper.message();
        const tool = builtinTools().find((one) => one.name === name.split(" ")[0])!;
        for (let i = 0; i < CALLS; i++) {
          if (around) {
            mkdirSync(join(project, "top"), { recursive: true });
            fill(join(project, "top"), "inside");
          } else if (i % 100 === 0 || name === "delete") {
            // A tool may make a folder of the name that is free for a moment; the flipper then removes one of the two.
            if (fstatSync(inside).nlink === 0) {
              closeSync(inside);
              inside = openReal(project);
            }
            fill(`/proc/self/fd/${inside}`, "inside");
          }
          let output = "";
          try {
            output = (await callTool(tool, inputOf(i), toolContext(project))).text;
            counts.done++;
          } catch (error) {
            counts.refused++;
            const why = (error as Error).message.replace(/.*?: /, "").slice(0, 60);
            reasons.set(why, (reasons.get(why) ?? 0) + 1);
          }
          if (!output.includes(SECRET) && picture(outside) === before) continue;
          counts.outside++;
          rmSync(outside, { recursive: true });
          mkdirSync(outside);
          fill(outside, SECRET);
        }
        flipper.send("stop");
        await flipper.ended();
      } finally {
        closeSync(inside);
        await flipper.kill();
      }
      t.diagnostic(`${name}: ${JSON.stringify(counts)} ${JSON.stringify(Object.fromEntries(reasons))}`);
      assert.equal(counts.outside, 0);
      assert.ok(counts.done > 0, "none succeeded");
    });
});
