import type { Agent, User } from "gantry";
import type { AcpServer } from "../acp-shared/index.js";

/** The ACP servers of a transport: one for each user, and one for requests without a user. */
export class UserServers {
  readonly #agent: Agent;
  readonly #createServer: (agent: Agent) => AcpServer;
  readonly #servers = new Map<User | undefined, AcpServer>();

  constructor(agent: Agent, createServer: (agent: Agent) => AcpServer) {
    this.#agent = agent;
    this.#createServer = createServer;
    this.#servers.set(undefined, createServer(agent));
  }

  /** Creates the server of a user if there is none yet. Rejects like `Agent.forUser`. */
  async prepare(user: User): Promise<void> {
    const agent = await this.#agent.forUser(user);
    if (!this.#servers.has(user)) this.#servers.set(user, this.#createServer(agent));
  }

  /** The server of a user for whom `prepare` has resolved, or of requests without a user. */
  get(user: User | undefined): AcpServer {
    const server = this.#servers.get(user);
    if (!server) throw new TypeError("no server was prepared for the user");
    return server;
  }

  async drain(signal: AbortSignal): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.drain(signal)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }
}
