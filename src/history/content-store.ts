import { createHash } from "node:crypto";
import { mkdir, open, readdir, rm, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

const MIB = 1024 * 1024;
/** One file of contents; another is begun then, so that what is oldest can go. */
export const PACK_BYTES = 64 * MIB;

/** Where a content lies. */
export interface Place {
  pack: number;
  at: number;
  size: number;
}

/** The contents of one session's files, in a few files that only grow. The oldest go when there are too many bytes. */
export class KeptContents {
  readonly #folder: string;
  readonly #limit: number;
  readonly #packBytes: number;

  constructor(folder: string, limit: number, packBytes = Math.min(PACK_BYTES, limit / 4)) {
    this.#folder = folder;
    this.#limit = limit;
    this.#packBytes = packBytes;
  }

  /** On disk when it resolves; what is oldest goes for it. */
  async add(content: Buffer): Promise<Place> {
    await this.#makeRoom(await this.packs(), content.length);
    return this.addAll((add) => add(content));
  }

  /** Several, on disk when it resolves. Nothing goes for them, since it may be needed with them: the next `add` makes room. */
  async addAll<T>(work: (add: (content: Buffer) => Promise<Place>) => Promise<T>): Promise<T> {
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
          // Where another process wrote there meanwhile, it lies behind that.
          if ((await file.stat()).size === at + content.length || (await holds(file, place, content))) return place;
        }
      });
      await next();
      return result;
    } finally {
      await file?.close();
    }
  }

  /** Undefined where it is gone, or is another than it was. */
  async read({ pack, at, size }: Place, hash: string): Promise<Buffer | undefined> {
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

  /** Oldest first. */
  async packs(): Promise<{ pack: number; bytes: number }[]> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const names = (await readdir(this.#folder)).filter((name) => /^\d+\.pack$/.test(name));
    const found = await Promise.all(
      names.map(async (name) => ({ pack: parseInt(name, 10), bytes: (await stat(join(this.#folder, name))).size })),
    );
    return found.sort((a, b) => a.pack - b.pack);
  }

  async #makeRoom(packs: { pack: number; bytes: number }[], bytes: number): Promise<void> {
    let total = packs.reduce((sum, one) => sum + one.bytes, bytes);
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

async function holds(file: FileHandle, { at, size }: Place, content: Buffer): Promise<boolean> {
  const there = Buffer.alloc(size);
  await file.read(there, 0, size, at);
  return there.equals(content);
}

/** By which contents are told apart. */
export function hashOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
