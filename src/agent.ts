import { Compaction, type CompactionOptions } from "./compaction.js";
import { Conversation } from "./conversation.js";
import {
  GantryError,
  InputError,
  RunCancelledError,
  SessionNotFoundError,
  ShuttingDownError,
  TooManyRunsError,
} from "./errors.js";
import { Bus, type BusEvent, type BusListener, type Run, type RunInput, type RunResult } from "./events.js";
import { danglingCalls, INTERRUPTED, textOf, toolMessage } from "./history.js";
import { Housekeeping } from "./housekeeping.js";
import { newId, now } from "./ids.js";
import { HeldLease } from "./lease.js";
import { silentLogger } from "./log.js";
import { runLoop } from "./loop.js";
import { MemoryDriver } from "./memory-driver.js";
import { Models, noCache, type CatalogueCache, type ChosenModel, type ModelPair } from "./models.js";
import type { Logger } from "./ports/logger.js";
import type { ModelProvider } from "./ports/model-provider.js";
import type { Message, ReasoningEffort, Session, SessionDriver } from "./ports/session-driver.js";
import type { Location, Tool, ToolKind, ToolSpec } from "./ports/tool.js";
import { systemPrompt } from "./prompt.js";
import { Recorder } from "./recorder.js";
import { ActiveRun, EventBuffer } from "./run.js";
import { checkFolder, found, newSession, Sessions } from "./sessions.js";
import { generateTitle } from "./title.js";
import { describeCall } from "./tool-calls.js";
import { VERSION } from "./version.js";

export interface AgentOptions {
  /** In order of preference. */
  providers: readonly ModelProvider[];
  /** Default: sessions in memory, gone with the process. */
  driver?: SessionDriver;
  /** Default: none. */
  tools?: readonly Tool[];
  /** Absolute path of the folder to work on; default the working directory. */
  projectDir?: string;
  /** Added to the system prompt. */
  systemPrompt?: string;
  /** Model calls of one run; default 100. */
  maxIterations?: number;
  /** Runs at the same time; default 512. */
  maxConcurrentRuns?: number;
  /** Bytes kept of a tool's output; default 1 MiB. */
  toolOutputBytes?: number;
  /** How sessions outlive the model's window. */
  compaction?: CompactionOptions;
  preferred?: { provider?: string; model?: string; reasoningEffort?: ReasoningEffort };
  /** How long a run waits for a model to be found, in ms; default 30,000. */
  modelTimeoutMs?: number;
  /** Where model listings outlive the process; default nowhere. */
  catalogue?: CatalogueCache;
  logger?: Logger;
}

/** A run under way in this process. */
interface Running {
  cancel: AbortController;
  ended: Promise<unknown>;
}

