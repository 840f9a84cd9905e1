import type { RequestListener } from "node:http";
import type { Agent, User } from "gantry";
import type { KoaHttpOptions } from "./options.js";

type CreateApp = (agent: Agent, options: KoaHttpOptions) => Promise<RequestListener>;

/**
 * The endpoints of the API: one set for each user, and one for requests without a user. The endpoints of a user work
 * with the agent for that user, so they need no checks of their own.
 */
export class UserApps {
  readonly #agent: Agent;
  readonly #options: KoaHttpOptions;
  readonly #createApp: CreateApp;
  readonly #apps = new WeakMap<User, Promise<RequestListener>>();
  #commonApp: Promise<RequestListener> | undefined;

  constructor(agent: Agent, options: KoaHttpOptions, createApp: CreateApp) {
    this.#agent = agent;
    this.#options = options;
    this.#createApp = createApp;
  }

  /** Loading Koa takes half of the start-up time, so the endpoints are loaded while the first client connects. */
  load(user: User | undefined): Promise<RequestListener> {
    if (!user) return (this.#commonApp ??= this.#createApp(this.#agent, this.#options));
    const app = this.#apps.get(user) ?? this.#createUserApp(user);
    this.#apps.set(user, app);
    return app;
  }

  async #createUserApp(user: User): Promise<RequestListener> {
    const projectRoots = user.projectRoots ?? this.#options.projectRoots;
    return this.#createApp(await this.#agent.forUser(user), { ...this.#options, projectRoots });
  }
}
