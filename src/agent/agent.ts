import { checkOptions, BUS_EVENTS, type AgentOptions } from "./options.js";
import { partsOf } from "./services.js";
import type { ReadinessCheck } from "./readiness.js";
import { Bus } from "../base/bus.js";
import { newId, now } from "../base/ids.js";
import { silentLogger } from "../base/log.js";
import { VERSION } from "../base/version.js";
import { Presence } from "../watch/presence.js";
import { Watchers } from "../watch/watchers.js";
import type { Models } from "../models/models.js";
import type { BusEvents } from "../ports/bus-events.js";
import { ShuttingDownError } from "../ports/errors.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { NotReady, Readiness } from "../ports/readiness.js";
import type { Run, RunInput } from "../ports/run.js";
import type { SessionMode } from "../ports/session.js";
import type { Tool } from "../ports/tool.js";
import type { ToolServers } from "../ports/mcp-server.js";
import type { CommandQuery } from "../run/prompt/agent-commands.js";
import { Asks } from "../run/permissions/requests.js";
import type { ListedCommand } from "../run/prompt/slash-commands.js";
import { describeCall, type DescribedCall } from "../run/calls/describe.js";
import { AGENT_DEFAULTS } from "../ports/defaults.js";
import { checkInput, oneOf } from "../run/input/run-input.js";
import type { AgentParts, Spawned } from "../run/context/run-context.js";
import { Runs } from "../run/runs.js";
import type { RunsHere } from "../run/local-runs.js";
import { SessionProcesses } from "../run/session-processes.js";
import { forgetFilesOf } from "../sessions/forget-files.js";
import { OpenedStore } from "./opened-store.js";
import { quietInOutage } from "../sessions/outage.js";
import { Sessions } from "../sessions/sessions.js";

/** Tools that a cancel could not end get so long, in ms, when the agent closes. */
const STRAGGLER_MS = 2_500;

