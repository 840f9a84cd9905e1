import type { Agent } from "../agent/agent.js";

/** Connects clients to an agent, for example by HTTP, stdio or a socket. */
export interface Transport {
  readonly name: string;
  /** Serves `agent`. Resolves when clients can connect. Rejects if the start fails, and leaves nothing open. */
  start(agent: Agent): Promise<Listening>;
}

/** A running transport. */
export interface Listening {
  /** Printable address for clients: a URL, or `stdio`. */
  readonly address: string;
  /** Settles when serving has ended, requested or not. Rejects only on a fault. */
  readonly ended: Promise<void>;
  /**
   * Rejects new work and waits for running work until `signal` aborts, then cancels it. Resolves when everything is
   * closed. Safe to call twice.
   */
  stop(signal: AbortSignal): Promise<void>;
}
