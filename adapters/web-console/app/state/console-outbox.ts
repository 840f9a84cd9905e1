import { signal, type ReadonlySignal } from "@preact/signals";
import type { ApiRunInput, GantryClient, RunAccepted } from "gantry/client";
import { listenToStored, readStored, writeStored } from "./browser-storage.js";
import { createRandomId } from "./random-id.js";

/** A text that the user has sent and that is in no message of the session yet. */
export interface OutboxEntry {
  readonly id: string;
  /** `""` for a new session. */
  readonly sessionId: string;
  readonly kind: "prompt" | "steer";
  readonly text: string;
  /** `seq` of the newest message when the text was sent. */
  readonly after: number;
  /** `""` before the server's answer. */
  readonly runId: string;
  /** Time of the request, in ms since 1970. */
  readonly sentAt: number;
  /** The browser tab that sent the text. */
  readonly tabId: string;
  /** Request and idempotency key of a prompt without files. After a reload, the page can send the same request again. */
  readonly request?: { readonly body: ApiRunInput; readonly key: string };
  /** Whether the text waits for the user's choice, because its run ended before it was read. */
  readonly isHeld?: boolean;
}

const STORAGE_KEY = "gantry.outbox";
const TAB_KEY = "gantry.tab";
/** Maximum number of entries. The oldest entries are dropped. */
const MAX_ENTRIES = 300;
/** Age after which another tab may recover an unanswered request, in ms. */
const ABANDONED_AFTER_MS = 30_000;

/**
 * The texts that this browser has sent, until they are in a message. All windows share the list, which outlives the
 * page and the server.
 */
export class ConsoleOutbox {
  readonly #entries = signal<readonly OutboxEntry[]>(readEntries());
  readonly #tabId = readTabId();
  /** Ids of entries whose request this page has sent without an answer so far. */
  readonly #requestIds = new Set<string>();

  constructor() {
    listenToStored(STORAGE_KEY, () => (this.#entries.value = readEntries()));
  }

  /** All entries, oldest first. */
  get entries(): ReadonlySignal<readonly OutboxEntry[]> {
    return this.#entries;
  }

  /** Entries of a session, oldest first. Subscribes the caller to changes. */
  getEntries(sessionId: string): OutboxEntry[] {
    return this.#entries.value.filter((entry) => entry.sessionId === sessionId);
  }

  /**
   * Stores a text, then sends its request. Rejects like `send` with the entry removed. Resolves with undefined if the
   * request failed and another window has already returned the text to the user.
   */
  async deliver<T extends { run_id: string; session_id?: string }>(
    fields: Pick<OutboxEntry, "sessionId" | "kind" | "text" | "after" | "request">,
    send: () => Promise<T>,
  ): Promise<T | undefined> {
    const entry = { ...fields, id: createRandomId(), runId: "", sentAt: Date.now(), tabId: this.#tabId };
    // Before the entry is visible, so that no reader of the list sends the request again.
    this.#requestIds.add(entry.id);
    if (entry.text.trim() !== "") this.#put(entry);
    return this.#sendEntry(entry, send);
  }

  /** Whether the request of an entry has no answer and no page that waits for the answer. */
  isAbandoned({ id, runId, tabId, sentAt }: OutboxEntry): boolean {
    return (
      runId === "" &&
      !this.#requestIds.has(id) &&
      (tabId === this.#tabId || Math.abs(Date.now() - sentAt) > ABANDONED_AFTER_MS)
    );
  }

  /** Whether this tab sent the entry. */
  isOwn({ tabId }: OutboxEntry): boolean {
    return tabId === this.#tabId;
  }

  /** Sends an abandoned request again, with its key, so that the server executes it once. Rejects like `deliver`. */
  async repeat(client: GantryClient, entry: OutboxEntry): Promise<RunAccepted | undefined> {
    const { request } = entry;
    if (!request) return undefined;
    return this.#sendEntry(entry, () => client.start(request.body, { key: request.key }));
  }

  /** Removes an entry. Returns false if another caller or window has removed it. */
  take(id: string): boolean {
    const entries = readEntries();
    const otherEntries = entries.filter((entry) => entry.id !== id);
    this.#save(otherEntries);
    return otherEntries.length < entries.length;
  }

  /** Marks an entry as held, if it still exists. */
  hold(id: string): void {
    this.#update(id, { isHeld: true });
  }

  /** Adds a text that waits for the user's choice. */
  addHeld(sessionId: string, text: string): void {
    const fields = { kind: "prompt", after: Number.MAX_SAFE_INTEGER, runId: "", isHeld: true } as const;
    this.#put({ ...fields, id: createRandomId(), sessionId, text, sentAt: Date.now(), tabId: this.#tabId });
  }

  async #sendEntry<T extends { run_id: string; session_id?: string }>(
    entry: OutboxEntry,
    send: () => Promise<T>,
  ): Promise<T | undefined> {
    this.#requestIds.add(entry.id);
    try {
      const answer = await send();
      const { run_id: runId, session_id: newSessionId = "" } = answer;
      this.#update(entry.id, { runId, sessionId: entry.sessionId || newSessionId });
      return answer;
    } catch (error) {
      if (!this.take(entry.id) && entry.text.trim() !== "") return undefined;
      throw error;
    } finally {
      this.#requestIds.delete(entry.id);
    }
  }

  #put(entry: OutboxEntry): void {
    this.#save([...readEntries(), entry]);
  }

  #update(id: string, fields: Partial<OutboxEntry>): void {
    this.#save(readEntries().map((entry) => (entry.id === id ? { ...entry, ...fields } : entry)));
  }

  #save(entries: readonly OutboxEntry[]): void {
    const keptEntries = entries.slice(-MAX_ENTRIES);
    writeStored(STORAGE_KEY, keptEntries.length === 0 ? undefined : keptEntries);
    this.#entries.value = keptEntries;
  }
}

function readEntries(): readonly OutboxEntry[] {
  const storedEntries = readStored(STORAGE_KEY);
  return Array.isArray(storedEntries) ? storedEntries.filter(isEntry) : [];
}

function isEntry(value: unknown): value is OutboxEntry {
  const { id, sessionId, kind, text, after, runId, sentAt } = (value ?? {}) as Partial<OutboxEntry>;
  return (
    [id, sessionId, text, runId].every((field) => typeof field === "string") &&
    [after, sentAt].every((field) => typeof field === "number") &&
    (kind === "prompt" || kind === "steer")
  );
}

/** An id that a reload of the tab does not change. */
function readTabId(): string {
  try {
    const tabId = sessionStorage.getItem(TAB_KEY) ?? createRandomId();
    sessionStorage.setItem(TAB_KEY, tabId);
    return tabId;
  } catch {
    return createRandomId();
  }
}
