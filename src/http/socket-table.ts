import { open, type FileHandle } from "node:fs/promises";

/** The kernel hands out less at once. */
const PIECE = 16 * 1024;

interface Search {
  readonly entry: string;
  readonly found: (uid: string | undefined) => void;
}

/**
 * One of the kernel's tables of sockets. To learn that it has ended takes the kernel milliseconds, however few its lines: it
 * has room for many. So it is read no further than needed, and by one reading for all who asked before it began.
 */
export class SocketTable {
  readonly #file: string;
  #waiting: Search[] = [];
  #reading = false;

  constructor(file: string) {
    this.#file = file;
  }

  /** The user of the socket whose line has this `entry`, as it is after now: "" where there is none, undefined where the table is hidden. */
  ownerOf(entry: string): Promise<string | undefined> {
    return new Promise((found) => {
      this.#waiting.push({ entry, found });
      if (!this.#reading) void this.#readAll();
    });
  }

  async #readAll(): Promise<void> {
    this.#reading = true;
    while (this.#waiting.length > 0) await this.#read(this.#waiting.splice(0));
    this.#reading = false;
  }

  /** Never rejects. */
  async #read(searches: Search[]): Promise<void> {
    let left = searches;
    let table: FileHandle | undefined;
    try {
      table = await open(this.#file);
      const piece = Buffer.allocUnsafe(PIECE);
      for (let text = ""; left.length > 0; text = text.slice(text.lastIndexOf("\n") + 1)) {
        const { bytesRead } = await table.read(piece);
        if (bytesRead === 0) break;
        text += piece.toString("latin1", 0, bytesRead);
        const lines = text.slice(0, text.lastIndexOf("\n") + 1);
        left = left.filter(({ entry, found }) => {
          const uid = ownerIn(lines, entry);
          if (uid !== undefined) found(uid);
          return uid === undefined;
        });
      }
      for (const { found } of left) found("");
    } catch {
      for (const { found } of left) found(undefined);
    } finally {
      await table?.close().catch(() => undefined);
    }
  }
}

function ownerIn(lines: string, entry: string): string | undefined {
  for (let at = lines.indexOf(entry); at !== -1; at = lines.indexOf(entry, at + 1)) {
    const [, , , , uid, , inode] = lines.slice(at + entry.length, at + entry.length + 200).split(/\s+/);
    // One whose process has let go of it belongs to nobody, and reads as root's.
    if (inode !== "0") return uid;
  }
  return undefined;
}
