import { stat } from "node:fs/promises";
import { deadline } from "../base/abort.js";
import { printable } from "../base/printable.js";
import { PathGuard } from "../files/path-guard.js";
import { withThread } from "../hostile/threads.js";
import type { Entry } from "../hostile/walk.js";

/** For the whole look, in ms. */
const TIME_MS = 5_000;
/** Of the project folder, and of each folder in it, so many names are told. */
const TOP = 60;
const EACH = 10;
/** Characters of a name, and bytes of it all. */
const NAME = 60;
const BYTES = 2_000;

/** What lies in a folder and in its folders, as lines; what git ignores is left out. `""` where that cannot be told. Never rejects. */
export async function topOfTree(folder: string, denied: readonly string[]): Promise<string> {
  const time = deadline(TIME_MS);
  try {
    const guard = await PathGuard.create({ roots: [folder], denied });
    const opened = await guard.openFolder(folder);
    const job = { start: opened.path, denied, ignoreFrom: opened.path, depth: 2 };
    const { dev, ino } = await stat(opened.at("."), { bigint: true }).finally(() => opened.close());
    const entries = await withThread(time.signal, async (thread) => {
      await thread.ask("walk", { ...job, identity: { dev, ino } }, { ms: TIME_MS });
      const found: Entry[] = [];
      for (;;) {
        const part = await thread.ask("more", {}, { ms: TIME_MS });
        found.push(...part.entries);
        if (part.done) return found;
      }
    });
    return drawn(entries);
  } catch {
    return "";
  } finally {
    time.clear();
  }
}

/** A line for each folder with what is in it, and one for the files beside them. */
function drawn(entries: readonly Entry[]): string {
  const files: string[] = [];
  const folders = new Map<string, string[]>();
  for (const { way, kind } of entries) {
    const [first = "", second] = way.split("/");
    const end = kind === "folder" ? "/" : "";
    if (second !== undefined) folders.get(first)?.push(shown(second) + end);
    else if (kind === "folder") folders.set(first, []);
    else files.push(shown(first));
  }
  const lines = [...folders].slice(0, TOP).map(([name, inside]) => `${shown(name)}/: ${some(inside, EACH)}`);
  if (folders.size > TOP) lines.push(`and ${folders.size - TOP} more folders`);
  if (files.length > 0) lines.push(some(files, TOP));
  // Names alone, where there is no room for what is in them.
  if (Buffer.byteLength(lines.join("\n")) > BYTES)
    lines.splice(
      0,
      folders.size > TOP ? TOP + 1 : folders.size,
      some(
        [...folders.keys()].map((name) => `${shown(name)}/`),
        TOP,
      ),
    );
  let text = lines.join("\n");
  while (Buffer.byteLength(text) > BYTES) text = text.slice(0, text.lastIndexOf(" "));
  return text;
}

function some(names: readonly string[], most: number): string {
  if (names.length === 0) return "(empty)";
  const more = names.length > most ? ` and ${names.length - most} more` : "";
  return names.slice(0, most).join(" ") + more;
}

function shown(name: string): string {
  const whole = printable(name);
  return whole.length <= NAME ? whole : `${whole.slice(0, NAME - 1)}…`;
}
