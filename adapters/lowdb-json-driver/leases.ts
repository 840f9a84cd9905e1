import { unlink } from "node:fs/promises";
import { isRecord, LeaseLostError } from "gantry";
import type { Holder, Lease, Logger } from "gantry";
import { unlessMissing } from "./errors.js";
import type { Files } from "./files.js";
import type { Layout } from "./layout.js";

interface Stored {
  root: string;
  fence: number;
  holder: Holder;
  expiresAt: string;
}

/** Leases on the disk, one file each; the fence is one counter for the whole store. Called under the chain's lock. */
export class Leases {
  readonly #layout: Layout;
  readonly #files: Files;
  readonly #logger: Logger | undefined;

  constructor(layout: Layout, files: Files, logger: Logger | undefined) {
    this.#layout = layout;
    this.#files = files;
    this.#logger = logger;
  }

  async check(root: string, fence: number | null): Promise<void> {
    if (fence === null) return;
    if ((await this.#read(root))?.fence !== fence) throw new LeaseLostError(root);
  }

  /** Who holds the lease of that fence, while its time runs. */
  async holderOf(root: string, fence: number | null): Promise<Holder | null> {
    const held = await this.#read(root);
    return held && held.fence === fence && Date.parse(held.expiresAt) > Date.now() ? held.holder : null;
  }

  /** `underFenceLock` runs what counts the fence. */
  async take(
    root: string,
    holder: Holder,
    ttlMs: number,
    replacing: string | undefined,
    underFenceLock: <T>(work: () => Promise<T>) => Promise<T>,
  ): Promise<Lease | { heldBy: Holder }> {
    const held = await this.#read(root);
    const mine = held?.holder.id === holder.id;
    if (held && !mine && Date.parse(held.expiresAt) > Date.now() && held.holder.id !== replacing) {
      return { heldBy: held.holder };
    }
    const fence = held && mine ? held.fence : await underFenceLock(() => this.#nextFence());
    const expiresAt = new Date(Date.now() + ttlMs).toISOString();
    const stored: Stored = { root, fence, holder, expiresAt };
    await this.#files.replace(this.#layout.lease(root), JSON.stringify(stored));
    return { rootId: root, holder: { ...holder }, fence, expiresAt };
  }

  /** Whether it was still held. */
  async release(lease: Lease): Promise<boolean> {
    if ((await this.#read(lease.rootId))?.fence !== lease.fence) return false;
    await unlessMissing(unlink(this.#layout.lease(lease.rootId)));
    return true;
  }

  async #read(root: string): Promise<Stored | undefined> {
    const stored = await this.#whole<Stored>(this.#layout.lease(root));
    // Whoever held it finds another fence with the next write.
    return isStored(stored) ? stored : undefined;
  }

  async #nextFence(): Promise<number> {
    const counter = this.#files.adapter<{ last: number }>(this.#layout.fence);
    const stored = (await this.#whole<{ last: number }>(this.#layout.fence))?.last;
    // One that is lost, or that somebody removed, goes on above all that it can ever have given.
    const last = stored !== undefined && Number.isSafeInteger(stored) ? stored : Date.now();
    await counter.write({ last: last + 1 });
    return last + 1;
  }

  /** What a file says; undefined when there is none, and, reported, when it is damaged. */
  async #whole<T>(path: string): Promise<T | undefined> {
    try {
      return (await this.#files.adapter<T>(path).read()) ?? undefined;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#logger?.warn("a file beside the sessions is damaged; it is written anew", { path, why: error.message });
      return undefined;
    }
  }
}

function isStored(value: Stored | undefined): value is Stored {
  return typeof value === "object" && value !== null && Number.isSafeInteger(value.fence) && isRecord(value.holder);
}
