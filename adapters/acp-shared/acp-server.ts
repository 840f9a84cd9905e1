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
  readonly #isOverloaded: (() => boolean) | undefined;
  readonly #turns = new Turns();
  readonly #drainController = new AbortController();
  readonly #connections = new Set<AcpConnection>();
  /** Promises of disconnected clients whose watches have not ended yet. */
  readonly #pendingCloses = new Set<Promise<void>>();
  readonly #unsubscribers: (() => void)[];

  /** `isOverloaded`: whether requests that start work are refused now. Default: never. */
  constructor(agent: Agent, options: AcpOptions, logger: Logger, isOverloaded?: () => boolean) {
    this.#agent = agent;
    this.#options = options;
    this.#logger = logger;
    this.#isOverloaded = isOverloaded;
    this.#unsubscribers = [
      agent.on("session.updated", ({ session }) => {
        for (const connection of this.#connections) connection.reportSession(session);
      }),
      agent.on("session.deleted", ({ ids }) => {
        for (const connection of this.#connections) for (const id of ids) connection.handleDeletion(id);
      }),
    ];
  }

  /** Adds a client; its messages are sent to `sink`. */
  connect(sink: Sink): AcpConnection {
    const dependencies = {
      agent: this.#agent,
      options: this.#options,
      logger: this.#logger,
      turns: this.#turns,
      drainSignal: this.#drainController.signal,
      isOverloaded: this.#isOverloaded,
    };
    const connection = new AcpConnection(dependencies, sink);
    this.#connections.add(connection);
    return connection;
  }

  /** Removes a client and cancels its prompts. Stored messages stay. */
  disconnect(connection: AcpConnection): void {
    this.#connections.delete(connection);
    const watchesEnded = connection.close();
    this.#pendingCloses.add(watchesEnded);
    void watchesEnded.finally(() => this.#pendingCloses.delete(watchesEnded));
  }

  /**
   * Rejects new prompts and waits for the answers to all requests. Cancels the remaining requests when `signal` aborts.
   */
  async drain(signal: AbortSignal): Promise<void> {
    this.#drainController.abort();
    const cancel = () => {
      for (const connection of this.#connections) connection.cancelAll();
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    await Promise.all([...this.#connections].map((connection) => connection.waitForIdle()));
    signal.removeEventListener("abort", cancel);
  }

  /** Closes every connection and waits for the runs to end. */
  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribers.splice(0)) unsubscribe();
    for (const connection of [...this.#connections]) this.disconnect(connection);
    await this.waitForIdle();
  }

  /** Resolves when the runs of all prompts and the watches of all disconnected clients have ended. Never rejects. */
  async waitForIdle(): Promise<void> {
    await Promise.all([this.#turns.waitForIdle(), ...this.#pendingCloses]);
  }
}
