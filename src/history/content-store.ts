import { createHash } from "node:crypto";
import { mkdir, open, readdir, rm, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

const MIB = 1024 * 1024;
/**
 * Maximum size of one pack file, in bytes. Content that does not fit starts a new pack, so that the oldest packs can be
 * removed.
 */
export const PACK_BYTES = 64 * MIB;

/** Position of a content: number of the pack, byte offset `at`, and size in bytes. */
export interface ContentLocation {
  pack: number;
  at: number;
  size: number;
}

/**
 * Stores the file contents of one session in a few append-only pack files. The oldest packs are removed when the byte
 * limit is exceeded.
 */
export class ContentStore {
  readonly #folder: string;
  readonly #limit: number;
  readonly #packBytes: number;

  constructor(folder: string, limit: number, packBytes = Math.min(PACK_BYTES, limit / 4)) {
    this.#folder = folder;
    this.#limit = limit;
    this.#packBytes = packBytes;
  }

  /**
   * Stores one content and returns its location once the content is on disk. Removes the oldest packs if the limit is
   * exceeded.
   */
  async add(content: Buffer): Promise<ContentLocation> {
    await this.#removeOldestPacks(await this.packs(), content.length);
    return this.addAll((add) => add(content));
  }

  /**
   * Runs `work`, which can store several contents. They are on disk when the promise resolves. Removes no packs,
   * because the same operation may need old contents; the next `add` does.
   */
  async addAll<T>(work: (add: (content: Buffer) => Promise<ContentLocation>) => Promise<T>): Promise<T> {
    const last = (await this.packs()).at(-1);
    let pack = last?.pack ?? 0;
    let file: FileHandle | undefined;
    const next = async (): Promise<void> => {
      await file?.sync();
      await file?.close();
      file = undefined;
    };
    try {
      const result = await work(async (content) => {
        for (;;) {
          file ??= await open(this.#pathOf(pack), "a+", 0o600);
          const { size: at } = await file.stat();
          if (at > 0 && at + content.length > this.#packBytes) {
            await next();
            pack++;
            continue;
          }
          await file.appendFile(content);
          const place = { pack, at, size: content.length };
          // If another process appended at the same time, this content may be at a later offset: verify it, and append
          // again if not.
          if ((await file.stat()).size === at + content.length || (await holds(file, place, content))) return place;
        }
      });
      await next();
      return result;
    } finally {
      await file?.close();
    }
  }

  /** Returns a stored content. Undefined if the pack was removed or the bytes do not match the hash. */
  async read({ pack, at, size }: ContentLocation, hash: string): Promise<Buffer | undefined> {
    const file = await open(this.#pathOf(pack), "r").catch(() => undefined);
    if (!file) return undefined;
    try {
      const content = Buffer.alloc(size);
      const { bytesRead } = size === 0 ? { bytesRead: 0 } : await file.read(content, 0, size, at);
      return bytesRead === size && hashOf(content) === hash ? content : undefined;
    } finally {
      await file.close();
    }
  }

  /** Lists the packs, oldest first. Creates the folder if it is missing. */
  async packs(): Promise<{ pack: number; bytes: number }[]> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const names = (await readdir(this.#folder)).filter((name) => /^\d+\.pack$/.test(name));
    const packs = await Promise.all(
      names.map(async (name) => ({ pack: parseInt(name, 10), bytes: (await stat(join(this.#folder, name))).size })),
    );
    return packs.sort((a, b) => a.pack - b.pack);
  }

  async #removeOldestPacks(packs: { pack: number; bytes: number }[], bytes: number): Promise<void> {
    let total = packs.reduce((sum, pack) => sum + pack.bytes, bytes);
    while (total > this.#limit && packs.length > 1) {
      const [oldest] = packs.splice(0, 1);
      if (!oldest) return;
      await rm(this.#pathOf(oldest.pack), { force: true });
      total -= oldest.bytes;
    }
  }

  #pathOf(pack: number): string {
    return join(this.#folder, `${pack}.pack`);
  }
}

async function holds(file: FileHandle, { at, size }: ContentLocation, content: Buffer): Promise<boolean> {
  const there = Buffer.alloc(size);
  await file.read(there, 0, size, at);
  return there.equals(content);
}

/** SHA-256 in hexadecimal: the key of a stored content. */
export function hashOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
