import { setImmediate } from "node:timers/promises";
import { checkOptions, BUS_EVENTS, type AgentOptions } from "./options.js";
import { createServices } from "./create-services.js";
import type { ReadinessCheck } from "./readiness.js";
import { collectStatistics } from "./statistics.js";
import { Bus } from "../base/bus.js";
import { newId } from "../base/ids.js";
import { silentLogger } from "../base/log.js";
import { VERSION } from "../base/version.js";
import { Presence } from "../watch/presence.js";
import { Watchers } from "../watch/watchers.js";
import type { Models } from "../models/models.js";
import type { BusEvents } from "../ports/bus-events.js";
import { ShuttingDownError } from "../ports/errors.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { ReadinessProblem, Readiness } from "../ports/readiness.js";
import type { Run, RunInput } from "../ports/run.js";
import type { SessionMode } from "../ports/session.js";
import type { AgentStatistics } from "../ports/statistics.js";
import type { Tool } from "../ports/tool.js";
import type { User } from "../ports/user.js";
import type { McpServerFactory } from "../ports/mcp-server.js";
import { Asks } from "../run/permissions/asks.js";
import type { CommandQuery, ListedCommand } from "../run/prompt/slash-commands.js";
import { describeCall, type DescribedCall } from "../run/calls/prepare.js";
import { AGENT_DEFAULTS } from "../ports/agent-options.js";
import { checkOneOf } from "../run/input/input-checks.js";
import type { AgentServices, SubagentCall } from "../run/context/agent-services.js";
import { Runs } from "../run/queue/runs.js";
import type { LocalRuns } from "../run/local-runs.js";
import { SessionProcesses } from "../run/tools/session-processes.js";
import { forgetFilesOnDelete } from "../sessions/forget-files.js";
import { AgentStore } from "./agent-store.js";
import { throttleOutageLogs } from "../sessions/outage.js";
import { Sessions } from "../sessions/sessions.js";

/** Time limit at close for tools that did not stop after a cancel, in ms. */
const UNSETTLED_TOOLS_TIMEOUT_MS = 2_500;

const DRAINING_PROBLEM: ReadinessProblem = { code: "draining", message: "the server is about to stop" };

/**
 * A coding agent: a model, tools and persistent sessions. Transports are written against this class. Embedded use needs
 * only `new Agent({ providers, tools })`.
 */
export class Agent {
  /** Reported with streamed tokens. */
  readonly name = "orchestrator";
  readonly version = VERSION;
  readonly projectDir: string;
  readonly sessions: Sessions;
  readonly models: Models;
  /** Opens the MCP servers that a run's input names. Undefined: runs cannot name MCP servers. */
  readonly mcpServerFactory: McpServerFactory | undefined;
  /** Whether transports offer fork, rewind and undo to their clients. */
  readonly canRewind: boolean;

  readonly #services: AgentServices;
  readonly #providers: readonly ModelProvider[];
  readonly #closeController = new AbortController();
  readonly #store: AgentStore;
  readonly #watchers: Watchers;
  readonly #presence: Presence;
  readonly #processes: SessionProcesses;
  #localRuns: LocalRuns | undefined;
  #localRunsPromise: Promise<LocalRuns> | undefined;
  #runs: Runs | undefined;
  #asks: Asks | undefined;
  #isDraining = false;
  #isRejectingRuns = false;
  #readinessCheck: Promise<ReadinessCheck> | undefined;
  #closePromise: Promise<void> | undefined;
  #preparePromise: Promise<void> | undefined;

