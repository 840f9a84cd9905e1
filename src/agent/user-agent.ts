import type { BusEvents } from "../ports/bus-events.js";
import { ForbiddenError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { McpServerFactory } from "../ports/mcp-server.js";
import type { Run, RunInput } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { SessionMode } from "../ports/session.js";
import type { User } from "../ports/user.js";
import type { Asks } from "../run/permissions/asks.js";
import type { CommandQuery, ListedCommand } from "../run/prompt/slash-commands.js";
import type { Runs } from "../run/queue/runs.js";
import type { Sessions } from "../sessions/sessions.js";
import { SessionAccess } from "./session-access.js";
import { isInAny, readRoot, UserAccess } from "./user-access.js";
import { limitToDailyBudget } from "./user-budget.js";
import { UserEvents } from "./user-events.js";
import { restrictAsks, restrictRuns, restrictSessions } from "./user-members.js";

/** Members of the agent that reveal nothing about the sessions of other users and change nothing. */
const COMMON_MEMBERS = new Set<PropertyKey>([
  ...["name", "version", "mode", "systemPrompt", "tools", "models", "canRewind"],
  ...["describeCall", "prepare", "readiness"],
]);

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

/** The agent's members for a user. */
class UserAgent implements RestrictedMembers {
  readonly #agent: CompleteAgent;
  readonly #access: UserAccess;
  readonly #store: () => Promise<SessionDriver>;
  readonly #sessionAccess: SessionAccess;
  readonly #events: UserEvents;
  readonly sessions: Sessions;
  readonly runs: Runs;
  readonly asks: Asks;
  /** The agent's folder, or the first of the user's folders if the user may not work in it. */
  readonly projectDir: string;

  constructor(
    agent: CompleteAgent,
    user: User,
    projectDir: string,
    { store, channels: { logger } }: UserServices,
    sessionAccess: SessionAccess,
  ) {
    const access = new UserAccess(user, store);
    this.#agent = agent;
    this.#access = access;
    this.#store = store;
    this.projectDir = projectDir;
    this.#sessionAccess = sessionAccess;
    this.#events = new UserEvents(agent, sessionAccess, access.filter.visibleTo, logger);
    this.sessions = restrictSessions(agent.sessions, access, projectDir, (root) => sessionAccess.remember(root));
    this.runs = restrictRuns(agent.runs, access);
    this.asks = restrictAsks(agent.asks, access);
  }

  /** Only `admin` sees the configured servers, because a login applies to all users. */
  get mcpServerFactory(): McpServerFactory | undefined {
    const factory = this.#agent.mcpServerFactory;
    return factory && !this.#access.has("admin") ? { source: (server) => factory.source(server) } : factory;
  }

  readonly run = async (input: RunInput): Promise<Run> => {
    const access = this.#access;
    access.require("run");
    const session = input.sessionId === undefined ? undefined : await access.requireVisible(input.sessionId);
    // The client of the run may answer its questions, before any event of the session.
    if (session) this.#sessionAccess.remember(session);
    const { projectDir = session?.projectDir ?? this.projectDir, folders, mode } = input;
    await access.checkFolders(projectDir, folders);
    if (mode !== undefined) access.checkMode(mode, session?.mode ?? this.#agent.mode);
    const { name } = access.user;
    return this.#agent.run({
      ...(await limitToDailyBudget(this.#agent, access.user, input, await this.#store())),
      ...(!session && { projectDir }),
      ...this.#limitAnswers(input),
      ...(input.idempotencyKey !== undefined && { idempotencyKey: access.toStoredKey(input.idempotencyKey) }),
      user: name,
      clientName: name,
      logFields: { ...input.logFields, user: name },
    });
  };

  readonly commands = async (query: CommandQuery = {}): Promise<ListedCommand[]> => {
    this.#access.require("read");
    const session = query.sessionId === undefined ? undefined : await this.#access.requireVisible(query.sessionId);
    const projectDir = query.projectDir ?? session?.projectDir ?? this.projectDir;
    await this.#access.checkFolders(projectDir);
    return this.#agent.commands({ ...query, ...(!session && { projectDir }) });
  };

  readonly on = <E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): (() => void) =>
    this.#events.on(event, listener);

  readonly addResponder = (canAnswer: (sessionId: string) => boolean = () => true): (() => void) =>
    this.#access.has("approve")
      ? this.#agent.addResponder((id) => this.#events.isKnownVisible(id) && canAnswer(id))
      : () => undefined;

  /** Without the scope `approve`, the client of the run answers only questions of tools. */
  #limitAnswers({ ask }: RunInput): Pick<RunInput, "ask" | "alwaysAsk"> {
    if (!ask || this.#access.has("approve")) return {};
    return {
      alwaysAsk: false,
      ask: (request, signal) =>
        request.question ? ask(request, signal) : Promise.reject(new ForbiddenError("the scope approve is required")),
    };
  }
}

/** Shared state of the users of one agent. */
interface AgentUsers {
  readonly sessionAccess: SessionAccess;
  /** An entry is released with its user. */
  readonly agents: WeakMap<User, Promise<object>>;
}

const usersByAgent = new WeakMap<object, AgentUsers>();

/** Returns the agent for a user: the same for the same `user`. */
export function getUserAgent<A extends CompleteAgent>(agent: A, user: User, services: UserServices): Promise<A> {
  const users = usersByAgent.get(agent) ?? {
    sessionAccess: new SessionAccess(agent, async (id) => readRoot(await services.store(), id)),
    agents: new WeakMap(),
  };
  usersByAgent.set(agent, users);
  const userAgent = users.agents.get(user) ?? createUserAgent(agent, user, services, users.sessionAccess);
  users.agents.set(user, userAgent);
  // The map has only what was created for this agent.
  return userAgent as Promise<A>;
}

/** Members that are not listed here do not exist for a user. */
async function createUserAgent<A extends CompleteAgent>(
  agent: A,
  user: User,
  services: UserServices,
  sessionAccess: SessionAccess,
): Promise<A> {
  const { projectRoots } = user;
  const isServed = !projectRoots || (await isInAny(agent.projectDir, projectRoots));
  const projectDir = isServed ? agent.projectDir : (projectRoots[0] ?? agent.projectDir);
  const userAgent = new UserAgent(agent, user, projectDir, services, sessionAccess);
  return new Proxy(agent, {
    get: (_, name): unknown => {
      if (name in userAgent) return Reflect.get(userAgent, name);
      if (!COMMON_MEMBERS.has(name)) return undefined;
      const value: unknown = Reflect.get(agent, name, agent);
      return typeof value === "function" ? (value.bind(agent) as unknown) : value;
    },
  });
}
