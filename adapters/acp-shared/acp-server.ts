import type { Agent, Logger } from "gantry";
import { AcpConnection } from "./acp-connection.js";
import type { Sink } from "./dispatcher.js";
import type { AcpOptions } from "./options.js";
import { Turns } from "./turns.js";

/** The agent for ACP clients: the connections of one transport and their shared state. */
export class AcpServer {
  readonly #agent: Agent;
  readonly #options: AcpOptions;
  readonly #logger: Logger;
  readonly #turns = new Turns();
  readonly #refusing = new AbortController();
  readonly #connections = new Set<AcpConnection>();
  /** Watches of disconnected clients that have not ended yet. */
  readonly #closing = new Set<Promise<void>>();
  readonly #unsubscribe: (() => void)[];

  constructor(agent: Agent, options: AcpOptions, logger: Logger) {
    this.#agent = agent;
    this.#options = options;
    this.#logger = logger;
    this.#unsubscribe = [
      agent.on("session.updated", ({ session }) => {
        for (const connection of this.#connections) connection.updated(session);
      }),
      agent.on("session.deleted", ({ ids }) => {
        for (const connection of this.#connections) for (const id of ids) connection.deleted(id);
      }),
    ];
  }

  /** Adds a client; its messages are sent to `sink`. */
  connect(sink: Sink): AcpConnection {
    const parts = {
      agent: this.#agent,
      options: this.#options,
      logger: this.#logger,
      turns: this.#turns,
      refusing: this.#refusing.signal,
    };
    const connection = new AcpConnection(parts, sink);
    this.#connections.add(connection);
    return connection;
  }

  /** Removes a client: its prompts are cancelled, stored messages stay. */
  disconnect(connection: AcpConnection): void {
    this.#connections.delete(connection);
    const ended = connection.close();
    this.#closing.add(ended);
    void ended.finally(() => this.#closing.delete(ended));
  }

  /**
   * Rejects new prompts and waits for the answers to all requests. Cancels the remaining requests when `signal` aborts.
   */
  async drain(signal: AbortSignal): Promise<void> {
    this.#refusing.abort();
    const cancel = () => {
      for (const connection of this.#connections) connection.cancelAll();
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    await Promise.all([...this.#connections].map((connection) => connection.idle()));
    signal.removeEventListener("abort", cancel);
  }

  /** Closes every connection and waits for the runs to end. */
  async close(): Promise<void> {
    for (const forget of this.#unsubscribe.splice(0)) forget();
    for (const connection of [...this.#connections]) this.disconnect(connection);
    await Promise.all([this.#turns.idle(), ...this.#closing]);
  }
}
