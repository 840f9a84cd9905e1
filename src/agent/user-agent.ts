import { realpath } from "node:fs/promises";
import { monotonicMs } from "../base/clock.js";
import { isInside } from "../files/names.js";
import { ConfigError, ForbiddenError, InputError, RunNotFoundError, SessionNotFoundError } from "../ports/errors.js";
import type { Ask } from "../ports/ask.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Logger } from "../ports/logger.js";
import type { McpServerFactory } from "../ports/mcp-server.js";
import type { Run, RunInput } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Session, SessionMode } from "../ports/session.js";
import type { User, UserScope } from "../ports/user.js";
import type { WatchOptions } from "../ports/watch.js";
import { SESSION_MODES } from "../sessions/session-modes.js";
import type { Asks } from "../run/permissions/asks.js";
import type { CommandQuery, ListedCommand } from "../run/prompt/slash-commands.js";
import type { Runs } from "../run/queue/runs.js";
import type { Sessions } from "../sessions/sessions.js";
import { isVisibleTo } from "../sessions/visible-to.js";
import { limitToDailyBudget } from "./user-budget.js";
import { UserEvents } from "./user-events.js";

/** Members of the agent that reveal nothing about the sessions of other users and change nothing. */
const COMMON_MEMBERS = new Set<PropertyKey>([
  ...["name", "version", "mode", "systemPrompt", "tools", "models", "canRewind"],
  ...["describeCall", "prepare", "readiness"],
]);
const READING_SESSION_METHODS = new Set<PropertyKey>([
  ...["get", "list", "search", "messages", "watch", "isRunning", "context", "snapshots", "changes", "worktree"],
]);
const READING_RUN_METHODS = new Set<PropertyKey>(["get", "list", "ended", "started", "findInterruptedRun"]);
/** Minimum interval between checks whether a watched session of another user is still shared, in ms. */
const SHARE_CHECK_INTERVAL_MS = 500;
/** Separates the user's name from the caller's part of an idempotency key. Names contain no such character. */
const KEY_SEPARATOR = "\u0001";

/** The members of an agent that are different for a user. */
export interface RestrictedMembers {
  readonly projectDir: string;
  readonly sessions: Sessions;
  readonly runs: Runs;
  readonly asks: Asks;
  readonly mcpServerFactory: McpServerFactory | undefined;
  run(input: RunInput): Promise<Run>;
  commands(query?: CommandQuery): Promise<ListedCommand[]>;
  on<E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): () => void;
  addResponder(canAnswer?: (sessionId: string) => boolean): () => void;
}

type CompleteAgent = RestrictedMembers & { readonly mode: SessionMode };

/** Services of the agent that its public members do not offer. */
export interface UserServices {
  readonly store: () => Promise<SessionDriver>;
  readonly channels: { readonly logger: Logger };
}

type Method = (...args: unknown[]) => unknown;
type Methods<T> = { [Name in keyof T]?: T[Name] };

/** The agent's members for a user, which `Agent.forUser` combines with those that are the same for all users. */
class UserAgent implements RestrictedMembers {
  readonly #agent: CompleteAgent;
  readonly #user: User;
  readonly #store: () => Promise<SessionDriver>;
  readonly #events: UserEvents;
  readonly sessions: Sessions;
  readonly runs: Runs;
  readonly asks: Asks;
  /** The agent's folder, or the first of the user's folders if the user may not work in it. */
  readonly projectDir: string;

  constructor(agent: CompleteAgent, user: User, projectDir: string, { store, channels: { logger } }: UserServices) {
    this.#agent = agent;
    this.#user = user;
    this.#store = store;
    this.projectDir = projectDir;
    this.#events = new UserEvents(agent, async (id) => (await this.#findVisibleSession(id)) !== undefined, logger);
    this.sessions = this.#createSessions();
    this.runs = this.#createRuns();
    this.asks = this.#createAsks();
  }

