import { existsSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "gantry";
import { readJson } from "./files.js";

/** Version of the folders and file formats that this code reads and writes. */
export const LAYOUT_VERSION = 5;
const VERSION_FILE = "version.json";

/** Throws `StoreError` for a store of another layout. */
export function checkLayout(path: string, logFolder: string): void {
  let layout: unknown = "unknown";
  try {
    const versionFile = readJson(join(logFolder, VERSION_FILE));
    // Layout 1 had an index and no version file. Without both files the store is new, or the log folder was lost.
    const isLayout1 = versionFile === undefined && existsSync(join(logFolder, "index.jsonl"));
    layout = isLayout1 ? 1 : versionFile === undefined ? LAYOUT_VERSION : (versionFile as { version: unknown }).version;
  } catch {
    // The version file is damaged.
  }
  if (layout === LAYOUT_VERSION) return;
  throw new StoreError(
    `session store ${path}: its layout is ${String(layout)}, and this gantry uses layout ${LAYOUT_VERSION}; it was not modified. ` +
      `Keep the folders ${path} and ${logFolder}, and set another session.path`,
  );
}

/** Writes the version of the layout into a log folder without a version. */
export function writeLayoutVersion(logFolder: string): void {
  const path = join(logFolder, VERSION_FILE);
  if (existsSync(path)) return;
  writeFileSync(`${path}.new`, JSON.stringify({ version: LAYOUT_VERSION }), { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}
