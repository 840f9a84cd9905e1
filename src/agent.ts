import { setMaxListeners } from "node:events";
import { Compaction } from "./compaction/compaction.js";
import { hasCode, InputError, SessionNotFoundError, ShuttingDownError } from "./ports/errors.js";
import { BUS_EVENTS, checkOptions, type AgentOptions } from "./agent-options.js";
import { Bus } from "./base/bus.js";
import type { BusEvent, BusEvents, BusListener } from "./ports/bus-events.js";
import type { Run, RunInput } from "./ports/run.js";
import { onAbort } from "./base/abort.js";
import { newId, now } from "./base/ids.js";
import { Live } from "./live/live.js";
import type { WatchEvent, WatchOptions } from "./ports/watch.js";
import { forgetFilesOf } from "./sessions/forget-files.js";
import { Housekeeping } from "./sessions/housekeeping.js";
import { silentLogger } from "./base/log.js";
import { Models, noCache } from "./models/models.js";
import type { ModelProvider } from "./ports/model-provider.js";
import type { SessionDriver } from "./ports/session-driver.js";
import type { Tool } from "./ports/tool.js";
import { AGENT_DEFAULTS } from "./run/defaults.js";
import { KeptConversations } from "./run/kept-conversations.js";
import { Asks } from "./run/asks.js";
import { RunPlaces } from "./run/places.js";
import type { AgentParts, RunContext, Spawned } from "./run/run-context.js";
import type { CommandQuery } from "./run/agent-commands.js";
import type { ListedCommand } from "./run/commands.js";
import type { RunQueue, Ticket } from "./run/queue.js";
import { Runs, type Running } from "./run/runs.js";
import { checkInput, oneOf } from "./run/input.js";
import { quietInOutage } from "./sessions/outage.js";
import { Sessions } from "./sessions/sessions.js";
import type { ReadinessCheck } from "./agent-readiness.js";
import type { NotReady, Readiness } from "./ports/readiness.js";
import { TaskSet } from "./base/task-set.js";
import { describeCall, type DescribedCall } from "./run/describe-call.js";
import { SessionProcesses } from "./run/session-processes.js";
import { Project } from "./project/project.js";
import { AgentTools } from "./run/agent-tools.js";
import { ToolSources } from "./run/tool-sources.js";
import type { ToolServers } from "./ports/tool-server.js";
import { ToolStates } from "./run/tool-state.js";
import { VERSION } from "./base/version.js";

/** Tools that a cancel could not end get so long, in ms, when the agent closes. */
const STRAGGLER_MS = 2_500;

const DRAINING: NotReady = { code: "draining", message: "the server is about to stop" };

/** More than half of an agent is needed by nobody before the first run. */
function runCode() {
  return Promise.all([import("./run/start.js"), import("./run/execution.js"), import("./run/active-run.js")]);
}

/**
 * A coding agent: a model, tools and persistent sessions. Transports are written against this class;
 * embedded, `new Agent({ providers, tools })` is all there is to it.
 */
export class Agent {
  /** Reported with streamed tokens. */
  readonly name = "orchestrator";
  readonly version = VERSION;
  readonly projectDir: string;
  readonly sessions: Sessions;
  readonly models: Models;
  /** What opens servers of tools that a run brings; undefined: none may be brought. */
  readonly toolServers: ToolServers | undefined;

  readonly #parts: AgentParts;
  #driver: SessionDriver | undefined;
  readonly #providers: readonly ModelProvider[];
  readonly #closing = new AbortController();
  readonly #processes: SessionProcesses;
  #live: Live | undefined;
  readonly #running = new Map<string, Running>();
  #runs: Runs | undefined;
  #asks: Asks | undefined;
  #queue: RunQueue | undefined;
  #refusing = false;
  #isDraining = false;
  #readiness: Promise<ReadinessCheck> | undefined;
  #code: ReturnType<typeof runCode> | undefined;
  #opened: Promise<SessionDriver> | undefined;
  #closed: Promise<void> | undefined;
  #housekeeping: Housekeeping | undefined;

