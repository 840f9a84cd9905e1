import { open, type FileHandle } from "node:fs/promises";

/** Size of the read buffer. The kernel returns fewer bytes per read. */
const BUFFER_BYTES = 16 * 1024;
/** Length of the part of a line after the addresses that contains the user and the inode. */
const OWNER_CHARACTERS = 200;

/**
 * User and inode of a socket.
 *
 * `none`: no process holds the socket, or a temporary error prevented reading the table. `hidden`: the system does not
 * show the table.
 */
export type SocketOwner = { readonly uid: number; readonly inode: string } | "none" | "hidden";

interface Search {
  /** Part of the table line of the socket to find: both addresses, as `PeerLookup` formats them. */
  readonly entry: string;
  readonly resolve: (owner: SocketOwner) => void;
}

/**
 * A socket table of the kernel.
 *
 * Reaching the end of the table takes milliseconds even with few lines, because the kernel scans its full capacity.
 * Each search therefore stops as early as possible and serves all callers that wait when it starts.
 */
export class SocketTable {
  readonly #file: string;
  #pendingSearches: Search[] = [];
  #isReading = false;

  constructor(file: string) {
    this.#file = file;
  }

  /** Finds the owner of the socket whose line contains `entry`. Reads the table after this call. Never rejects. */
  findOwner(entry: string): Promise<SocketOwner> {
    return new Promise((resolve) => {
      this.#pendingSearches.push({ entry, resolve });
      if (!this.#isReading) void this.#runSearches();
    });
  }

  async #runSearches(): Promise<void> {
    this.#isReading = true;
    while (this.#pendingSearches.length > 0) await this.#search(this.#pendingSearches.splice(0));
    this.#isReading = false;
  }

  /** Resolves each search as soon as its line is read. Never rejects. */
  async #search(searches: Search[]): Promise<void> {
    let remainingSearches = searches;
    let table: FileHandle | undefined;
    try {
      table = await open(this.#file);
      const buffer = Buffer.allocUnsafe(BUFFER_BYTES);
      for (let text = ""; remainingSearches.length > 0; text = text.slice(text.lastIndexOf("\n") + 1)) {
        const { bytesRead } = await table.read(buffer);
        if (bytesRead === 0) break;
        text += buffer.toString("latin1", 0, bytesRead);
        const lines = text.slice(0, text.lastIndexOf("\n") + 1);
        remainingSearches = remainingSearches.filter(({ entry, resolve }) => {
          const owner = findOwnerIn(lines, entry);
          if (owner !== undefined) resolve(owner);
          return owner === undefined;
        });
      }
      for (const { resolve } of remainingSearches) resolve("none");
    } catch (error) {
      const isHidden = /^(EACCES|ENOENT|EPERM)$/.test((error as NodeJS.ErrnoException).code ?? "");
      // A client can cause other errors, for example by opening so many connections that no file can be opened.
      for (const { resolve } of remainingSearches) resolve(isHidden ? "hidden" : "none");
    } finally {
      await table?.close().catch(() => undefined);
    }
  }
}

function findOwnerIn(lines: string, entry: string): SocketOwner | undefined {
  for (let entryStart = lines.indexOf(entry); entryStart !== -1; entryStart = lines.indexOf(entry, entryStart + 1)) {
    const ownerStart = entryStart + entry.length;
    const [, , , , uid, , inode = "0"] = lines.slice(ownerStart, ownerStart + OWNER_CHARACTERS).split(/\s+/);
    // The kernel reports a socket without a process as root's, with inode 0.
    if (inode !== "0") return { uid: Number(uid), inode };
  }
  return undefined;
}
