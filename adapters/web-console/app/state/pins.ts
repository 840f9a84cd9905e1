import { computed, effect, signal, untracked, type ReadonlySignal } from "@preact/signals";
import { NotFoundError, type ApiSession, type GantryClient } from "gantry/client";
import { listenToStored, readStored, writeStored } from "./browser-storage.js";

const STORAGE_KEY = "gantry.pins";

/** The pinned sessions of this browser, the last pinned one first. */
export class Pins {
  readonly #client: GantryClient;
  readonly #ids = signal(readIds());
  readonly #listedSessions: ReadonlySignal<readonly ApiSession[]>;
  /** Pinned sessions that the list has not loaded. */
  readonly #fetchedSessions = signal<ReadonlyMap<string, ApiSession>>(new Map());
  readonly #requestedIds = new Set<string>();
  readonly sessions = computed(() =>
    this.#ids.value
      .flatMap(
        (id) =>
          this.#listedSessions.value.find((session) => session.id === id) ?? this.#fetchedSessions.value.get(id) ?? [],
      )
      .filter(({ archived }) => archived !== true),
  );

  constructor(client: GantryClient, listedSessions: ReadonlySignal<readonly ApiSession[]>) {
    this.#client = client;
    this.#listedSessions = listedSessions;
    listenToStored(STORAGE_KEY, () => (this.#ids.value = readIds()));
  }

  /** Loads pinned sessions that are not listed, until the returned function is called. */
  start(isListLoaded: ReadonlySignal<boolean>): () => void {
    return effect(() => {
      if (!isListLoaded.value) return;
      const listedIds = new Set(this.#listedSessions.value.map(({ id }) => id));
      for (const id of this.#ids.value) if (!listedIds.has(id)) untracked(() => void this.#fetch(id));
    });
  }

  has(id: string): boolean {
    return this.#ids.value.includes(id);
  }

  /** Pins or unpins a session. */
  toggle(session: ApiSession): void {
    const otherIds = readIds().filter((id) => id !== session.id);
    const isPinned = this.#ids.peek().includes(session.id);
    if (!isPinned) this.#fetchedSessions.value = new Map(this.#fetchedSessions.peek()).set(session.id, session);
    this.#store(isPinned ? otherIds : [session.id, ...otherIds]);
  }

  async #fetch(id: string): Promise<void> {
    if (this.#requestedIds.has(id)) return;
    this.#requestedIds.add(id);
    try {
      const session = await this.#client.sessions.get(id);
      this.#fetchedSessions.value = new Map(this.#fetchedSessions.peek()).set(id, session);
    } catch (error) {
      // Other errors leave the session out until the next load of the page.
      if (error instanceof NotFoundError) this.#store(readIds().filter((storedId) => storedId !== id));
    }
  }

  #store(ids: readonly string[]): void {
    this.#ids.value = ids;
    writeStored(STORAGE_KEY, ids.length > 0 ? ids : undefined);
  }
}

function readIds(): readonly string[] {
  const ids = readStored(STORAGE_KEY);
  return Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : [];
}
