import { open, type FileHandle } from "node:fs/promises";

/** The kernel hands out less at once. */
const PIECE = 16 * 1024;

/**
 * User and inode of a socket; `none` if no process holds it, or a passing error kept the table from being read; `hidden` if
 * the system does not show the table.
 */
export type SocketOwner = { readonly uid: number; readonly inode: string } | "none" | "hidden";

interface Search {
  readonly entry: string;
  readonly found: (owner: SocketOwner) => void;
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

  /** The owner of the socket whose line has this `entry`, not older than the call. Never rejects. */
  ownerOf(entry: string): Promise<SocketOwner> {
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
          const owner = ownerIn(lines, entry);
          if (owner !== undefined) found(owner);
          return owner === undefined;
        });
      }
      for (const { found } of left) found("none");
    } catch (error) {
      const isHidden = /^(EACCES|ENOENT|EPERM)$/.test((error as NodeJS.ErrnoException).code ?? "");
      // A client can cause other errors: it opens so many connections that no file can be opened any more.
      for (const { found } of left) found(isHidden ? "hidden" : "none");
    } finally {
      await table?.close().catch(() => undefined);
    }
  }
}

function ownerIn(lines: string, entry: string): SocketOwner | undefined {
  for (let at = lines.indexOf(entry); at !== -1; at = lines.indexOf(entry, at + 1)) {
    const [, , , , uid, , inode = "0"] = lines.slice(at + entry.length, at + entry.length + 200).split(/\s+/);
    // The kernel reports a socket that no process holds as root's, with inode 0.
    if (inode !== "0") return { uid: Number(uid), inode };
  }
  return undefined;
}
