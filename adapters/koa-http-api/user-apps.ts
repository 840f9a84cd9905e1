import type { RequestListener } from "node:http";
import type { Agent, User } from "gantry";
import type { KoaHttpOptions } from "./options.js";

export type CreateApp = (agent: Agent, options: KoaHttpOptions) => Promise<RequestListener>;

/** The endpoints of the API for each user. They work with the agent for that user, so they need no own checks. */
export class UserApps {
  readonly #agent: Agent;
  readonly #options: KoaHttpOptions;
  readonly #createApp: CreateApp;
  readonly #apps = new WeakMap<User, Promise<RequestListener>>();

  constructor(agent: Agent, options: KoaHttpOptions, createApp: CreateApp) {
    this.#agent = agent;
    this.#options = options;
    this.#createApp = createApp;
  }

  load(user: User): Promise<RequestListener> {
    const app = this.#apps.get(user) ?? this.#createUserApp(user);
    this.#apps.set(user, app);
    return app;
  }

  async #createUserApp(user: User): Promise<RequestListener> {
    const projectRoots = user.projectRoots ?? this.#options.projectRoots;
    return this.#createApp(await this.#agent.forUser(user), { ...this.#options, projectRoots });
  }
}
