import { setMaxListeners } from "node:events";
import { Compaction } from "./compaction/context-window.js";
import { InputError, SessionNotFoundError, ShuttingDownError } from "./ports/errors.js";
import type { Conversation } from "./conversation/conversation.js";
import { BUS_EVENTS, checkOptions, type AgentOptions } from "./agent-options.js";
import { Bus } from "./base/bus.js";
import type { BusEvent, BusEvents, BusListener } from "./ports/bus-events.js";
import type { Run, RunInput } from "./ports/run.js";
import { Housekeeping } from "./sessions/housekeeping.js";
import { silentLogger } from "./base/log.js";
import { MemoryDriver } from "./sessions/memory-driver.js";
import { Models, noCache } from "./models/models.js";
import type { Logger } from "./ports/logger.js";
import type { SessionDriver } from "./ports/session-driver.js";
import type { Tool, ToolSpec } from "./ports/tool.js";
import { ActiveRun, EventBuffer } from "./run/event-buffer.js";
import { ending, executeRun } from "./run/execution.js";
import { attachedBytes, RunPlaces, type RunPlace } from "./run/places.js";
import { checkInput, oneOf } from "./run/input.js";
import { startRun } from "./run/start.js";
import { Sessions } from "./sessions/sessions.js";
import { TaskSet } from "./base/task-set.js";
import { describeCall, type DescribedCall } from "./run/tool-calls.js";
import { stateOf } from "./run/tool-state.js";
import { VERSION } from "./base/version.js";

/** A run under way in this process. */
interface Running {
  cancel: AbortController;
  ended: Promise<unknown>;
}

/** Tools that a cancel could not end get so long, in ms, when the agent closes. */
const STRAGGLER_MS = 2_500;
/** Each byte of an attachment takes several in memory, as text, in the store's and in the provider's form. */
const ATTACHED_BYTES = 256 * 1024 * 1024;
/** Sessions whose tool state is at hand; that of others is read from what they stored. */
const STATES = 256;

/**
 * A coding agent: a model, tools and persistent sessions. Transports are written against this class;
 * embedded, `new Agent({ providers, tools })` is all there is to it.
 */
export class Agent {
  /** Reported with streamed tokens. */
  readonly name = "orchestrator";
  readonly version = VERSION;
  readonly projectDir: string;
  /** Sorted by name. */
  readonly tools: readonly ToolSpec[];
  readonly sessions: Sessions;
  readonly models: Models;

  readonly #options: AgentOptions;
  readonly #logger: Logger;
  readonly #driver: SessionDriver;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #bus: Bus<BusEvents>;
  readonly #compaction: Compaction;
  readonly #closing = new AbortController();
  readonly #running = new Map<string, Running>();
  /** Starts, runs and background work that a close waits for. */
  readonly #tasks = new TaskSet();
  /** Tools that a cancel could not end at once. */
  readonly #stragglers = new TaskSet();
  readonly #states = new Map<string, Map<string, unknown>>();
  readonly #places: RunPlaces;
  /** Sessions that a title is being made for. */
  readonly #naming = new Set<string>();
  #refusing = false;
  #opened: Promise<SessionDriver> | undefined;
  #closed: Promise<void> | undefined;
  #housekeeping: Housekeeping | undefined;

  constructor(options: AgentOptions) {
    checkOptions(options);
    const tools = [...(options.tools ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1));
    const twice = tools.find((tool, i) => tools[i + 1]?.name === tool.name);
    if (twice) throw new InputError("tools", `distinct names, got ${twice.name} twice`);
    const names = options.providers.map((provider) => provider.name);
    const doubled = names.find((name, i) => names.indexOf(name) !== i);
    if (doubled !== undefined) throw new InputError("providers", `distinct names, got ${doubled} twice`);
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#driver = options.driver ?? new MemoryDriver();
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#bus = new Bus((error) => this.#logger.error("a listener failed", { error }));
    this.#places = new RunPlaces(options.maxConcurrentRuns ?? 512, options.maxAttachedBytes ?? ATTACHED_BYTES);
    this.#compaction = new Compaction(options.compaction ?? {}, this.#logger);
    this.projectDir = options.projectDir ?? process.cwd();
    this.tools = tools;
    this.sessions = new Sessions({
      store: () => this.#store(),
      bus: this.#bus,
      logger: this.#logger,
      projectDir: this.projectDir,
      runs: (rootId) => this.#running.has(rootId),
      stopRun: (rootId) => this.#stopRun(rootId),
    });
    this.models = new Models({
      providers: options.providers,
      preferred: { provider: options.preferred?.provider ?? "", model: options.preferred?.model ?? "" },
      cache: options.catalogue ?? noCache,
      logger: this.#logger,
      timeoutMs: options.modelTimeoutMs ?? 30_000,
      ...(options.catalogueRefreshMs === undefined ? {} : { refreshMs: options.catalogueRefreshMs }),
    });
  }