  constructor(options: AgentOptions) {
    checkOptions(options);
    const { driver, fileHistory, worktrees } = options;
    const logger = throttleOutageLogs(options.logger ?? silentLogger);
    const bus = new Bus<BusEvents>((error) => logger.error("event listener failed", { error }));
    const closeSignal = this.#closeController.signal;
    this.#store = new AgentStore({ driver, bus, logger, fileHistory, closeSignal });
    const store = () => this.#store.get();
    this.#presence = new Presence((options.clientGraceSeconds ?? AGENT_DEFAULTS.clientGraceSeconds) * 1000);
    this.#watchers = new Watchers(store, (rootId) => this.#processes.list(rootId), closeSignal, this.#presence);
    const notifyChange = (rootId: string, hasMessageChanges: boolean) =>
      void this.#watchers.notify(rootId, hasMessageChanges);
    this.#services = createServices(options, {
      name: this.name,
      store,
      channels: { bus, logger, liveSessions: () => this.#watchers.liveSessions },
      spawn: (input, subagentCall) => this.#start(input, subagentCall),
      closeSignal,
    });
    const { background, caches, defaults, models } = this.#services;
    const { agentTools } = this.#services.tools;
    const { mode, projectDir } = defaults;
    bus.on("session.deleted", ({ ids }) => ids.forEach((id) => caches.conversations.drop(id)));
    forgetFilesOnDelete(bus, fileHistory, background.tasks, logger);
    this.#processes = new SessionProcesses(agentTools, bus, background.tasks, store, (id) => notifyChange(id, false));
    this.#providers = options.providers;
    this.projectDir = projectDir;
    this.canRewind = options.rewind ?? true;
    this.mcpServerFactory = options.mcpServerFactory;
    this.models = models;
    this.sessions = new Sessions({
      ...{ store, bus, logger, projectDir, mode, background, fileHistory, worktrees },
      isRunningHere: (rootId) => this.#localRuns?.find(rootId) !== undefined,
      notifyWatchers: notifyChange,
      watch: (id, options) => this.#watchers.watch(id, options),
      stopRun: async (rootId) => this.#localRuns?.stop(rootId),
      runs: () => this.runs,
      loadLocalRuns: () => this.#loadLocalRuns(),
    });
  }

  /** Default mode for new sessions. */
  get mode(): SessionMode {
    return this.#services.defaults.mode;
  }
  /** The agent's own addition to the system prompt; `""` for none. */
  get systemPrompt(): string {
    return this.#services.defaults.prompt.text;
  }

  /**
   * The agent's own tools, sorted by name, without those of sources, which each session opens. If a function creates
   * the tools, the list is empty until `prepare` resolves or a run starts.
   */
  get tools(): readonly Tool[] {
    return this.#services.tools.agentTools.list.tools;
  }
  /** Runs of this process and of other processes on the same store. */
  get runs(): Runs {
    return (this.#runs ??= new Runs({
      store: this.#services.store,
      findLocalRun: (rootId) => this.#localRuns?.find(rootId),
      findQueue: () => this.#localRuns?.queue,
      watch: (id, options) => this.#watchers.watch(id, options),
    }));
  }

  /**
   * Connects a client that can answer requests. The returned function disconnects it. `canAnswer` is called for each
   * request, with the id of the chain's first session, and returns whether the client answers for that session.
   */
  addResponder(canAnswer: (sessionId: string) => boolean = () => true): () => void {
    return this.#presence.connect(canAnswer);
  }

  /** Requests of runs to users. */
  get asks(): Asks {
    return (this.#asks ??= new Asks({
      store: this.#services.store,
      findLocalRun: (rootId) => this.#localRuns?.find(rootId),
      notifyChange: (rootId) => void this.#watchers.notify(rootId, false),
    }));
  }

  /**
   * Starts a run and resolves when it is active. A queued run is stored while it waits, and so is why it is rejected.
   *
   * Rejects before anything is stored or sent to a model with `InputError`, `SessionNotFoundError`, `SessionBusyError`,
   * `ProjectFolderError`, `ModelSelectionError`, `ModelTimeoutError`, `TooManyRunsError`, `ShuttingDownError` or
   * `StoreError`. Rejects with `RunCancelledError` if the signal aborts first.
   */
  async run(input: RunInput): Promise<Run> {
    if (this.#isRejectingRuns) throw new ShuttingDownError();
    return this.#start(input);
  }

  /**
   * Lists the slash commands (`/name words`) of a session, or of a new session in a folder. Rejects with
   * `SessionNotFoundError`, `StoreError`.
   */
  async commands(query: CommandQuery = {}): Promise<ListedCommand[]> {
    return (await import("../run/prompt/slash-commands.js")).listCommands(this.#services, query);
  }

  /** Describes a stored tool call for display. `input` is undefined if the arguments are invalid JSON. Never throws. */
  describeCall(name: string, args: string, projectDir: string): DescribedCall {
    const tool = this.tools.find((candidate) => candidate.name === name) ?? this.#services.tools.sources.find(name);
    return describeCall(tool, name, args, projectDir);
  }

  /**
   * The agent for a user: sessions of other users do not exist for it unless they are shared. Its calls reject with
   * `ForbiddenError` without the required scope, and with `ConfigError` if the store cannot separate users.
   */
  async forUser(user: User): Promise<Agent> {
    return (await import("./user-agent.js")).getUserAgent<Agent>(this, user, this.#services);
  }

  /** Adds a listener to the bus; the returned function removes it. */
  on<E extends keyof BusEvents>(event: E, listener: (event: BusEvents[E]) => void): () => void {
    checkOneOf("event", BUS_EVENTS, event);
    return this.#services.channels.bus.on(event, listener);
  }

  /** Opens the store now instead of at the first use. Rejects with `StoreError`. */
  async open(): Promise<void> {
    await this.#store.get();
  }
  /**
   * Loads the code of runs in advance. The code of the preferred provider loads afterwards: `close` waits for it, the
   * returned promise does not. Never rejects: the first run reports the error.
   */
  async prepare(): Promise<void> {
    if (this.#isRejectingRuns) return;
    const { tasks } = this.#services.background;
    const { agentTools } = this.#services.tools;
    await tasks.add(Promise.all([this.#loadLocalRuns(), agentTools.load()])).catch(() => undefined);
    // After requests that have already arrived: loading blocks for 50 ms.
    this.#preparePromise ??= tasks.add(setImmediate().then(() => this.models.prepare(this.#closeController.signal)));
  }

  /**
   * Whether the agent should receive work: not while the store is unreachable, the first model lists are being fetched,
   * or the agent drains. Opens the store. Cached for one second. Rejects only with the signal's reason.
   */
  async readiness(signal?: AbortSignal): Promise<Readiness> {
    // While the agent drains, its store may already be closed, and no other reason matters.
    if (!this.#isDraining) {
      const reasons = await (await this.#loadReadinessCheck()).reasons(signal);
      if (!this.#isDraining) return { ready: reasons.length === 0, reasons };
    }
    return { ready: false, reasons: [DRAINING_PROBLEM] };
  }

  /** Current numbers of this process, without a query. */
  statistics(): AgentStatistics {
    return collectStatistics(this.#services);
  }

  /** Reports the agent as not ready from now on, but still accepts runs. Load balancers get time to react. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Rejects new runs from now on with `ShuttingDownError`. */
  stopAccepting(): void {
    this.#isDraining = true;
    this.#isRejectingRuns = true;
    this.#localRuns?.queue?.close();
    this.#services.tools.sources.shutDown();
  }

  /** Rejects new runs, cancels active ones with `ShuttingDownError`, waits, then closes store and providers. Idempotent. */
  close(): Promise<void> {
    return (this.#closePromise ??= this.#close());
  }

  /** Same as `close`, for `await using agent = new Agent(...)`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.stopAccepting();
    this.#closeController.abort(new ShuttingDownError());
    await this.#services.background.tasks.settled();
    this.#services.caches.conversations.clear();
    this.#processes.close();
    await this.#store.stopHousekeeping();
    await this.#services.tools.unsettled.settled(UNSETTLED_TOOLS_TIMEOUT_MS);
    await this.#services.tools.sources.close();
    await this.models.close();
    const closePromises = [...this.#providers, ...this.tools].map(async (part) => part.close?.());
    closePromises.push(this.#store.close());
    const failure = (await Promise.allSettled(closePromises)).find((outcome) => outcome.status === "rejected");
    if (failure) throw failure.reason;
  }

  #start(input: RunInput, subagentCall?: SubagentCall): Promise<Run> {
    // The ticket is created before any await, so that runs keep the order of their requests.
    const ticket = { id: newId(), requestedAtMs: Date.now() };
    return this.#services.background.tasks.add(
      this.#loadLocalRuns().then((localRuns) => localRuns.start(input, ticket, subagentCall)),
    );
  }

  /** Loads the code of runs at the first use, because this code is more than half of the agent. */
  #loadLocalRuns(): Promise<LocalRuns> {
    return (this.#localRunsPromise ??= import("../run/local-runs.js").then(({ LocalRuns }) => {
      return (this.#localRuns = new LocalRuns({
        services: this.#services,
        isRejectingRuns: () => this.#isRejectingRuns,
        findInterruptedRun: (key) => this.runs.findInterruptedRun(key),
        freeKey: (key) => this.runs.freeKey(key),
      }));
    }));
  }

  #loadReadinessCheck(): Promise<ReadinessCheck> {
    return (this.#readinessCheck ??= import("./readiness.js").then(({ ReadinessCheck }) => {
      const { store, models, channels } = this.#services;
      return new ReadinessCheck({ store, models, logger: channels.logger });
    }));
  }
}