const DRAINING: NotReady = { code: "draining", message: "the server is about to stop" };

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
  readonly #providers: readonly ModelProvider[];
  readonly #closing = new AbortController();
  readonly #store: OpenedStore;
  readonly #watchers: Watchers;
  readonly #presence: Presence;
  readonly #processes: SessionProcesses;
  #here: RunsHere | undefined;
  #making: Promise<RunsHere> | undefined;
  #runs: Runs | undefined;
  #asks: Asks | undefined;
  #isDraining = false;
  #isRefusing = false;
  #readiness: Promise<ReadinessCheck> | undefined;
  #closed: Promise<void> | undefined;
  #prepared: Promise<void> | undefined;

  constructor(options: AgentOptions) {
    checkOptions(options);
    const { driver, fileHistory } = options;
    const logger = quietInOutage(options.logger ?? silentLogger);
    const bus = new Bus<BusEvents>((error) => logger.error("a listener failed", { error }));
    const closing = this.#closing.signal;
    this.#store = new OpenedStore({ driver, bus, logger, fileHistory, closing });
    const store = () => this.#store.get();
    this.#presence = new Presence((options.clientGrace ?? AGENT_DEFAULTS.clientGrace) * 1000);
    this.#watchers = new Watchers(store, (rootId) => this.#processes.list(rootId), closing, this.#presence);
    const changed = (rootId: string, messages: boolean) => void this.#watchers.tell(rootId, messages);
    this.#parts = partsOf(options, {
      name: this.name,
      store,
      bus,
      logger,
      live: () => this.#watchers.live,
      spawn: (input, spawned) => this.#start(input, spawned),
      closing,
    });
    const { kept, mode, models, projectDir, tasks, tools } = this.#parts;
    bus.on("session.deleted", ({ ids }) => ids.forEach((id) => kept.drop(id)));
    forgetFilesOf(bus, fileHistory, tasks, logger);
    this.#processes = new SessionProcesses(tools, bus, tasks, store, (rootId) => changed(rootId, false));
    this.#providers = options.providers;
    this.projectDir = projectDir;
    this.toolServers = options.toolServers;
    this.models = models;
    this.sessions = new Sessions({
      store,
      bus,
      logger,
      projectDir,
      mode,
      runs: (rootId) => this.#here?.of(rootId) !== undefined,
      changed,
      watch: (id, watched) => this.#watchers.watch(id, watched),
      stopRun: async (rootId) => this.#here?.stop(rootId),
      background: { tasks, closing },
      fileHistory,
    });
  }

  /** The mode of new sessions. */
  get mode(): SessionMode {
    return this.#parts.mode;
  }

  /**
   * Sorted by name; those of sources, which each session opens, are not among them. Where a function makes them, they
   * are there when `prepare` has resolved, or a run has begun.
   */
  get tools(): readonly Tool[] {
    return this.#parts.tools.list.tools;
  }

  /** Those of other processes on the store too. */
  get runs(): Runs {
    return (this.#runs ??= new Runs({
      store: this.#parts.store,
      running: (rootId) => this.#here?.of(rootId),
      unqueue: (rootId, runId) => this.#here?.unqueue(rootId, runId),
      waits: (rootId, runId) => this.#here?.waits(rootId, runId),
      watch: (id, watched) => this.#watchers.watch(id, watched),
    }));
  }

  /**
   * A client that answers questions of any session connects; the returned function disconnects it. `answers` says so for
   * one session, each time a run of it asks: it gets the id of the chain's first session.
   */
  attend(answers: (sessionId: string) => boolean = () => true): () => void {
    return this.#presence.join(answers);
  }

  /** What runs ask of people. */
  get asks(): Asks {
    return (this.#asks ??= new Asks({
      store: this.#parts.store,
      running: (rootId) => this.#here?.of(rootId),
      changed: (rootId) => void this.#watchers.tell(rootId, false),
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
    if (this.#isRefusing) throw new ShuttingDownError();
    return this.#start(input);
  }

  /** What can be said by `/name words` in a session, or in a new one of a folder. Rejects with `SessionNotFoundError`, `StoreError`. */
  async commands(where: CommandQuery = {}): Promise<ListedCommand[]> {
    return (await import("../run/prompt/agent-commands.js")).commandsOf(this.#parts, where);
  }

  /** How a stored tool call is shown to a person; `input` undefined when the arguments are broken JSON. Never throws. */
  describeCall(name: string, args: string, projectDir: string): DescribedCall {
    const tool = this.tools.find((one) => one.name === name) ?? this.#parts.sources.find(name);
    return describeCall(tool, name, args, projectDir);
  }

  /** Listen on the bus; the returned function ends it. */
  on<E extends keyof BusEvents>(event: E, listener: (event: BusEvents[E]) => void): () => void {
    oneOf("event", BUS_EVENTS, event);
    return this.#parts.bus.on(event, listener);
  }

  /** Open the store now rather than with the first session. Rejects with `StoreError`. */
  async open(): Promise<void> {
    await this.#store.get();
  }

  /**
   * Loads the code of a run, so that the first run does not wait for it. The code that asks the preferred provider loads
   * afterwards: the returned promise does not wait for it, `close` does. Never rejects: the first run reports the fault.
   */
  async prepare(): Promise<void> {
    if (this.#isRefusing) return;
    const { tasks, tools } = this.#parts;
    await tasks.add(Promise.all([this.#runsHere(), tools.load()])).catch(() => undefined);
    this.#prepared ??= tasks.add(this.#prepareModels());
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
    this.#isRefusing = true;
    this.#here?.closeLine();
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
    await this.#store.rest();
    await this.#parts.stragglers.settled(STRAGGLER_MS);
    await this.#parts.sources.close();
    await this.models.close();
    const closing = [...this.#providers.map((provider) => provider.close())];
    for (const tool of this.tools) closing.push(Promise.resolve(tool.close?.()));
    closing.push(this.#store.close());
    const failed = (await Promise.allSettled(closing)).find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
  }

  #start(input: RunInput, spawned?: Spawned): Promise<Run> {
    // Who asks first comes first, whatever takes longer to be looked up.
    const ticket = { id: newId(), at: now() };
    return this.#parts.tasks.add(this.#runsHere().then((here) => here.start(input, ticket, spawned)));
  }

  /** Loading takes 50 ms of the event loop: requests that have arrived come first. */
  async #prepareModels(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    await this.models.prepare(this.#closing.signal);
  }

  /** More than half of an agent is needed by nobody before the first run. */
  #runsHere(): Promise<RunsHere> {
    return (this.#making ??= import("../run/local-runs.js").then(({ RunsHere }) => {
      return (this.#here = new RunsHere({
        parts: this.#parts,
        run: (input) => this.run(input),
        isRefusing: () => this.#isRefusing,
        heed: () => this.#processes.heed(),
        freeKey: (key) => this.runs.freeKey(key),
      }));
    }));
  }

  #checksReadiness(): Promise<ReadinessCheck> {
    return (this.#readiness ??= import("./readiness.js").then(({ ReadinessCheck }) => {
      const { store, models, logger } = this.#parts;
      return new ReadinessCheck({ store, models, logger });
    }));
  }
}