  /**
   * Start a run. Rejects before anything is stored or asked with `InputError`, `SessionNotFoundError`, `SessionBusyError`,
   * `ProjectFolderError`, `ModelSelectionError`, `ModelTimeoutError`, `TooManyRunsError`, `ShuttingDownError`, `StoreError`,
   * or `RunCancelledError` when the signal aborts meanwhile. Resolves with a run that is already going.
   */
  async run(input: RunInput): Promise<Run> {
    checkInput(input);
    if (this.#refusing) throw new ShuttingDownError();
    const place = this.#places.take();
    const cancel = new AbortController();
    const signal = AbortSignal.any([cancel.signal, this.#closing.signal, ...(input.signal ? [input.signal] : [])]);
    // Each tool of a run may listen, and many run at once.
    setMaxListeners(0, signal);
    try {
      place.reserve(attachedBytes(input));
      return await this.#tasks.add(this.#start(input, place, cancel, signal));
    } catch (error) {
      place.leave();
      throw ending(error, signal);
    }
  }

  /** How a stored tool call is shown to a person; `input` undefined when the arguments are broken JSON. Never throws. */
  describeCall(name: string, args: string, projectDir: string): DescribedCall {
    return describeCall(this.#tools.get(name), name, args, projectDir);
  }

  /** Listen on the bus; the returned function ends it. */
  on<E extends BusEvent>(event: E, listener: BusListener<E>): () => void {
    oneOf("event", BUS_EVENTS, event);
    return this.#bus.on(event, listener);
  }

  /** Open the store now rather than with the first session. Rejects with `StoreError`. */
  async open(): Promise<void> {
    await this.#store();
  }

  /** Refuse new runs from now on, with `ShuttingDownError`. */
  refuseNew(): void {
    this.#refusing = true;
  }

  /** Refuse new runs, cancel those under way with `ShuttingDownError`, wait for them, close store and providers. Safe to call twice. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#refusing = true;
    this.#closing.abort(new ShuttingDownError());
    await this.#tasks.settled();
    await this.#housekeeping?.close();
    await this.#stragglers.settled(STRAGGLER_MS);
    await this.models.close();
    const closing = [...this.#options.providers.map((provider) => provider.close())];
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

  #store(): Promise<SessionDriver> {
    this.#opened ??= this.#driver.open().then(
      () => {
        if (!this.#closing.signal.aborted) this.#housekeeping = this.#housekeep();
        return this.#driver;
      },
      (error: unknown) => {
        this.#opened = undefined;
        throw error;
      },
    );
    return this.#opened;
  }

  #housekeep(): Housekeeping {
    const onDeleted = (id: string) => this.#bus.emit("session.deleted", { ids: [id] });
    return new Housekeeping({ driver: this.#driver, logger: this.#logger, onDeleted });
  }

  async #start(input: RunInput, place: RunPlace, cancel: AbortController, signal: AbortSignal): Promise<Run> {
    const store = await this.#store();
    const { projectDir } = this;
    const { preferred, systemPrompt: extra = "", maxIterations = 100, toolOutputBytes = 1_048_576 } = this.#options;
    const { projectInstructions = true, deniedPaths = [] } = this.#options;
    const common = { store, bus: this.#bus, logger: this.#logger };
    const reasoningEffort = preferred?.reasoningEffort ?? "";
    const started = await startRun(
      { ...common, models: this.models, projectDir, reasoningEffort, place },
      input,
      signal,
    );
    const { chosen, conversation } = started;
    const sessionId = conversation.session.chain.root;
    const buffer = new EventBuffer(input.overflow ?? "drop");
    const work = executeRun(
      started,
      {
        ...common,
        compaction: this.#compaction,
        tools: this.#tools,
        agentName: this.name,
        prompt: { extra, projectInstructions, deniedPaths },
        maxIterations,
        toolOutputBytes,
        state: (resumed) => this.#state(store, resumed),
        naming: this.#naming,
        closing: this.#closing.signal,
        inBackground: (task) => void this.#tasks.add(task),
        straggles: (task) => void this.#stragglers.add(task),
      },
      { signal, cancel, buffer, ask: input.ask },
    );
    const running: Running = { cancel, ended: work.catch(() => undefined) };
    this.#running.set(sessionId, running);
    const result = work.finally(() => {
      place.leave();
      if (this.#running.get(sessionId) === running) this.#running.delete(sessionId);
    });
    void this.#tasks.add(result);
    return new ActiveRun({ sessionId, provider: chosen.provider.name, model: chosen.model, buffer, result });
  }

  async #stopRun(rootId: string): Promise<void> {
    const running = this.#running.get(rootId);
    running?.cancel.abort(new SessionNotFoundError(rootId));
    await running?.ended;
  }

  /** What the tools of a session remember: kept for the next run, and found again in what is stored. */
  async #state(store: SessionDriver, { session, messages }: Conversation): Promise<Map<string, unknown>> {
    const { root, index } = session.chain;
    // A follow-up's view may have left out the results that have it.
    const state =
      this.#states.get(root) ?? stateOf(index === 0 ? messages : await store.messages(root, { scope: "chain" }));
    // Newest last, so that the one longest unused goes first.
    this.#states.delete(root);
    this.#states.set(root, state);
    const oldest = this.#states.keys().next().value;
    if (this.#states.size > STATES && oldest !== undefined) this.#states.delete(oldest);
    return state;
  }
}
