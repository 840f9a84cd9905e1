import { createHash } from "node:crypto";
import { existsSync, mkdirSync, realpathSync, utimesSync } from "node:fs";
import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { MountPlan } from "./mount-plan.js";

/** Temporary folders of the sandbox, and their names in the scratch folder. */
const TEMPORARY_FOLDERS = [
  { path: "/tmp", name: "tmp" },
  { path: "/var/tmp", name: "var-tmp" },
];

/** Temporary folders of a project are removed after this time without a command, in ms. */
const SCRATCH_RETENTION_MS = 3 * 24 * 60 * 60 * 1000;

/** The sandbox's own temporary folders. The machine's folders contain sockets and files of other programs. */
export class ScratchFolders {
  readonly #scratchPath: string | undefined;
  #cleanup: Promise<void> | undefined;

  /** @param scratchPath Folder with the temporary folders of each project. Undefined: each command gets empty ones. */
  constructor(scratchPath: string | undefined) {
    this.#scratchPath = scratchPath;
  }

  /** Replaces the machine's temporary folders. The first call removes the folders of projects that are no longer used. */
  async addTo(plan: MountPlan, project: string): Promise<void> {
    const temporaryFolders = TEMPORARY_FOLDERS.filter(({ path }) => existsSync(path));
    if (this.#scratchPath === undefined) {
      for (const { path } of temporaryFolders) plan.replace(path);
      return;
    }
    await (this.#cleanup ??= removeOldScratch(this.#scratchPath));
    const projectScratch = join(this.#scratchPath, createHash("sha256").update(project).digest("hex").slice(0, 16));
    for (const { path, name } of temporaryFolders) {
      mkdirSync(join(projectScratch, name), { recursive: true, mode: 0o700 });
      plan.replace(path, realpathSync.native(join(projectScratch, name)));
    }
    const now = new Date();
    utimesSync(projectScratch, now, now);
  }
}

async function removeOldScratch(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const lastUsedAtMs = (await lstat(path).catch(() => undefined))?.mtimeMs ?? Date.now();
    if (Date.now() - lastUsedAtMs > SCRATCH_RETENTION_MS)
      await rm(path, { recursive: true, force: true }).catch(() => undefined);
  }
}
