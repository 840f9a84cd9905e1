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
  readonly #maxBytes: number;
  readonly #packBytes: number;

  /** The default pack size keeps several packs within the limit, so that a removal drops only the oldest contents. */
  constructor(folder: string, maxBytes: number, packBytes = Math.min(PACK_BYTES, maxBytes / 4)) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
    this.#packBytes = packBytes;
  }

  /**
   * Stores one content and returns its location once the content is on disk. Removes the oldest packs if the limit is
   * exceeded.
   */
  async add(content: Buffer): Promise<ContentLocation> {
    await this.#removeOldestPacks(await this.listPacks(), content.length);
    return this.addAll((add) => add(content));
  }

  /**
   * Runs `work`, which can store several contents. The contents are on disk when the promise resolves. Removes no
   * packs, because the same operation may need old contents; the next `add` removes packs.
   */
  async addAll<T>(work: (add: (content: Buffer) => Promise<ContentLocation>) => Promise<T>): Promise<T> {
    const lastPack = (await this.listPacks()).at(-1);
    let pack = lastPack?.pack ?? 0;
    let file: FileHandle | undefined;
    const closePack = async (): Promise<void> => {
      await file?.sync();
      await file?.close();
      file = undefined;
    };
    try {
      const result = await work(async (content) => {
        for (;;) {
          file ??= await open(this.#pathOf(pack), "a+", 0o600);
          const { size: offset } = await file.stat();
          if (offset > 0 && offset + content.length > this.#packBytes) {
            await closePack();
            pack++;
            continue;
          }
          await file.appendFile(content);
          const location = { pack, at: offset, size: content.length };
          // If another process appended at the same time, this content may be at a later offset: verify it, and append
          // again if not.
          if ((await file.stat()).size === offset + content.length || (await hasContentAt(file, location, content)))
            return location;
        }
      });
      await closePack();
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
  async listPacks(): Promise<{ pack: number; bytes: number }[]> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const names = (await readdir(this.#folder)).filter((name) => /^\d+\.pack$/.test(name));
    const packs = await Promise.all(
      names.map(async (name) => ({ pack: parseInt(name, 10), bytes: (await stat(join(this.#folder, name))).size })),
    );
    return packs.sort((left, right) => left.pack - right.pack);
  }

  async #removeOldestPacks(packs: { pack: number; bytes: number }[], bytes: number): Promise<void> {
    let totalBytes = packs.reduce((sum, pack) => sum + pack.bytes, bytes);
    while (totalBytes > this.#maxBytes && packs.length > 1) {
      const [oldestPack] = packs.splice(0, 1);
      if (!oldestPack) return;
      await rm(this.#pathOf(oldestPack.pack), { force: true });
      totalBytes -= oldestPack.bytes;
    }
  }

  #pathOf(pack: number): string {
    return join(this.#folder, `${pack}.pack`);
  }
}

async function hasContentAt(file: FileHandle, { at, size }: ContentLocation, content: Buffer): Promise<boolean> {
  const storedBytes = Buffer.alloc(size);
  await file.read(storedBytes, 0, size, at);
  return storedBytes.equals(content);
}

/** Returns the SHA-256 in hexadecimal: the key of a stored content. */
export function hashOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
