import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Content of files outside the project. */
export const SECRET = "OUTSIDE";

/** Creates files in `deep` below this folder, each containing the mark. Existing folders are kept. */
export function fillProject(folder: string, mark: string): void {
  // One folder at a time: `recursive` never returns below a removed folder.
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

/** All names and contents below a folder. */
export function pictureOf(folder: string): string {
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
