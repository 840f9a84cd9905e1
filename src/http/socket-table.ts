import { open, type FileHandle } from "node:fs/promises";

/** Read buffer, in bytes. The kernel returns less per read. */
const BUFFER_BYTES = 16 * 1024;

/**
 * User and inode of a socket.
 *
 * `none`: no process holds it, or a temporary error prevented reading the table. `hidden`: the system does not show the
 * table.
 */
export type SocketOwner = { readonly uid: number; readonly inode: string } | "none" | "hidden";

interface Search {
  readonly entry: string;
  readonly resolve: (owner: SocketOwner) => void;
}

/**
 * A socket table of the kernel.
 *
 * Reaching the end of the table takes milliseconds even with few lines, because the kernel scans its full capacity.
 * Each read therefore stops as early as possible and serves all callers that wait when it starts.
 */
export class SocketTable {
  readonly #file: string;
  #waiting: Search[] = [];
  #reading = false;

  constructor(file: string) {
    this.#file = file;
  }

  /** Finds the owner of the socket whose line contains `entry`, as of this call or later. Never rejects. */
  findOwner(entry: string): Promise<SocketOwner> {
    return new Promise((resolve) => {
      this.#waiting.push({ entry, resolve });
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
    let openSearches = searches;
    let table: FileHandle | undefined;
    try {
      table = await open(this.#file);
      const piece = Buffer.allocUnsafe(BUFFER_BYTES);
      for (let text = ""; openSearches.length > 0; text = text.slice(text.lastIndexOf("\n") + 1)) {
        const { bytesRead } = await table.read(piece);
        if (bytesRead === 0) break;
        text += piece.toString("latin1", 0, bytesRead);
        const lines = text.slice(0, text.lastIndexOf("\n") + 1);
        openSearches = openSearches.filter(({ entry, resolve }) => {
          const owner = ownerIn(lines, entry);
          if (owner !== undefined) resolve(owner);
          return owner === undefined;
        });
      }
      for (const { resolve } of openSearches) resolve("none");
    } catch (error) {
      const isHidden = /^(EACCES|ENOENT|EPERM)$/.test((error as NodeJS.ErrnoException).code ?? "");
      // A client can cause other errors, for example by opening so many connections that no file can be opened.
      for (const { resolve } of openSearches) resolve(isHidden ? "hidden" : "none");
    } finally {
      await table?.close().catch(() => undefined);
    }
  }
}

function ownerIn(lines: string, entry: string): SocketOwner | undefined {
  for (let at = lines.indexOf(entry); at !== -1; at = lines.indexOf(entry, at + 1)) {
    const [, , , , uid, , inode = "0"] = lines.slice(at + entry.length, at + entry.length + 200).split(/\s+/);
    // The kernel reports a socket without a process as root's, with inode 0.
    if (inode !== "0") return { uid: Number(uid), inode };
  }
  return undefined;
}
