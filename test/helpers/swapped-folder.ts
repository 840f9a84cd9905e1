import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Content of files outside the project. */
export const OUTSIDE_TEXT = "OUTSIDE";

/** Creates files in `deep` below `folder`, each of which contains `contentMark`. Existing folders are kept. */
export function fillProject(folder: string, contentMark: string): void {
  // One folder at a time: `recursive` never returns below a removed folder.
  for (const subfolder of ["deep", "deep/tree", "deep/tree/a"]) {
    try {
      mkdirSync(join(folder, subfolder));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
  for (const file of ["file.txt", "gone.txt", `${contentMark}.name`, "tree/keep", "tree/a/keep"])
    writeFileSync(join(folder, "deep", file), `${contentMark} needle\ncount: 1\n`);
}

/** All names and contents below a folder. */
export function describeFolder(folder: string): string {
  const lines: string[] = [];
  const addEntries = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const entryPath = join(path, entry.name);
      lines.push(entry.isFile() ? `${entryPath}: ${readFileSync(entryPath, "utf8")}` : entryPath);
      if (entry.isDirectory()) addEntries(entryPath);
    }
  };
  addEntries(folder);
  return lines.sort().join("\n");
}
