import { stat } from "node:fs/promises";
import { withThread } from "../hostile/threads.js";

/** For a part of a walk, in ms, and files in all: more than anybody looks through. */
const PART_MS = 30_000;
const MOST = 50_000;

/** The files of a folder that no ignore file leaves out, as paths from it; what cannot be read is left out. */
export async function projectFiles(folder: string, signal: AbortSignal): Promise<string[]> {
  const { dev, ino } = await stat(folder, { bigint: true });
  return withThread(signal, async (thread) => {
    const limits = { ms: PART_MS };
    const found: string[] = [];
    await thread.ask(
      "walk",
      { start: folder, identity: { dev, ino }, denied: [], ignoreFrom: folder, only: { kinds: ["file"] } },
      limits,
    );
    for (let done = false; !done && found.length < MOST;) {
      const part = await thread.ask("more", {}, limits);
      found.push(...part.entries.map(({ way }) => way));
      ({ done } = part);
    }
    return found;
  });
}
