import { accessSync, constants, statfsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { attempt } from "../../base/attempt.js";
import { runRipgrep } from "../../processes/ripgrep.js";
import { getEnvironmentVariable } from "../../serve/environment.js";
import { loadSqliteInspection } from "../../serve/inspections.js";
import { createError, createOk, createWarning, toReason, type DoctorCheck, type Finding } from "./finding.js";

/** Free bytes below which the store can fail soon. */
const MIN_FREE_BYTES = 200 * 1024 * 1024;
const RIPGREP_TIMEOUT_MS = 5_000;

/** Node, native parts, programs and the disk. */
export const machineCheck: DoctorCheck = {
  group: "Machine",
  run: async ({ home, signal, loadedConfig }) => [
    // The command itself refuses older versions of Node.
    createOk("node.version", `Node ${process.version}`),
    ...(loadedConfig.config.session.driver === "sqlite" ? [await checkSqlite()] : []),
    checkGit(),
    await checkRipgrep(signal),
    checkDisk(home),
  ],
};

async function checkSqlite(): Promise<Finding> {
  try {
    const { loadSqlite } = await loadSqliteInspection();
    return createOk("node.sqlite", `better-sqlite3 is loaded, SQLite ${await loadSqlite()}`);
  } catch (error) {
    return createError(
      "node.sqlite",
      "the native part of SQLite cannot be loaded",
      toReason(error),
      "npm rebuild better-sqlite3 in the folder of the installation, or use --session-driver json",
    );
  }
}

function checkGit(): Finding {
  const folders = (getEnvironmentVariable("PATH") ?? "").split(delimiter).filter((folder) => folder !== "");
  const names = process.platform === "win32" ? ["git.exe", "git.cmd"] : ["git"];
  const files = folders.flatMap((folder) => names.map((name) => join(folder, name)));
  const file = files.find((candidate) => attempt(() => (accessSync(candidate, constants.X_OK), true), false));
  if (file !== undefined) return createOk("machine.git", `git is ${file}`);
  return createWarning(
    "machine.git",
    "git is not on the PATH",
    "worktrees, changed files and the branch of a project need it",
    "install git, or add its folder to PATH",
  );
}

async function checkRipgrep(signal: AbortSignal): Promise<Finding> {
  try {
    await runRipgrep({ args: ["--version"], cwd: "/", signal, timeoutMs: RIPGREP_TIMEOUT_MS });
    return createOk("machine.ripgrep", "ripgrep runs");
  } catch (error) {
    return createError(
      "machine.ripgrep",
      "ripgrep does not run; the tools grep, glob and list need it",
      toReason(error),
      "install gantry again with its optional packages, or install ripgrep in /usr/bin",
    );
  }
}

function checkDisk(home: string): Finding {
  const stats = attempt(() => statfsSync(nearestFolder(home)), undefined);
  if (!stats) return createOk("machine.disk", "free space is unknown");
  const freeBytes = stats.bavail * stats.bsize;
  const text = `${Math.floor(freeBytes / 1024 / 1024).toLocaleString("en")} MiB are free at ${home}`;
  if (freeBytes >= MIN_FREE_BYTES) return createOk("machine.disk", text);
  return createError(
    "machine.disk",
    "the disk of the home folder is nearly full",
    text,
    "free space, or set GANTRY_HOME to a folder on another disk; gantry sessions delete removes old sessions",
  );
}

function nearestFolder(path: string): string {
  for (let folder = path; ; folder = dirname(folder))
    if (dirname(folder) === folder || attempt(() => (statfsSync(folder), true), false)) return folder;
}
