import { currentDocument } from "gantry/plugin";
import { renameSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { StoreError } from "gantry";
import { isRecord } from "gantry/plugin";
import type { Adapter } from "lowdb";
import { readJson, syncFolder } from "./files.js";
import { LAYOUT_VERSION } from "./layout.js";

export interface ChainFileDocument {
  version: number;
  /** Null in memory if the document was deleted after the last write of the file. Never null in a file. */
  value: unknown;
}

/** A file in the store's folder: all documents of a chain, by key. */
export interface ChainFile {
  version: number;
  /** Id of the chain's first session. */
  chain: string;
  /** Version of the last change of the chain that the file contains. */
  upTo: number;
  documents: Record<string, ChainFileDocument>;
}

/** lowdb adapter for a chain's file. Readers, also after a crash, find either the old file or the new file. */
export class ChainFileAdapter implements Adapter<ChainFile> {
  readonly #tempPath: string;

  /**
   * `shouldReplace` is called when the new file is on disk, right before the new file replaces the old file. False
   * keeps the old file.
   */
  constructor(
    readonly path: string,
    tempFolder: string,
    readonly shouldReplace: () => Promise<boolean>,
  ) {
    this.#tempPath = join(tempFolder, basename(path));
  }

  async read(): Promise<ChainFile> {
    const file = readChainFile(this.path);
    if (!file) throw createDamagedError(this.path, "it is missing");
    return Promise.resolve(file);
  }

  async write(file: ChainFile): Promise<void> {
    const storedEntries = Object.entries(file.documents).filter(([, { value }]) => value !== null);
    const text = JSON.stringify({ ...file, documents: Object.fromEntries(storedEntries) }, undefined, 1);
    try {
      await writeFile(this.#tempPath, text, { mode: 0o600, flush: true });
    } catch (error) {
      // A partial file would take up the space that is left on a full disk.
      await rm(this.#tempPath, { force: true });
      throw error;
    }
    if (await this.shouldReplace()) renameSync(this.#tempPath, this.path);
    await syncFolder(dirname(this.path));
  }
}

/** Reads a chain's file; undefined for a missing file. Throws `StoreError` for an unusable file. */
export function readChainFile(path: string): ChainFile | undefined {
  let file: unknown;
  try {
    file = readJson(path);
  } catch (error) {
    throw createDamagedError(path, String(error));
  }
  if (file !== undefined && !isChainFile(file))
    throw createDamagedError(path, `expected documents of layout ${LAYOUT_VERSION}`);
  for (const [key, document] of Object.entries(file?.documents ?? {}))
    document.value = currentDocument(key, document.value);
  return file;
}

/** Error for an unusable chain file. */
export function createDamagedError(path: string, reason: string): StoreError {
  return new StoreError(
    `the session's file ${path} is damaged and was not modified (${reason}); restore it from a copy, or delete the session`,
  );
}

function isChainFile(file: unknown): file is ChainFile {
  return (
    isRecord(file) &&
    file["version"] === LAYOUT_VERSION &&
    typeof file["chain"] === "string" &&
    typeof file["upTo"] === "number" &&
    isRecord(file["documents"]) &&
    Object.values(file["documents"]).every((document) => isRecord(document) && typeof document["version"] === "number")
  );
}
