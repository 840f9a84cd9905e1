/**
 * Tells one process what others did to a store: that there is something new, never what. A hint may come twice, or for
 * nothing. None is lost: where messages between processes can be, the notifier gives one a second for nothing.
 */
export interface Notifier {
  /** A chain, by the id of its original, was changed by this process. Never throws, and waits for nothing. */
  publish(rootId: string): void;
  /**
   * Hear, as a rule within 250 ms, when others may have changed a chain. What this process published itself need not be
   * told. The returned function ends it; a process with nothing else to do ends although there are subscribers.
   */
  subscribe(rootId: string, hint: () => void): () => void;
}
