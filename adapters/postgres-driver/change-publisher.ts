import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "gantry";
import type { Connections } from "./connections.js";
import { describeError } from "./errors.js";

/** Minimum interval between two notification statements. Changes in between share the next statement. */
const PUBLISH_INTERVAL_MS = 50;
/** A server limits messages to 8,000 bytes. For more chains than this, a message contains `*` (any chain). */
const MAX_CHAINS_PER_MESSAGE = 400;
const CLOSE_TIMEOUT_MS = 1000;
/** Replaces the names in a message about too many chains. */
export const ANY_CHAIN = "*";

/** Sends notifications of changed chains to all processes, and reads the notifications of other processes. */
export class ChangePublisher {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #logger: Logger | undefined;
  readonly #senderId = randomBytes(6).toString("base64url");
  readonly #unpublishedNames = new Set<string>();
  #isClosed = false;
  #activePublish: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(connections: Connections, channel: string, logger: Logger | undefined) {
    this.#connections = connections;
    this.#channel = channel;
    this.#logger = logger;
  }

  publish(rootId: string): void {
    if (this.#isClosed) return;
    this.#unpublishedNames.add(this.#unpublishedNames.size < MAX_CHAINS_PER_MESSAGE ? toShortName(rootId) : ANY_CHAIN);
    if (this.#activePublish) return;
    // Keeps the process alive until the change is published.
    if (this.#timer) this.#timer.ref();
    else this.#activePublish = this.#publishAll();
  }

  /** Publishes pending changes, for a limited time. Never rejects. `open` resumes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const publishRemaining = async (): Promise<void> => {
      await this.#activePublish;
      if (this.#unpublishedNames.size > 0) await this.#publishAll();
    };
    await Promise.race([publishRemaining(), sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
  }

  open(): void {
    this.#isClosed = false;
  }

  /** Names in a message. Empty for a message of this process, which the server sends back. */
  readForeignNames(message: string): string[] {
    const [, senderId, names = ""] = /^([^:]*):(.*)$/.exec(message) ?? [];
    return senderId === undefined || senderId === this.#senderId ? [] : names.split(",");
  }

  /** Publishes all pending changes at once. If that fails, other processes find them within a second by polling. */
  async #publishAll(): Promise<void> {
    const names = this.#unpublishedNames.has(ANY_CHAIN) ? ANY_CHAIN : [...this.#unpublishedNames].join();
    this.#unpublishedNames.clear();
    try {
      // A separate commit without a sync: no other commit waits for it, and it need not survive a crash.
      await this.#connections.query(
        "SELECT pg_notify($1, $2), set_config('synchronous_commit', 'off', true)",
        [this.#channel, `${this.#senderId}:${names}`],
        "read",
      );
    } catch (error) {
      this.#logger?.debug("change notification not sent; other processes find it by polling", {
        reason: describeError(error).reason,
      });
    }
    this.#activePublish = undefined;
    if (this.#isClosed) return;
    const publishNext = (): void => {
      this.#timer = undefined;
      if (this.#unpublishedNames.size > 0) this.#activePublish = this.#publishAll();
    };
    this.#timer = setTimeout(publishNext, PUBLISH_INTERVAL_MS);
    if (this.#unpublishedNames.size === 0) this.#timer.unref();
  }
}

/** Returns a short name of fixed length, without user text. A collision only causes an unneeded notification. */
export function toShortName(rootId: string): string {
  return createHash("sha256").update(rootId).digest("base64url").slice(0, 16);
}
