import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Hooks } from "./temp-dir.js";

/** Size of the disk, and of the file that fills it. A store of the schedules needs less than the difference. */
const DISK_BYTES = 64 * 1024 * 1024;

/** A small disk of several processes, which the test can fill. */
export interface SharedDisk {
  /** A command prefix that runs a program, as the same process, with the disk mounted. */
  commandPrefix: readonly string[];
  /** The disk's folder as this process sees it. */
  path: string;
  /** Uses up the free space. */
  fill(): Promise<void>;
  free(): Promise<void>;
}

/**
 * Mounts a disk at `folder` for processes with its `commandPrefix`, until the end of the test. `projectDir`: their
 * working directory. Resolves with the reason if this machine permits no mounts.
 */
export async function mountSharedDisk(hooks: Hooks, folder: string, projectDir: string): Promise<SharedDisk | string> {
  if (process.platform !== "linux") return "only Linux has namespaces";
  const isRoot = process.getuid?.() === 0;
  const script = `mount -t tmpfs -o size=${DISK_BYTES},mode=700 none "$0" && echo ready && exec cat`;
  const holder = spawn("unshare", [...(isRoot ? [] : ["-r"]), "--mount", "sh", "-c", script, folder]);
  // The namespace ends with the pipe from this process, also if this process is killed.
  const ended = once(holder, "close").catch(() => undefined);
  hooks.after(async () => {
    holder.stdin.end();
    await ended;
  });
  holder.stdin.on("error", () => undefined);
  const isMounted = await Promise.race([once(holder.stdout, "data").then(() => true), ended.then(() => false)]);
  if (!isMounted) return "this machine permits no mounts";
  const path = join(`/proc/${holder.pid}/root`, folder);
  const filler = join(path, "filler");
  const user = isRoot ? [] : ["-U", "--preserve-credentials"];
  const enter = ["nsenter", "-t", String(holder.pid), ...user, "-m", "--"];
  return {
    commandPrefix: [...enter, "sh", "-c", 'cd "$0" && exec "$@"', projectDir],
    path,
    fill: () => writeFile(filler, Buffer.alloc(DISK_BYTES)).catch(() => undefined),
    free: () => rm(filler, { force: true }),
  };
}
