import { DocumentDriver, LookingNotifier } from "gantry/plugin";
import type { Logger } from "gantry";
import type { DocumentChange, DocumentStore } from "gantry/plugin";
import { JsonDocuments } from "./documents.js";
import type { LowdbJsonOptions } from "./options.js";

/** Sessions in one JSON file each, that any number of processes share. */
export class LowdbJsonDriver extends DocumentDriver {
  constructor(options: LowdbJsonOptions, logger?: Logger) {
    const folder = new Folder(options, logger);
    // What others wrote is read from the log.
    const notifier = new LookingNotifier(() => folder.opened?.news() ?? false);
    super({ name: "json", where: options.path, documents: folder, notifier });
  }
}

/** A folder that can be opened again. */
class Folder implements DocumentStore {
  opened: JsonDocuments | undefined;

  constructor(
    readonly options: LowdbJsonOptions,
    readonly logger: Logger | undefined,
  ) {}

  async open(): Promise<void> {
    this.opened = await JsonDocuments.open(this.options, this.logger);
  }

  async close(): Promise<void> {
    const { opened } = this;
    this.opened = undefined;
    await opened?.close();
  }

  get = (keys: readonly string[]) => this.#store.get(keys);
  scan = (prefixes: readonly string[]) => this.#store.scan(prefixes);
  compareAndSet = (changes: readonly DocumentChange[], options: { sync: boolean }) =>
    this.#store.compareAndSet(changes, options);

  get #store(): JsonDocuments {
    if (!this.opened) throw new Error("not open");
    return this.opened;
  }
}
