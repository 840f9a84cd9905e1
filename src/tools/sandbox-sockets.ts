import { readFileSync } from "node:fs";
import { lstat } from "node:fs/promises";

/**
 * Sockets that programs of this machine listen on, wherever they lie: a read-only disk keeps nobody from talking to
 * the agent, the container engine or the terminal behind one.
 */
export async function listeningSockets(): Promise<string[]> {
  const table = socketTable();
  const named = new Set<string>();
  for (const line of table.split("\n")) {
    // The eighth column, which may hold blanks; those that begin with "@" have no file.
    const path = /^(?:\S+\s+){6}\S+ (\/.*)$/.exec(line)?.[1];
    if (path !== undefined) named.add(path);
  }
  const found = await Promise.all(
    [...named].map(async (path) => ((await lstat(path).catch(() => undefined))?.isSocket() ? path : undefined)),
  );
  return found.filter((path) => path !== undefined);
}

/** No file of a disk: the kernel writes it as it is read. */
function socketTable(): string {
  try {
    return readFileSync("/proc/net/unix", "utf8");
  } catch {
    return "";
  }
}
