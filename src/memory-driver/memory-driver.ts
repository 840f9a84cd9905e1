import type { Notifier } from "../ports/notifier.js";
import { DocumentDriver } from "../sessions/documents/document-driver.js";
import { MemoryDocuments } from "../sessions/documents/memory-documents.js";

/** Sessions in memory, which end with the process. Drivers that are given the same documents share a store. */
export class MemoryDriver extends DocumentDriver {
  declare readonly notifier: Notifier;

  constructor(documents: MemoryDocuments = new MemoryDocuments()) {
    super({ name: "memory", documents, notifier: documents.notifiers.create() });
  }
}
