import { readFileSync } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { attempt } from "../../../base/attempt.js";

/**
 * Returns the real paths of Unix sockets on which programs of this machine listen. A read-only mount does not prevent a
 * command from connecting to an agent, a container engine or a terminal.
 *
 * @param hasCapabilities Whether the command keeps root's rights over files of other users. If not, sockets in private
 * folders of other users are omitted: the command cannot reach them, and bubblewrap cannot mount on them.
 */
export async function findListeningSockets(hasCapabilities: boolean): Promise<string[]> {
  const paths = new Set<string>();
  for (const line of readSocketTable().split("\n")) {
    // The eighth column, which may contain spaces. Abstract sockets start with "@" and have no file.
    const path = /^(?:\S+\s+){6}\S+ (\/.*)$/.exec(line)?.[1];
    if (path !== undefined) paths.add(path);
  }
  const reachabilityByFolder = new Map<string, Promise<boolean>>();
  const isReachable = async (folder: string): Promise<boolean> => {
    let reachability = reachabilityByFolder.get(folder);
    if (!reachability) {
      const parent = dirname(folder);
      reachability = Promise.all([canEnter(folder), parent === folder || isReachable(parent)]).then((all) =>
        all.every(Boolean),
      );
      reachabilityByFolder.set(folder, reachability);
    }
    return reachability;
  };
  const needsCheck = process.geteuid?.() === 0 && !hasCapabilities;
  const sockets = [...paths].map(async (path) => {
    const realPath = await realpath(path).catch(() => undefined);
    if (realPath === undefined || !(await lstat(realPath).catch(() => undefined))?.isSocket()) return undefined;
    return needsCheck && !(await isReachable(dirname(realPath))) ? undefined : realPath;
  });
  return (await Promise.all(sockets)).filter((path) => path !== undefined);
}

/** Whether the mode bits let this process's user enter a folder without capabilities. */
async function canEnter(folder: string): Promise<boolean> {
  const { uid, gid, mode } = await stat(folder);
  if (uid === process.geteuid?.()) return (mode & 0o100) !== 0;
  const isInGroup = gid === process.getegid?.() || process.getgroups?.().includes(gid) === true;
  return (mode & (isInGroup ? 0o010 : 0o001)) !== 0;
}

/** Synchronous, because the kernel generates this file during the read. */
function readSocketTable(): string {
  return attempt(() => readFileSync("/proc/net/unix", "utf8"), "");
}
