import { existsSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { MemoryDriver, MemoryStore } from "gantry";
import type { SessionChange, SessionData, Snapshot } from "gantry";
import { completed, VERSION } from "./chain-files.js";
import { fileName, parsed, textOf } from "./files.js";
import type { Files } from "./files.js";

/** A file of version 1: one session; the original's also holds what belongs to the chain. */
type OldFile = SessionData & { version: number; snapshots?: Snapshot[] };
/** A line of a chain's journal: a change; temporary files and what they replace; or ids of a chain that was being deleted. */
type OldLine = { id?: string; change?: SessionChange; fold?: [from: string, to: string][]; gone?: string[] };

/** Make files of this version of those of version 1, journals included. Done again from the start after a crash. */
export async function upgrade(path: string, files: Files): Promise<void> {
  const beside = `${path}.d`;
  const journals = join(beside, "journals");
  const fileOf = (id: string): string => join(path, fileName(id));
  const remove = (file: string): void => rmSync(file, { recursive: true, force: true });

  // What a crash left half done comes first: the files may hold already what the lines before it say.
  for (const name of existsSync(journals) ? readdirSync(journals) : []) {
    const journal = join(journals, name);
    for (const { fold = [], gone = [] } of linesOf(journal)) {
      for (const [from, to] of fold)
        if (existsSync(join(beside, from))) renameSync(join(beside, from), join(beside, to));
      gone.map(fileOf).forEach(remove);
      if (fold.length + gone.length > 0) remove(journal);
    }
  }
  const chains = new Map<string, OldFile[]>();
  for (const name of readdirSync(path)) {
    const file = parsed<OldFile>(textOf(join(path, name)));
    const root = file?.session?.chain?.root;
    if (file?.version === 1 && root !== undefined) chains.set(root, [...(chains.get(root) ?? []), file]);
  }
  for (const [root, sessions] of chains) {
    const original = sessions.find(({ session }) => session.id === root);
    if (original) {
      const store = new MemoryStore();
      const driver = new MemoryDriver(store);
      await driver.open();
      for (const stored of sessions) stored.session = completed(stored.session);
      store.load({ sessions, snapshots: original.snapshots ?? [], runs: [], asks: [] });
      for (const { id = "", change } of linesOf(join(journals, `${fileName(root)}l`)))
        if (change) await driver.write(id, { ...change, fence: null });
      files.replace(fileOf(root), JSON.stringify({ version: VERSION, v: 1, ...store.dump(root) }));
    }
    // They are in the original's file now; those of an original that is missing are left as they are.
    const taken = parsed<OldFile>(textOf(fileOf(root)))?.version === VERSION;
    for (const { session } of sessions) if (taken && session.id !== root) remove(fileOf(session.id));
  }
  for (const name of ["index.jsonl", "journals", "leases", "locks", "fence.json"]) remove(join(beside, name));
}

function linesOf(journal: string): OldLine[] {
  return (textOf(journal) ?? "").split("\n").flatMap((line) => parsed<OldLine>(line) ?? []);
}
