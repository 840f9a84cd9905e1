import type { Notifier } from "../ports/session-driver.js";
import { DocumentDriver } from "../sessions/documents/document-driver.js";
import { MemoryDocuments } from "../sessions/documents/memory-documents.js";

/** Driver that keeps sessions in memory until the process ends. Drivers with the same `documents` share a store. */
export class MemoryDriver extends DocumentDriver {
  declare readonly notifier: Notifier;

  constructor(documents: MemoryDocuments = new MemoryDocuments()) {
    super({ name: "memory", documents, notifier: documents.notifiers.create() });
  }
}
