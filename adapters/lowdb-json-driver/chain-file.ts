import type { Adapter } from "lowdb";
import { StoreError } from "gantry";
import { isRecord } from "gantry/plugin";
import { textOf } from "./files.js";
import type { Files } from "./files.js";

/** Version of the files that this code reads and writes. */
export const VERSION = 4;

/** A document as a file has it. */
export interface FiledDocument {
  version: number;
  value: unknown;
}

/** A file under `sessions/`: all documents of a chain. */
export interface ChainFile {
  version: number;
  /** Id of the chain's original. */
  chain: string;
  /** Version of the store up to which the file has everything of its chain. */
  upTo: number;
  documents: Record<string, FiledDocument>;
}

/** That of a chain that has no file yet. */
export const NO_FILE: ChainFile = { version: VERSION, chain: "", upTo: 0, documents: {} };

/** Throws where a file is none that this code can use. */
export function readChainFile(path: string): ChainFile | undefined {
  const text = textOf(path);
  if (text === undefined) return undefined;
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch (error) {
    throw damaged(path, String(error));
  }
  if (!isChainFile(data)) throw damaged(path, `expected documents of version ${VERSION}`);
  return data;
}

function damaged(path: string, why: string): StoreError {
  return new StoreError(
    `the session's file ${path} is damaged and left as it is (${why}); restore it from a copy, or delete the session`,
  );
}

function isChainFile(data: unknown): data is ChainFile {
  return (
    isRecord(data) &&
    data["version"] === VERSION &&
    typeof data["chain"] === "string" &&
    typeof data["upTo"] === "number" &&
    isRecord(data["documents"]) &&
    Object.values(data["documents"]).every((one) => isRecord(one) && typeof one["version"] === "number")
  );
}

/** For lowdb: a chain's file, which is replaced whole. A reader, or a crash, finds the old one or the new one. */
export class ChainFileAdapter implements Adapter<ChainFile> {
  /** `replace` puts a temporary file in the place of the chain's. */
  constructor(
    readonly path: string,
    readonly files: Files,
    readonly replace: (temp: string) => Promise<void>,
  ) {}

  async read(): Promise<ChainFile | null> {
    return readChainFile(this.path) ?? null;
  }

  async write(file: ChainFile): Promise<void> {
    const temp = await this.files.prepare(JSON.stringify(file));
    try {
      await this.replace(temp);
    } finally {
      this.files.remove(temp);
    }
  }
}
