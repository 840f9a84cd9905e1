import { join } from "node:path";
import { isRecord } from "gantry";
import type { ChainData, Logger, Session, SessionData } from "gantry";
import { fileName, textOf } from "./files.js";
import type { Files } from "./files.js";

/** Version of the files that this code reads and writes. */
export const VERSION = 2;

/** A file under `sessions/`: a chain. `v` counts its changes, so that it is known which lines of the log it holds. */
export interface ChainFile extends ChainData {
  version: number;
  v: number;
}

/** A session with what one lacks that an earlier version wrote. */
export function completed(session: Session): Session {
  return { ...({ mode: "auto", leave: [], cuts: [], spawnedBy: null } satisfies Partial<Session>), ...session };
}

/** The files of chains, one each. */
export class ChainFiles {
  readonly #reported = new Set<string>();

  constructor(
    readonly path: string,
    readonly files: Files,
    readonly low: Pick<typeof import("lowdb"), "Low" | "LowSync">,
    readonly logger: Logger | undefined,
  ) {}

  readonly pathOf = (root: string): string => join(this.path, fileName(root));

  /** So that a power cut does not undo a change of their names. */
  syncFolder(): void {
    this.files.syncFolder(this.path);
  }

  /** A chain's file; undefined, and reported, when it cannot be used. Such a one is kept. */
  read(path: string): ChainFile | undefined {
    try {
      const read = (): ChainFile | null => JSON.parse(textOf(path) ?? "null") as ChainFile | null;
      const low = new this.low.LowSync<ChainFile | null>({ read, write: () => undefined }, null);
      low.read();
      if (low.data === null) return undefined;
      const { version, sessions } = low.data;
      const sound = ({ session: { id, updatedAt, usage, chain } }: SessionData): boolean =>
        [id, updatedAt, chain.root].every((text) => typeof text === "string") && isRecord(usage);
      if (version === VERSION && sessions.every(sound)) {
        // An earlier version knew less.
        const { asks = [] } = low.data as Partial<ChainFile>;
        for (const stored of sessions) stored.session = completed(stored.session);
        return { ...low.data, asks };
      }
      throw new Error(`expected a session of version ${VERSION}`);
    } catch (error) {
      const message = "a session's file cannot be used; it is left out and left as it is";
      if (!this.#reported.has(path)) this.logger?.error(message, { path, why: String(error) });
      this.#reported.add(path);
      return undefined;
    }
  }

  /** Put a chain's file in place; gives its length. */
  write(root: string, file: ChainFile): number {
    const text = JSON.stringify(file);
    const write = (): void => this.files.replace(this.pathOf(root), text);
    new this.low.LowSync<ChainFile>({ read: () => null, write }, file).write();
    return text.length;
  }

  /** The same as a temporary file, which is on the disk when it resolves. What it says is read in the call itself. */
  async prepare(file: ChainFile): Promise<{ temp: string; length: number }> {
    const text = JSON.stringify(file);
    let temp = "";
    const write = async (): Promise<void> => {
      temp = await this.files.prepare(text);
    };
    await new this.low.Low<ChainFile>({ read: () => Promise.resolve(null), write }, file).write();
    return { temp, length: text.length };
  }
}
