import { NotFoundError, type ApiModel, type GantryClient } from "gantry/client";
import type { CommandEntry } from "./completion.js";
import { escapeLine } from "./text.js";

/** Models and slash commands of the agent. */
export class AgentCatalog {
  readonly #client: GantryClient;
  readonly #projectDir: string | undefined;
  readonly #signal: AbortSignal;
  #models: Promise<ApiModel[]> | undefined;

  constructor(client: GantryClient, projectDir: string | undefined, signal: AbortSignal) {
    this.#client = client;
    this.#projectDir = projectDir;
    this.#signal = signal;
  }

  /** Loads the slash commands of a session's agent. Excludes the names of `ownCommands`. */
  async loadCommands(sessionId: string | undefined, ownCommands: readonly CommandEntry[]): Promise<CommandEntry[]> {
    const ownNames = new Set(ownCommands.map(([name]) => name));
    const agentCommands = await this.#client
      .commands(sessionId === undefined ? { projectDir: this.#projectDir } : { sessionId }, { signal: this.#signal })
      // Older servers do not have this endpoint.
      .catch((error: unknown) => {
        if (error instanceof NotFoundError) return [];
        throw error;
      });
    return agentCommands
      .filter(({ name }) => escapeLine(name) === name && !ownNames.has(name))
      .map(({ name, description, hint }) => [name, escapeLine(`${description} ${hint}`.trim()), hint]);
  }

  /** Loads the models at the first use and caches the list. */
  loadModels(): Promise<ApiModel[]> {
    this.#models ??= this.#client.models({ signal: this.#signal }).catch((error: unknown) => {
      this.#models = undefined;
      throw error;
    });
    return this.#models;
  }
}