/** Tools that a cancel could not end get so long, in ms, when the agent closes. */
const STRAGGLER_MS = 2_500;
/** Sessions whose tool state is remembered. */
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
  readonly #bus: Bus;
  readonly #compaction: Compaction;
  readonly #closing = new AbortController();
  readonly #running = new Map<string, Running>();
  /** Starts and background work that a close waits for. */
  readonly #tasks = new Set<Promise<unknown>>();
  readonly #stragglers = new Set<Promise<unknown>>();
  readonly #states = new Map<string, Map<string, unknown>>();
  #active = 0;
  #refusing = false;
  #opened: Promise<SessionDriver> | undefined;
  #closed: Promise<void> | undefined;
  #housekeeping: Housekeeping | undefined;

  constructor(options: AgentOptions) {
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
    this.#compaction = new Compaction(options.compaction ?? {}, this.#logger);
    this.projectDir = options.projectDir ?? process.cwd();
    this.tools = tools;
    this.sessions = new Sessions({
      store: () => this.#store(),
      bus: this.#bus,
      logger: this.#logger,
      projectDir: this.projectDir,
      stopRun: (rootId) => this.#stopRun(rootId),
    });
    this.models = new Models({
      providers: options.providers,
      preferred: { provider: options.preferred?.provider ?? "", model: options.preferred?.model ?? "" },
      cache: options.catalogue ?? noCache,
      logger: this.#logger,
      timeoutMs: options.modelTimeoutMs ?? 30_000,
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
    if (this.#active >= (this.#options.maxConcurrentRuns ?? 512)) throw new TooManyRunsError();
    this.#active += 1;
    const cancel = new AbortController();
    const signal = AbortSignal.any([cancel.signal, this.#closing.signal, ...(input.signal ? [input.signal] : [])]);
    try {
      return await this.#task(this.#start(input, cancel, signal));
    } catch (error) {
      this.#active -= 1;
      throw ending(error, signal);
    }
  }

  /** How a stored tool call is shown to a person; `input` undefined when the arguments are broken JSON. Never throws. */
  describeCall(
    name: string,
    args: string,
    projectDir: string,
  ): { title: string; kind: ToolKind; locations: readonly Location[]; input: unknown } {
    return describeCall(this.#tools.get(name), name, args, projectDir);
  }

  /** Listen on the bus; the returned function ends it. */
  on<E extends BusEvent>(event: E, listener: BusListener<E>): () => void {
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
    while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks);
    await this.#housekeeping?.close();
    if (this.#stragglers.size > 0) await withinMs(Promise.allSettled(this.#stragglers), STRAGGLER_MS);
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

  /** Owned until it settles. */
  #task<T>(work: Promise<T>): Promise<T> {
    this.#tasks.add(work);
    const forget = () => void this.#tasks.delete(work);
    work.then(forget, forget);
    return work;
  }

  async #start(input: RunInput, cancel: AbortController, signal: AbortSignal): Promise<Run> {
    const store = await this.#store();
    const stored = input.sessionId === undefined ? undefined : await newestOf(store, input.sessionId);
    const projectDir = input.projectDir ?? stored?.projectDir ?? this.projectDir;
    await checkFolder(projectDir);
    const chosen = await this.models.resolve(
      { provider: input.provider ?? "", model: input.model ?? "" },
      { provider: stored?.provider ?? "", model: stored?.model ?? "" },
      () => recentPair(store, projectDir),
      signal,
    );
    const draft = stored ?? newSession({ projectDir }, projectDir);
    const rootId = draft.chain.root;
    const lease = await HeldLease.take(store, rootId, this.#logger);
    try {
      signal.throwIfAborted();
      const begun = await this.#begin(store, lease, draft, stored !== undefined, { input, chosen, projectDir });
      const buffer = new EventBuffer(input.overflow ?? "drop");
      const work = this.#go(store, lease, begun, { input, chosen, projectDir, cancel, signal, buffer });
      const running: Running = { cancel, ended: work.catch(() => undefined) };
      this.#running.set(rootId, running);
      const result = this.#task(
        work.finally(() => {
          this.#active -= 1;
          if (this.#running.get(rootId) === running) this.#running.delete(rootId);
        }),
      );
      return new ActiveRun({ sessionId: rootId, provider: chosen.provider.name, model: chosen.model, buffer, result });
    } catch (error) {
      await this.#giveBack(lease);
      throw error;
    }
  }

  /** Under the lease: load what there is, mend what a crash left, store the user's message. */
  async #begin(
    store: SessionDriver,
    lease: HeldLease,
    draft: Session,
    resumed: boolean,
    run: { input: RunInput; chosen: ChosenModel; projectDir: string },
  ): Promise<Conversation> {
    const user = {
      role: "user" as const,
      parts: [
        ...(run.input.message === "" ? [] : [{ type: "text" as const, text: run.input.message }]),
        ...(run.input.attachments ?? []),
      ],
      toolCallId: "",
      name: "",
      failed: false,
    };
    const set = {
      provider: run.chosen.provider.name,
      model: run.chosen.model.id,
      reasoningEffort:
        run.input.reasoningEffort ??
        // A session made without a run chose nothing yet.
        (resumed && (draft.lastSeq > 0 || draft.reasoningEffort !== "")
          ? draft.reasoningEffort
          : (this.#options.preferred?.reasoningEffort ?? "")),
      projectDir: run.projectDir,
    };
    if (!resumed) {
      const session = { ...draft, ...set };
      const conversation = new Conversation(session, []);
      const message = conversation.compose(user);
      await store.create({ ...session, lastSeq: message.seq }, [message]);
      conversation.add(message);
      this.#bus.emit("session.created", { session });
      return conversation;
    }
    // Read again: until the lease was ours, another process may have gone on, compacted or deleted it.
    const session = await newestOf(store, draft.chain.root);
    const before = [...(await store.view(session.id)), ...(await store.messages(session.id))];
    const unfinished = before.filter((message) => !message.finished).map((message) => ({ ...message, finished: true }));
    const conversation = new Conversation(
      { ...session, ...set },
      before.map((message) => ({ ...message, finished: true })),
    );
    const mended = danglingCalls(before).map(({ call }) => conversation.compose(toolMessage(call, INTERRUPTED, true)));
    const add: Message[] = [...mended, conversation.compose(user)];
    await store.write(session.id, {
      fence: lease.fence,
      sync: true,
      set: { ...set, updatedAt: now() },
      add,
      ...(unfinished.length > 0 ? { finish: unfinished } : {}),
    });
    for (const message of add) conversation.add(message);
    this.#bus.emit("session.resume", { sessionId: session.id, rootId: session.chain.root });
    return conversation;
  }

  async #go(
    store: SessionDriver,
    lease: HeldLease,
    conversation: Conversation,
    run: {
      input: RunInput;
      chosen: ChosenModel;
      projectDir: string;
      cancel: AbortController;
      signal: AbortSignal;
      buffer: EventBuffer;
    },
  ): Promise<RunResult> {
    const { chosen, buffer } = run;
    const sessionId = conversation.session.chain.root;
    const names = { sessionId, provider: chosen.provider.name, model: chosen.model.id };
    const signal = AbortSignal.any([run.signal, lease.lost]);
    const recorder = new Recorder(store, conversation.session.id, lease.fence, (error) => run.cancel.abort(error));
    this.#bus.emit("run.started", names);
    try {
      let outcome;
      try {
        const window = this.#compaction.open({
          provider: chosen.provider,
          model: chosen.model,
          effort: conversation.session.reasoningEffort,
          system: await systemPrompt(run.projectDir, this.#options.systemPrompt ?? ""),
          tools: [...this.#tools.values()],
          conversation,
          recorder,
          store,
          fence: lease.fence,
          bus: this.#bus,
          emit: (event) => buffer.push(event),
          signal,
        });
        outcome = await runLoop({
          provider: chosen.provider,
          model: chosen.model,
          maxIterations: this.#options.maxIterations ?? 100,
          conversation,
          window,
          recorder,
          agentId: newId(),
          agentName: this.name,
          onFirstAnswer: () => this.#title(store, conversation, chosen),
          tools: this.#tools,
          sessionId,
          projectDir: run.projectDir,
          signal,
          state: this.#state(sessionId),
          ask: run.input.ask,
          outputBytes: this.#options.toolOutputBytes ?? 1_048_576,
          logger: this.#logger,
          bus: this.#bus,
          emit: (event) => buffer.push(event),
          straggles: (work) => this.#straggles(work),
        });
      } finally {
        await recorder.close();
      }
      const session = await found(store, sessionId);
      await this.#giveBack(lease);
      const { used, ...rest } = outcome;
      const result: RunResult = {
        ...rest,
        sessionId,
        context: { used, size: chosen.model.contextWindow },
        sessionUsage: session.usage,
      };
      this.#bus.emit("run.finished", { sessionId, result });
      buffer.push({ type: "done", usage: result.usage });
      return result;
    } catch (caught) {
      await this.#giveBack(lease);
      const error = ending(caught, signal);
      const meant = error instanceof RunCancelledError || error instanceof ShuttingDownError;
      this.#logger[meant ? "info" : "warn"](meant ? "run cancelled" : "run failed", { ...names, error: error.message });
      this.#bus.emit("run.failed", { sessionId, error });
      throw error;
    } finally {
      buffer.end();
    }
  }

  /** In the background, for a session that has no title yet. */
  #title(store: SessionDriver, conversation: Conversation, { provider, model }: ChosenModel): void {
    const { session } = conversation;
    if (session.titled) return;
    const first = conversation.messages.find((message) => message.role === "user");
    const message = first ? textOf(first) : "";
    if (message.trim() === "") return;
    const sessionId = session.chain.root;
    const work = async () => {
      try {
        const title = await generateTitle(provider, model, message, sessionId, this.#closing.signal);
        if (title === "") return;
        await store.write(session.id, { fence: null, sync: false, set: { title, titled: true } });
        const updated = await store.get(sessionId);
        if (updated) this.#bus.emit("session.updated", { sessionId, fields: ["title"], session: updated });
      } catch (error) {
        if (!this.#closing.signal.aborted)
          this.#logger.warn("no title was generated", { session: sessionId, error: messageOf(error) });
      }
    };
    session.titled = true;
    void this.#task(work());
  }

  async #stopRun(rootId: string): Promise<void> {
    const running = this.#running.get(rootId);
    running?.cancel.abort(new SessionNotFoundError(rootId));
    await running?.ended;
  }

  async #giveBack(lease: HeldLease): Promise<void> {
    try {
      await lease.release();
    } catch (error) {
      this.#logger.warn("a lease was not given back; it runs out by itself", { error });
    }
  }

  #straggles(work: Promise<unknown>): void {
    this.#stragglers.add(work);
    const forget = () => void this.#stragglers.delete(work);
    work.then(forget, forget);
  }

  #state(sessionId: string): Map<string, unknown> {
    const state = this.#states.get(sessionId) ?? new Map<string, unknown>();
    // Newest last, so that the one longest unused goes first.
    this.#states.delete(sessionId);
    this.#states.set(sessionId, state);
    const oldest = this.#states.keys().next().value;
    if (this.#states.size > STATES && oldest !== undefined) this.#states.delete(oldest);
    return state;
  }
}

function checkInput(input: RunInput): void {
  const strings = ["message", "provider", "model", "sessionId", "projectDir"] as const;
  for (const field of strings) {
    const value: unknown = input[field];
    if (typeof value !== "string" && (field === "message" || value !== undefined))
      throw new InputError(field, "a string");
  }
  if (input.message.trim() === "" && (input.attachments ?? []).length === 0)
    throw new InputError("message", "a prompt that is not empty");
}

/** The session that a run goes on in: the newest of the chain that `id` belongs to, with the fields of the chain. */
async function newestOf(store: SessionDriver, id: string): Promise<Session> {
  const session = await found(store, id);
  const newest = (await store.newest(session.chain.root)) ?? session;
  if (newest.chain.index === 0) return newest;
  // The original's are the chain's: a revert may have made an earlier follow-up the newest again.
  const { title, titled, provider, model, reasoningEffort, projectDir } = await found(store, session.chain.root);
  return { ...newest, title, titled, provider, model, reasoningEffort, projectDir };
}

async function recentPair(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  const { sessions } = await store.list({ projectDir, limit: 10 });
  return sessions.find((session) => session.provider !== "" && session.model !== "");
}

/** Why a run ended, in the words of this package: a caller's own abort reason becomes `RunCancelledError`. */
function ending(error: unknown, signal: AbortSignal): Error {
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (reason instanceof GantryError) return reason;
  if (signal.aborted) return new RunCancelledError({ cause: reason });
  return reason instanceof Error ? reason : new Error(String(reason));
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function withinMs(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
