import { realpathSync } from "node:fs";
import { createFolder, DocumentDriver, LocalNotifiers, type DocumentChange, type DocumentStore } from "gantry/plugin";
import type { Logger } from "gantry";
import { JsonDocuments } from "./json-documents.js";
import type { LowdbJsonOptions } from "./options.js";

/** Shared by the drivers of all stores, because notifications contain unique session ids. */
const notifiers = new LocalNotifiers();

/** Stores sessions in one JSON file per chain, for one process. Drivers of that process on one folder share a store. */
export class LowdbJsonDriver extends DocumentDriver {
  constructor(options: LowdbJsonOptions, logger?: Logger) {
    const documents = new SharedDocuments(options, logger);
    super({ name: "json", location: options.path, documents, notifier: notifiers.create() });
  }
}

/** A store that this process has open, or is opening or closing. */
interface OpenStore {
  driverCount: number;
  openPromise: Promise<JsonDocuments>;
  /** Set while the store is closing. */
  closePromise?: Promise<void>;
}

/** The path is the real path, so that links to one folder share a store. */
const openStoresByPath = new Map<string, OpenStore>();

/** Documents of a folder. The first driver opens the documents, and the last driver closes them. */
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
    let store = openStoresByPath.get(this.#path);
    for (; store?.closePromise; store = openStoresByPath.get(this.#path)) await store.closePromise;
    store ??= { driverCount: 0, openPromise: JsonDocuments.open(this.#path, this.logger) };
    store.driverCount += 1;
    openStoresByPath.set(this.#path, store);
    try {
      this.#documents = await store.openPromise;
    } catch (error) {
      openStoresByPath.delete(this.#path);
      throw error;
    }
  }

  async close(): Promise<void> {
    const store = openStoresByPath.get(this.#path);
    if (!store || --store.driverCount > 0) return;
    store.closePromise = this.#openDocuments.close().finally(() => openStoresByPath.delete(this.#path));
    await store.closePromise;
  }

  probe = () => this.#openDocuments.probe();
  get = (keys: readonly string[]) => this.#openDocuments.get(keys);
  scan = (prefixes: readonly string[]) => this.#openDocuments.scan(prefixes);
  compareAndSet = (changes: readonly DocumentChange[], { sync }: { sync: boolean }) =>
    this.#openDocuments.compareAndSet(changes, { sync: sync && this.options.durability !== "normal" });

  get #openDocuments(): JsonDocuments {
    if (!this.#documents) throw new Error("not open");
    return this.#documents;
  }
}
