import type { Agent } from "../agent/agent.js";

/** How clients reach an agent: HTTP, stdio, a socket, a test double. */
export interface Transport {
  readonly name: string;
  /** Serve `agent`. Resolves once clients can connect; rejects if they never will, leaving nothing open. */
  start(agent: Agent): Promise<Listening>;
}

/** A transport that clients can connect to, from its start to its stop. */
export interface Listening {
  /** Printable place where clients connect: a URL, or `stdio`. */
  readonly address: string;
  /** Settles when serving has ended, asked for or not. Rejects only on a fault. */
  readonly ended: Promise<void>;
  /** Refuse new work, let running work finish until `signal` aborts, then cancel it. Resolves when all is closed. Safe to call twice. */
  stop(signal: AbortSignal): Promise<void>;
}