  /** Only `admin` sees the configured servers, because a login applies to all users. */
  get mcpServerFactory(): McpServerFactory | undefined {
    const factory = this.#agent.mcpServerFactory;
    return factory && !this.#has("admin") ? { source: (server) => factory.source(server) } : factory;
  }

  readonly run = async (input: RunInput): Promise<Run> => {
    this.#requireScope("run");
    const session = input.sessionId === undefined ? undefined : await this.#requireVisible(input.sessionId);
    const { projectDir = session?.projectDir ?? this.projectDir, folders = [], mode } = input;
    await this.#checkFolders({ projectDir, folders });
    if (mode !== undefined) this.#checkMode(mode, session?.mode ?? this.#agent.mode);
    const { name } = this.#user;
    const run = await this.#agent.run({
      ...(await limitToDailyBudget(this.#agent, this.#user, input, await this.#store())),
      ...(session ? {} : { projectDir }),
      ...this.#limitAnswers(input),
      ...(input.idempotencyKey !== undefined && { idempotencyKey: this.#toStoredKey(input.idempotencyKey) }),
      user: name,
      clientName: name,
      logFields: { ...input.logFields, user: name },
    });
    this.#events.markVisible(run.sessionId);
    return run;
  };

  readonly commands = async (query: CommandQuery = {}): Promise<ListedCommand[]> => {
    this.#requireScope("read");
    const session = query.sessionId === undefined ? undefined : await this.#requireVisible(query.sessionId);
    const projectDir = query.projectDir ?? session?.projectDir ?? this.projectDir;
    await this.#checkFolders({ projectDir });
    return this.#agent.commands({ ...query, ...(session ? {} : { projectDir }) });
  };

  readonly on = <E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): (() => void) =>
    this.#events.on(event, listener);

  readonly addResponder = (canAnswer: (sessionId: string) => boolean = () => true): (() => void) =>
    this.#has("approve")
      ? this.#agent.addResponder((id) => this.#events.isKnownVisible(id) && canAnswer(id))
      : () => undefined;

  #createSessions(): Sessions {
    const { sessions } = this.#agent;
    const { name } = this.#user;
    const visibleTo = this.#has("admin") ? {} : { visibleTo: name };
    const requireOwner = async (id: string): Promise<Session> => {
      const root = await this.#requireVisible(id);
      if (root.owner !== name && !this.#has("admin"))
        throw new ForbiddenError("only the owner of the session may do this");
      return root;
    };
    const ownMethods: Methods<Sessions> = {
      get: async (id) => ((await this.#findVisibleSession(id)) ? sessions.get(id) : undefined),
      list: async (query) => sessions.list({ ...query, ...visibleTo }),
      search: async (query) => sessions.search({ ...query, ...visibleTo }),
      create: async (input = {}) => {
        const { projectDir = this.projectDir } = input;
        await this.#checkFolders({ projectDir });
        return sessions.create({ ...input, projectDir, owner: name });
      },
      fork: async (id, messageId) => {
        await this.#requireVisible(id);
        return sessions.fork(id, messageId, { owner: name });
      },
      update: async (id, fields) => {
        const root = await (fields.shared === undefined ? this.#requireVisible(id) : requireOwner(id));
        if (fields.mode !== undefined) this.#checkMode(fields.mode, root.mode);
        return sessions.update(id, fields);
      },
      delete: async (id) => {
        await requireOwner(id);
        return sessions.delete(id);
      },
      runCommand: async (id, command) => {
        this.#requireScope("approve");
        await this.#checkFolders(await this.#requireVisible(id));
        return sessions.runCommand(id, command);
      },
      watch: (id, options) => this.#watch(id, options),
    };
    return this.#restrict(sessions, READING_SESSION_METHODS, ownMethods, (id) => this.#requireVisible(id));
  }

  async *#watch(id: string, options: WatchOptions = {}): ReturnType<Sessions["watch"]> {
    const root = await this.#requireVisible(id);
    this.#events.markVisible(root.id);
    const watchOptions = { ...options, ...(this.#has("approve") ? {} : { canAnswer: false }) };
    const isOwn = root.owner === this.#user.name || this.#has("admin");
    let checkedMs = monotonicMs();
    for await (const event of this.#agent.sessions.watch(id, watchOptions)) {
      // The owner may have stopped to share the session.
      if (!isOwn && monotonicMs() - checkedMs >= SHARE_CHECK_INTERVAL_MS) {
        if (!(await this.#findVisibleSession(id))) return;
        checkedMs = monotonicMs();
      }
      yield event;
    }
  }

  #createRuns(): Runs {
    const { runs } = this.#agent;
    const find = async (id: string) => {
      const run = await runs.get(id);
      return run && (await this.#findVisibleSession(run.sessionId)) ? run : undefined;
    };
    const ownMethods: Methods<Runs> = {
      get: find,
      list: async (query = {}) => {
        if (query.sessionId !== undefined) await this.#requireVisible(query.sessionId);
        return runs.list({
          ...query,
          ...(query.idempotencyKey !== undefined && { idempotencyKey: this.#toStoredKey(query.idempotencyKey) }),
          ...(!this.#has("admin") && { visibleTo: this.#user.name }),
        });
      },
      findInterruptedRun: async (key) => runs.findInterruptedRun(this.#toStoredKey(key)),
      freeKey: async (key) => runs.freeKey(this.#toStoredKey(key)),
    };
    return this.#restrict(runs, READING_RUN_METHODS, ownMethods, async (id) => {
      if (!(await find(id))) throw new RunNotFoundError(id);
    });
  }

  #createAsks(): Asks {
    const { asks } = this.#agent;
    const find = async (id: string): Promise<Ask | undefined> => {
      const ask = await asks.get(id);
      return ask && (await this.#findVisibleSession(ask.sessionId)) ? ask : undefined;
    };
    const ownMethods: Methods<Asks> = {
      get: find,
      list: async (query = {}) => {
        if (query.sessionId !== undefined) await this.#requireVisible(query.sessionId);
        return asks.list({ ...query, ...(!this.#has("admin") && { visibleTo: this.#user.name }) });
      },
      answer: async (id, reply) => {
        const ask = await find(id);
        if (ask) this.#requireScope(ask.kind === "permission" ? "approve" : "run");
        // An id that does not exist, for the error of an ask that cannot be found.
        return asks.answer(ask ? id : "", reply, this.#user.name);
      },
    };
    return this.#restrict(asks, new Set(["get", "list", "answer"]), ownMethods, () => {
      throw new TypeError("unknown method of asks");
    });
  }

  /**
   * Returns `target` with the methods that a user may call. A method that is not in `ownMethods` takes an id as its
   * first argument, which `checkId` checks. Methods that are not in `reading` require the scope `run`.
   */
  #restrict<T extends object>(
    target: T,
    reading: ReadonlySet<PropertyKey>,
    ownMethods: Methods<T>,
    checkId: (id: string) => unknown,
  ): T {
    return new Proxy(target, {
      get: (_, name): unknown => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== "function") return undefined;
        const ownMethod = Object.hasOwn(ownMethods, name) ? (ownMethods[name as keyof T] as Method) : undefined;
        const call = async (id: unknown, ...rest: unknown[]) => {
          this.#requireScope(reading.has(name) ? "read" : "run");
          if (ownMethod) return ownMethod(id, ...rest);
          await checkId(id as string);
          return Reflect.apply(method, target, [id, ...rest]) as unknown;
        };
        // A watch is no promise. It checks the scope with its first event.
        return name === "watch" ? this.#watchWithScope : call;
      },
    });
  }

  readonly #watchWithScope = (id: string, options?: WatchOptions): ReturnType<Sessions["watch"]> => {
    this.#requireScope("read");
    return this.#watch(id, options);
  };

  /** Returns the first session of a chain if the user may see it. */
  async #findVisibleSession(id: string): Promise<Session | undefined> {
    const { sessions } = this.#agent;
    const { name: store, separatesUsers = false } = await this.#store();
    if (!separatesUsers) throw new ConfigError(`the session store ${store} cannot separate users`);
    const session = await sessions.get(id);
    const root = session && session.chain.root !== session.id ? await sessions.get(session.chain.root) : session;
    return root && isVisibleTo(root, this.#has("admin") ? undefined : this.#user.name) ? root : undefined;
  }

  async #requireVisible(id: string): Promise<Session> {
    const root = await this.#findVisibleSession(id);
    if (!root) throw new SessionNotFoundError(id);
    return root;
  }

  #has(scope: UserScope): boolean {
    const { scopes } = this.#user;
    return scopes.includes(scope) || scopes.includes("admin");
  }

  #requireScope(scope: UserScope): void {
    if (!this.#has(scope)) throw new ForbiddenError(`the scope ${scope} is required`);
  }

  #checkMode(mode: SessionMode, currentMode: SessionMode): void {
    // `SESSION_MODES` begins with the mode that allows most.
    if (SESSION_MODES.indexOf(mode) < SESSION_MODES.indexOf(currentMode)) this.#requireScope("approve");
  }

  /** Rejects with `InputError` for a folder outside the user's folders. A missing folder is outside. */
  async #checkFolders({
    projectDir,
    folders = [],
  }: {
    projectDir: string;
    folders?: readonly string[];
  }): Promise<void> {
    const { projectRoots } = this.#user;
    if (!projectRoots) return;
    const allowed = await Promise.all(projectRoots.map(toRealPath));
    const isAllowed = async (folder: string) => {
      const path = await toRealPath(folder);
      return path !== undefined && allowed.some((root) => root !== undefined && isInside(path, root));
    };
    if (!(await isAllowed(projectDir))) throw new InputError("projectDir", "a folder in which the user may work");
    for (const folder of folders)
      if (!(await isAllowed(folder))) throw new InputError("folders", "folders in which the user may work");
  }

  /** Without the scope `approve`, the client of the run answers only questions of tools. */
  #limitAnswers({ ask }: RunInput): Pick<RunInput, "ask" | "alwaysAsk"> {
    if (!ask || this.#has("approve")) return {};
    return {
      alwaysAsk: false,
      ask: (request, signal) =>
        request.question ? ask(request, signal) : Promise.reject(new ForbiddenError("the scope approve is required")),
    };
  }

  #toStoredKey(key: string): string {
    return `${this.#user.name}${KEY_SEPARATOR}${key}`;
  }
}

const toRealPath = (path: string): Promise<string | undefined> => realpath(path).catch(() => undefined);

/** Creates the agent that `Agent.forUser` returns. Members that are not listed here do not exist for a user. */
export async function createUserAgent<A extends CompleteAgent>(
  agent: A,
  user: User,
  services: UserServices,
): Promise<A> {
  const { projectRoots } = user;
  const servedFolder = await toRealPath(agent.projectDir);
  const roots = (await Promise.all((projectRoots ?? []).map(toRealPath))).filter((root) => root !== undefined);
  const isServed = !projectRoots || (servedFolder !== undefined && roots.some((root) => isInside(servedFolder, root)));
  const userAgent = new UserAgent(agent, user, isServed ? agent.projectDir : (roots[0] ?? agent.projectDir), services);
  return new Proxy(agent, {
    get: (_, name): unknown => {
      if (name in userAgent) return Reflect.get(userAgent, name);
      if (!COMMON_MEMBERS.has(name)) return undefined;
      const value: unknown = Reflect.get(agent, name, agent);
      return typeof value === "function" ? (value.bind(agent) as unknown) : value;
    },
  });
}
