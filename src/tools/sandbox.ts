import { existsSync } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isInside } from "../paths.js";
import { runChild } from "./child.js";

export interface SandboxOptions {
  /** Folders beside the project that commands may write to. */
  allowPaths: readonly string[];
  /** Not even visible. */
  deniedPaths: readonly string[];
  env: Readonly<Record<string, string>>;
}

/** What package managers and compilers write to below the home folder. */
const CACHES = [
  ".cache",
  ".npm",
  ".yarn",
  ".bun",
  ".local/share/pnpm",
  ".local/state",
  ".cargo/registry",
  ".cargo/git",
  ".gradle",
  ".m2",
  ".nuget",
  "go/pkg",
];

/**
 * Bubblewrap: a process namespace of its own, so that nothing outlives a call; the rest of the disk read-only; our home
 * and our process out of sight. The network stays, because installing packages is what commands are for.
 */
export async function sandboxArgs(options: SandboxOptions, projectDir: string): Promise<string[]> {
  const home = options.env.HOME;
  const denied = await present(options.deniedPaths);
  const hidden = await Promise.all(
    denied.map(async (path) =>
      (await lstat(path)).isDirectory() ? ["--tmpfs", path] : ["--ro-bind", "/dev/null", path],
    ),
  );
  const writable = await present([
    tmpdir(),
    "/tmp",
    "/var/tmp",
    ...(home ? CACHES.map((name) => join(home, name)) : []),
    ...options.allowPaths,
    ...(await gitFolders(projectDir)),
    projectDir,
  ]);
  return [
    "--ro-bind",
    "/",
    "/",
    ...writable.flatMap((path) => ["--bind", path, path]),
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    ...hidden.flat(),
    "--unshare-pid",
    "--unshare-ipc",
    "--die-with-parent",
    "--chdir",
    projectDir,
    "--",
  ];
}

/** A package of a larger repository has its `.git` above; commits must still work. */
async function gitFolders(projectDir: string): Promise<string[]> {
  for (let at = projectDir; ; at = dirname(at)) {
    const git = join(at, ".git");
    const stats = await lstat(git).catch(() => undefined);
    // One that is a file (a worktree) names a folder; who wrote it chose the place, so it is not opened for writing.
    if (stats) return stats.isDirectory() ? [git] : [];
    if (dirname(at) === at) return [];
  }
}

async function present(paths: readonly string[]): Promise<string[]> {
  const real = await Promise.all(paths.map((path) => realpath(path).catch(() => undefined)));
  const distinct = [...new Set(real.filter((path) => path !== undefined))];
  // A mount over a parent would hide those made below it before.
  return distinct.filter((path) => !distinct.some((other) => other !== path && isInside(path, other)));
}

let probe: Promise<string | undefined> | undefined;

/** Path of a bubblewrap that works here, tried once a process; undefined where there is none. */
export function findBubblewrap(env: Readonly<Record<string, string>>): Promise<string | undefined> {
  probe ??= tryBubblewrap(env).catch(() => undefined);
  return probe;
}

async function tryBubblewrap(env: Readonly<Record<string, string>>): Promise<string | undefined> {
  if (process.platform !== "linux") return undefined;
  // Only from the system's folders: one in the project folder would be the project's word for its own sandbox.
  const file = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"].find(
    (path) => existsSync(path),
  );
  if (file === undefined) return undefined;
  const args = [
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-pid",
    "--unshare-ipc",
    "--die-with-parent",
    "--",
    "/bin/sh",
    "-c",
    ":",
  ];
  const signal = new AbortController().signal;
  const end = await runChild({ file, args, cwd: "/", env, timeoutMs: 5_000, signal, onOutput: () => undefined });
  return end.code === 0 ? file : undefined;
}
