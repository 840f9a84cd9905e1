import { realpathSync } from "node:fs";
import { createFolder, DocumentDriver, LocalNotifiers, type DocumentChange, type DocumentStore } from "gantry/plugin";
import type { Logger } from "gantry";
import { JsonDocuments } from "./json-documents.js";
import type { LowdbJsonOptions } from "./options.js";

/** Hints name sessions, whose ids are unique: drivers on several stores can share it. */
const notifiers = new LocalNotifiers();

/** Sessions in one JSON file each, for one process. Drivers of that process on one folder share a store. */
export class LowdbJsonDriver extends DocumentDriver {
  constructor(options: LowdbJsonOptions, logger?: Logger) {
    const documents = new SharedDocuments(options, logger);
    super({ name: "json", where: options.path, documents, notifier: notifiers.create() });
  }
}

/** A store that this process has open, opens or closes. */
interface OpenStore {
  drivers: number;
  opened: Promise<JsonDocuments>;
  closed?: Promise<void>;
}

/** By their real path. */
const openStores = new Map<string, OpenStore>();

/** The documents of a folder, which the first driver opens and the last one closes. */
class SharedDocuments implements DocumentStore {
  #documents: JsonDocuments | undefined;
  #path = "";

  constructor(
    readonly options: LowdbJsonOptions,
    readonly logger: Logger | undefined,
  ) {}

  async open(): Promise<void> {
    createFolder(this.options.path);
    this.#path = realpathSync(this.options.path);
    let store = openStores.get(this.#path);
    for (; store?.closed; store = openStores.get(this.#path)) await store.closed;
    store ??= { drivers: 0, opened: JsonDocuments.open(this.#path, this.logger) };
    store.drivers += 1;
    openStores.set(this.#path, store);
    try {
      this.#documents = await store.opened;
    } catch (error) {
      openStores.delete(this.#path);
      throw error;
    }
  }

  async close(): Promise<void> {
    const store = openStores.get(this.#path);
    if (!store || --store.drivers > 0) return;
    store.closed = this.#opened.close().finally(() => openStores.delete(this.#path));
    await store.closed;
  }

  get = (keys: readonly string[]) => this.#opened.get(keys);
  scan = (prefixes: readonly string[]) => this.#opened.scan(prefixes);
  compareAndSet = (changes: readonly DocumentChange[], { sync }: { sync: boolean }) =>
    this.#opened.compareAndSet(changes, { sync: sync && this.options.durability !== "normal" });

  get #opened(): JsonDocuments {
    if (!this.#documents) throw new Error("not open");
    return this.#documents;
  }
}
