/**
 * Notifies a process that other processes changed a store, without the details. A notification can come twice or
 * without a change. A notification follows every change: if messages between processes can get lost, the notifier also
 * sends a notification every second.
 */
export interface Notifier {
  /**
   * Reports that this process changed a chain; `rootId` is the id of the chain's original. Never throws and never
   * blocks.
   */
  publish(rootId: string): void;
  /**
   * Calls `hint`, usually within 250 ms, when another process may have changed the chain. Changes published by this
   * process need not be reported. The returned function unsubscribes. A subscription does not keep an otherwise idle
   * process alive.
   */
  subscribe(rootId: string, hint: () => void): () => void;
}