  constructor(options: AgentOptions) {
    checkOptions(options);
    const tools = new AgentTools(options.tools);
    const names = options.providers.map((provider) => provider.name);
    const doubled = names.find((name, i) => names.indexOf(name) !== i);
    if (doubled !== undefined) throw new InputError("providers", `distinct names, got ${doubled} twice`);
    const { model, projectDir = process.cwd() } = options;
    const { mode = "auto" } = options;
    const logger = quietInOutage(options.logger ?? silentLogger);
    const bus = new Bus<BusEvents>((error) => logger.error("a listener failed", { error }));
    const kept = new KeptConversations();
    bus.on("session.deleted", ({ ids }) => ids.forEach((id) => kept.drop(id)));
    const store = () => this.#store();
    const tasks = new TaskSet();
    forgetFilesOf(bus, options.fileHistory, tasks, logger);
    const closing = this.#closing.signal;
    this.#processes = new SessionProcesses(tools, bus, tasks, (rootId) => void this.#tell(rootId, false));
    this.#driver = options.driver;
    this.#providers = options.providers;
    this.projectDir = projectDir;
    this.toolServers = options.toolServers;
    this.sessions = new Sessions({
      store,
      bus,
      logger,
      projectDir,
      mode,
      runs: (rootId) => this.#running.has(rootId),
      changed: (rootId, messages) => void this.#tell(rootId, messages),
      watch: (id, watched) => this.#watch(id, watched),
      stopRun: (rootId) => this.#stopRun(rootId),
      background: { tasks, closing },
      fileHistory: options.fileHistory,
    });
    this.models = new Models({
      providers: options.providers,
      preferred: { provider: model?.provider ?? "", model: model?.model ?? "" },
      cache: options.catalogue ?? noCache,
      logger,
      timeoutMs: options.modelTimeoutMs ?? 30_000,
      refreshMs: (options.catalogueRefresh ?? AGENT_DEFAULTS.catalogueRefresh) * 1000,
    });
    this.#parts = {
      name: this.name,
      store,
      models: this.models,
      bus,
      logger,
      tools,
      sources: new ToolSources([], bus, logger),
      toolServers: options.toolServers,
      fileHistory: options.fileHistory,
      commands: {
        own: options.commands ?? [],
        folders: options.commandFolders ?? [],
        ofProjects: options.projectInstructions ?? true,
        denied: options.deniedPaths ?? [],
      },
      permissions: [options.permissions ?? []].flat(),
      rules: options.rules ?? [],
      mode,
      asking: {
        unattended: options.unattended ?? "reject",
        timeoutMs: (options.askTimeout ?? AGENT_DEFAULTS.askTimeout) * 1000,
      },
      hooks: options.hooks ?? {},
      compaction: new Compaction(options.compaction ?? {}),
      prompt: { text: options.systemPrompt ?? "", use: options.prompt ?? "extend" },
      project: new Project(options),
      limits: {
        iterations: options.maxIterations ?? AGENT_DEFAULTS.maxIterations,
        toolOutputBytes: options.toolOutputBytes ?? AGENT_DEFAULTS.toolOutputBytes,
        budget: options.budget ?? {},
        sessionBudget: options.sessionBudget ?? {},
        unknownPrice: options.unknownPrice,
      },
      projectDir,
      reasoningEffort: model?.reasoningEffort ?? "",
      places: new RunPlaces(
        options.concurrentRuns ?? AGENT_DEFAULTS.concurrentRuns,
        options.attachedBytes ?? AGENT_DEFAULTS.attachedBytes,
      ),
      states: new ToolStates(),
      kept,
      live: () => this.#watched,
      spawn: (input, spawned) => this.#parts.tasks.add(this.#start(input, { id: newId(), at: now() }, spawned)),
      naming: new Set(),
      closing,
      tasks,
      stragglers: new TaskSet(),
    };
  }

  /**
   * Sorted by name; those of sources, which each session opens, are not among them. Where a function makes them, they
   * are there when `prepare` has resolved, or a run has begun.
   */
  get tools(): readonly Tool[] {
    return this.#parts.tools.list.tools;
  }

  get #watched(): Live {
    return (this.#live ??= new Live((rootId) => this.#processes.list(rootId)));
  }

  /** Those of other processes on the store too. */
  get runs(): Runs {
    return (this.#runs ??= new Runs({
      store: () => this.#store(),
      running: (rootId) => this.#running.get(rootId),
      unqueue: (rootId, runId) => this.#queue?.cancel(rootId, runId),
      waits: (rootId, runId) => this.#queue?.waits(rootId, runId),
      watch: (id, watched) => this.#watch(id, watched),
    }));
  }

  /** What runs ask of people. */
  get asks(): Asks {
    return (this.#asks ??= new Asks({
      store: () => this.#store(),
      running: (rootId) => this.#running.get(rootId),
      changed: (rootId) => void this.#tell(rootId, false),
    }));
  }

  /**
   * Start a run. Rejects before anything is stored or asked with `InputError`, `SessionNotFoundError`, `SessionBusyError`,
   * `ProjectFolderError`, `ModelSelectionError`, `ModelTimeoutError`, `TooManyRunsError`, `ShuttingDownError`, `StoreError`,
   * or `RunCancelledError` when the signal aborts meanwhile. Resolves with a run that is already going. One that waited in
   * line is stored before that, and when it rejects, with why.
   */
  async run(input: RunInput): Promise<Run> {
    checkInput(input);
    if (this.#refusing) throw new ShuttingDownError();
    // Who asks first comes first, whatever takes longer to be looked up.
    return this.#parts.tasks.add(this.#start(input, { id: newId(), at: now() }));
  }

  /** What can be said by `/name words` in a session, or in a new one of a folder. Rejects with `SessionNotFoundError`, `StoreError`. */
  async commands(where: CommandQuery = {}): Promise<ListedCommand[]> {
    return (await import("./run/agent-commands.js")).commandsOf(this.#parts, where);
  }

  /** How a stored tool call is shown to a person; `input` undefined when the arguments are broken JSON. Never throws. */
  describeCall(name: string, args: string, projectDir: string): DescribedCall {
    const tool = this.tools.find((one) => one.name === name) ?? this.#parts.sources.find(name);
    return describeCall(tool, name, args, projectDir);
  }

  /** Listen on the bus; the returned function ends it. */
  on<E extends BusEvent>(event: E, listener: BusListener<E>): () => void {
    oneOf("event", BUS_EVENTS, event);
    return this.#parts.bus.on(event, listener);
  }

  /** Open the store now rather than with the first session. Rejects with `StoreError`. */
  async open(): Promise<void> {
    await this.#store();
  }

  /** Load now what a run is made of, so that the first need not wait for it. Never rejects: the first run says what is wrong. */
  async prepare(): Promise<void> {
    if (this.#refusing) return;
    await this.#parts.tasks
      .add(Promise.all([(this.#code ??= runCode()), this.#parts.tools.load()]))
      .catch(() => undefined);
  }

  /**
   * Whether work should be given to it: not while its store cannot be reached, its providers are asked for their first
   * lists of models, or it is about to end. The store is opened for that. As of a second ago at most, however many
   * ask. Rejects with the signal's reason alone.
   */
  async readiness(signal?: AbortSignal): Promise<Readiness> {
    // Nobody needs to know more of one that ends, and its store may be closed.
    if (!this.#isDraining) {
      const reasons = await (await this.#checksReadiness()).reasons(signal);
      if (!this.#isDraining) return { ready: reasons.length === 0, reasons };
    }
    return { ready: false, reasons: [DRAINING] };
  }

  /** Be not ready from now on, and go on as before: whoever chooses between agents has time to see it. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Refuse new runs from now on, with `ShuttingDownError`. */
  refuseNew(): void {
    this.#isDraining = true;
    this.#refusing = true;
    this.#queue?.close();
  }

  /** Refuse new runs, cancel those under way with `ShuttingDownError`, wait for them, close store and providers. Safe to call twice. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  /** As `close`, for `await using agent = new Agent(...)`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.refuseNew();
    this.#closing.abort(new ShuttingDownError());
    await this.#parts.tasks.settled();
    this.#parts.kept.clear();
    this.#processes.close();
    await this.#housekeeping?.close();
    await this.#parts.stragglers.settled(STRAGGLER_MS);
    await this.#parts.sources.close();
    await this.models.close();
    const closing = [...this.#providers.map((provider) => provider.close())];
    for (const tool of this.tools) closing.push(Promise.resolve(tool.close?.()));
    // A store that never opened has nothing to close.
    if (this.#opened)
      closing.push(
        this.#opened.then(
          (driver) => driver.close(),
          () => undefined,
        ),
      );
    const failed = (await Promise.allSettled(closing)).find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
  }

  #checksReadiness(): Promise<ReadinessCheck> {
    return (this.#readiness ??= import("./agent-readiness.js").then(({ ReadinessCheck }) => {
      const { logger } = this.#parts;
      return new ReadinessCheck({ store: () => this.#store(), models: this.models, logger });
    }));
  }

  #store(): Promise<SessionDriver> {
    return (this.#opened ??= this.#openStore().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    }));
  }

  async #openStore(): Promise<SessionDriver> {
    const driver = (this.#driver ??= new (await import("./sessions/memory-driver.js")).MemoryDriver());
    await driver.open();
    if (!this.#closing.signal.aborted) this.#housekeeping = this.#housekeep(driver);
    return driver;
  }

  #housekeep(driver: SessionDriver): Housekeeping {
    const onDeleted = (id: string) => this.#parts.bus.emit("session.deleted", { ids: [id] });
    return new Housekeeping({ driver, logger: this.#parts.logger, onDeleted, fileHistory: this.#parts.fileHistory });
  }

  async #start(input: RunInput, ticket: Ticket, spawned?: Spawned): Promise<Run> {
    const [[, { executeRun }, { ActiveRun }]] = await Promise.all([
      (this.#code ??= runCode()),
      this.#parts.tools.load(),
    ]);
    const run = await this.#begin(input, ticket, spawned).catch(async (error: unknown) => {
      // Whose run died, or ended a day ago, may be used again.
      if (!hasCode(error, "run_key_taken") || !(await this.runs.freeKey(error.key))) throw error;
      return this.#begin(input, ticket);
    });
    const work = executeRun(run);
    const { id, cancel, inbox } = run;
    const running: Running = { id, cancel, inbox, ended: work.catch(() => undefined) };
    this.#running.set(run.sessionId, running);
    const result = work.finally(() => {
      if (this.#running.get(run.sessionId) === running) this.#running.delete(run.sessionId);
      this.#queue?.look(run.sessionId);
    });
    void this.#parts.tasks.add(running.ended.then(() => this.#goOn(run, input)));
    void this.#parts.tasks.add(result);
    const active = new ActiveRun(run, result);
    // The run has begun to make ready what it asks the model.
    await run.recorder.onDisk;
    return active;
  }

  /** A run that holds its session, which it waits for where that is wanted. */
  async #begin(input: RunInput, ticket: Ticket, spawned?: Spawned): Promise<RunContext> {
    const [{ startRun }] = await (this.#code ??= runCode());
    const isQueued = input.queue === true && input.sessionId !== undefined;
    try {
      // Where there is no place, it waits for that too.
      if (!isQueued || !this.#parts.places.full) return await startRun(this.#parts, input, undefined, spawned);
    } catch (error) {
      if (!isQueued || !hasCode(error, "session_busy")) throw error;
    }
    const { RunQueue } = await import("./run/queue.js");
    this.#queue ??= new RunQueue(this.#parts);
    if (this.#refusing) throw new ShuttingDownError();
    return this.#queue.wait(input, ticket, (turn) => startRun(this.#parts, input, turn));
  }

  /** What came too late for a run is the session's next prompt, behind those that wait in line. Never rejects. */
  async #goOn({ sessionId, inbox, recorder, logger }: RunContext, input: RunInput): Promise<void> {
    try {
      const late = await inbox.leftOver();
      if (late.length === 0 || recorder.run.state === "cancelled" || this.#refusing) return;
      const {
        attachments: _,
        attach: __,
        compact: __________,
        commands: ___________,
        signal: ___,
        key: ____,
        fingerprint: _____,
        onQueued: ______,
        // The session has them, as somebody may have set them meanwhile.
        mode: _______,
        provider: ________,
        model: _________,
        ...same
      } = input;
      await this.run({ ...same, message: late.map(({ text }) => text).join("\n\n"), sessionId, queue: true });
    } catch (error) {
      // Of a session that is gone nothing goes on.
      if (hasCode(error, "session_not_found")) return;
      logger.warn("what a run was told too late did not begin the next one", { session: sessionId, error });
    }
  }

  async *#watch(id: string, options: WatchOptions): AsyncGenerator<WatchEvent, void, undefined> {
    const store = await this.#store();
    const { watch } = await import("./live/watch.js");
    const { signal } = options;
    // Whoever watches holds no agent open.
    const ended = new AbortController();
    // Any number may watch.
    setMaxListeners(0, this.#closing.signal, ...(signal ? [signal] : []));
    const ties = [this.#closing.signal, ...(signal ? [signal] : [])].map((one) => onAbort(one, () => ended.abort()));
    try {
      yield* watch(this.#watched, store, id, { ...options, signal: ended.signal });
    } finally {
      for (const untie of ties) untie();
    }
  }

  async #tell(rootId: string, messages: boolean): Promise<void> {
    const store = await this.#store();
    if (messages) this.#watched.changed(rootId, store);
    else this.#watched.touched(rootId, store);
  }

  async #stopRun(rootId: string): Promise<void> {
    // Or the next in line would begin.
    await this.#queue?.drop(rootId, new SessionNotFoundError(rootId));
    const running = this.#running.get(rootId);
    running?.cancel.abort(new SessionNotFoundError(rootId));
    await running?.ended;
  }
}
