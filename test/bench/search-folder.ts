// A folder to search, and ripgrep as the reference for searches.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { rgPath } from "@vscode/ripgrep";

const RG_FLAGS = ["--no-config", "--hidden", "--no-require-git", "--glob=!.git"];

/**
 * Writes files of 20 lines, 50 in a folder. 20 files contain `needle`, and each tenth file is Markdown. The folder
 * node_modules is ignored.
 */
export async function createSearchFiles(folder: string, fileCount: number): Promise<void> {
  const writeText = async (name: string, text: string): Promise<void> => {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  };
  await writeText(".gitignore", "node_modules/\n*.log\n/build\n");
  await writeText(".git/HEAD", "ref: refs/heads/main\n");
  await writeText("node_modules/x/index.js", "a needle\n");
  const lines = Array.from({ length: 20 }, (_, n) => `export const value${n} = compute(${n}); // the text of a line\n`);
  for (let offset = 0; offset < fileCount; offset += 50) {
    const subfolder = `package-${Math.floor(offset / 1_000)}/folder-${(offset / 50) % 20}`;
    await Promise.all(
      Array.from({ length: 50 }, (_, n) => {
        const text = lines.join("") + ((offset + n) % (fileCount / 20) === 7 ? "// a needle\n" : "");
        return writeText(`${subfolder}/file-${offset + n}.${n % 10 === 0 ? "md" : "ts"}`, text);
      }),
    );
  }
}

/** Runs ripgrep in a folder, until its output is read. */
export async function runRipgrep(args: readonly string[], cwd: string): Promise<void> {
  const child = spawn(rgPath, [...RG_FLAGS, ...args], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.resume();
  await once(child, "close");
}
