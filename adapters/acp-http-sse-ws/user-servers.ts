import type { Agent, User } from "gantry";
import type { AcpServer } from "../acp-shared/index.js";

/** The ACP servers of a transport: one for each user with clients, and one for requests without a user. */
export class UserServers {
  readonly #agent: Agent;
  readonly #createServer: (agent: Agent) => AcpServer;
  /** An entry is released with its user. */
  readonly #agents = new WeakMap<User, Agent>();
  readonly #commonServer: AcpServer;
  readonly #servers = new Map<User, { server: AcpServer; clientCount: number }>();

  constructor(agent: Agent, createServer: (agent: Agent) => AcpServer) {
    this.#agent = agent;
    this.#createServer = createServer;
    this.#commonServer = createServer(agent);
  }

  /** Prepares `open` for a user. Rejects like `Agent.forUser`. */
  async prepare(user: User): Promise<void> {
    this.#agents.set(user, await this.#agent.forUser(user));
  }

  /**
   * Returns the server for a new client of a user for whom `prepare` has resolved, or of requests without a user. Call
   * `release` when the client is closed.
   */
  open(user: User | undefined): { server: AcpServer; release: () => void } {
    if (!user) return { server: this.#commonServer, release: () => undefined };
    const agent = this.#agents.get(user);
    if (!agent) throw new TypeError("no agent was prepared for the user");
    const entry = this.#servers.get(user) ?? { server: this.#createServer(agent), clientCount: 0 };
    entry.clientCount += 1;
    this.#servers.set(user, entry);
    const release = (): void => {
      entry.clientCount -= 1;
      void entry.server.waitForIdle().then(() => {
        if (entry.clientCount > 0 || this.#servers.get(user) !== entry) return undefined;
        this.#servers.delete(user);
        return entry.server.close();
      });
    };
    return { server: entry.server, release };
  }

  async drain(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#list().map((server) => server.drain(signal)));
  }

  async close(): Promise<void> {
    await Promise.all(this.#list().map((server) => server.close()));
  }

  #list(): AcpServer[] {
    return [this.#commonServer, ...[...this.#servers.values()].map(({ server }) => server)];
  }
}
