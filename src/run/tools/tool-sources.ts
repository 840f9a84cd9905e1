import { onAbort } from "../../base/abort.js";
import type { Bus } from "../../base/bus.js";
import type { BusEvents } from "../../ports/bus-events.js";
import type { Logger } from "../../ports/logger.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import type { Tool } from "../../ports/tool.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";
import { createToolList, type ToolList } from "../input/input-checks.js";
import { addSourceTools, type SourceOpening, ToolSourceOpener } from "./tool-source-opener.js";

/**
 * Idle time before open sources are closed, in ms, and the maximum idle sessions with open sources. Each source may run
 * processes.
 */
const IDLE_TIMEOUT_MS = 300_000;
const MAX_IDLE_SESSIONS = 32;
/** Maximum commands of a session's sources. */
const MAX_PROMPTS = 256;

type ToolEntries = readonly (Tool | ToolSource)[];
type CreateTools = () => Promise<ToolEntries>;

/**
 * The agent's own tools. Tools from a function are created at the first use, so that starting the agent does not need
 * them.
 */
export class AgentTools {
  /** Called once, when all tools are created. */
  onLoaded: (list: ToolList) => void = () => undefined;
  readonly #createTools: CreateTools | undefined;
  #list: ToolList;
  #loadPromise: Promise<ToolList> | undefined;

  /** Throws `InputError` for invalid tools or duplicate names. */
  constructor(tools: ToolEntries | CreateTools = []) {
    this.#createTools = typeof tools === "function" ? tools : undefined;
    this.#list = createPersistentList(typeof tools === "function" ? [] : tools);
  }

  get list(): ToolList {
    return this.#list;
  }

  /** Creates all tools. Rejects with the error of the function, or `InputError`; the next call tries again. */
  load(): Promise<ToolList> {
    if (!this.#loadPromise) {
      this.#loadPromise = this.#load();
      this.#loadPromise.catch(() => (this.#loadPromise = undefined));
    }
    return this.#loadPromise;
  }

  async #load(): Promise<ToolList> {
    if (this.#createTools) this.#list = createPersistentList(await this.#createTools());
    this.onLoaded(this.#list);
    return this.#list;
  }
}

/** Marks the agent's own sources as persistent: they stay open after a run. */
function createPersistentList(entries: ToolEntries): ToolList {
  const list = createToolList(entries);
  return { ...list, persistentSources: list.sources };
}

/** Open sources of a session that works in one folder. */
interface OpenSession {
  readonly sources: Map<ToolSource, OpenTools>;
  /** Sources that are being opened. Persistent ones finish opening even if no run waits for them. */
  readonly openings: Map<ToolSource, SourceOpening>;
  /** The tools of the last run. */
  tools: readonly Tool[];
  activeRuns: number;
  /** Closes the sources when no run has used them for a while. Set while no run is active. */
  timer?: NodeJS.Timeout;
}

/** How a source wants its tools to be used. Untrusted text. */
export interface SourceInstructions {
  /** Name of the source. */
  readonly source: string;
  readonly text: string;
}

/** The tools of a run's sources. */
export interface RunTools {
  /** Sorted by name. */
  readonly tools: readonly Tool[];
  /** Names of unavailable sources. */
  readonly missingSources: readonly string[];
  /** Texts of the sources about their tools, for the model. */
  readonly instructions: readonly SourceInstructions[];
  /** Commands of the sources for the run's user. */
  readonly prompts: readonly SlashCommand[];
  /** Call this once, when the run has ended. */
  release(): void;
}

export interface ToolRequest extends ToolSession {
  readonly runId: string;
  /** Adds the run's id to each log line. */
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Opens the tool sources of a session with its first run, keeps them open for the next run, and closes them when the
 * session is idle or deleted.
 */
export class ToolSources {
  readonly #persistentSources: WeakSet<ToolSource>;
  readonly #bus: Bus<BusEvents>;
  readonly #idleMs: number;
  readonly #opener: ToolSourceOpener;
  /** Sessions by `createKey`. The least recently used session comes first. */
  readonly #openSessions = new Map<string, OpenSession>();
  #isShuttingDown = false;

  /** `persistentSources`: sources that stay open after a run. */
  constructor(
    persistentSources: readonly ToolSource[],
    bus: Bus<BusEvents>,
    logger: Logger,
    timeouts: { openTimeoutMs?: number; idleMs?: number; startTimeoutMs?: number } = {},
  ) {
    this.#persistentSources = new WeakSet(persistentSources);
    this.#bus = bus;
    this.#idleMs = timeouts.idleMs ?? IDLE_TIMEOUT_MS;
    this.#opener = new ToolSourceOpener(logger, timeouts);
    bus.on("session.deleted", ({ ids }) => {
      for (const [key, { activeRuns }] of this.#openSessions)
        if (activeRuns === 0 && ids.includes(parseSessionId(key))) this.#closeSession(key);
    });
  }

  /**
   * Opens the sources of a run. A source that fails is left out and reported. Rejects only with the signal's reason.
   */
  async open({ tools, sources, persistentSources = [] }: ToolList, request: ToolRequest): Promise<RunTools> {
    for (const source of persistentSources) this.#persistentSources.add(source);
    if (sources.length === 0)
      return { tools, missingSources: [], instructions: [], prompts: [], release: () => undefined };
    const key = createKey(request);
    const newSession: OpenSession = { sources: new Map(), openings: new Map(), tools: [], activeRuns: 0 };
    const openSession = this.#openSessions.get(key) ?? newSession;
    this.#openSessions.set(key, openSession);
    clearTimeout(openSession.timer);
    openSession.activeRuns += 1;
    // At a shutdown, the programs of sources end at the same time as the run's tools, because both may ignore TERM.
    const removeListener = onAbort(request.signal, () => {
      if (this.#isShuttingDown) this.#closeSources(openSession);
    });
    const release = (): void => {
      removeListener();
      this.#release(key, openSession);
    };
    try {
      const results = await Promise.allSettled(sources.map((source) => this.#openTools(source, openSession, request)));
      request.signal.throwIfAborted();
      let allTools = tools;
      const missingSources: string[] = [];
      for (const [i, source] of sources.entries()) {
        try {
          allTools = addSourceTools(allTools, source, results[i]!);
        } catch (error) {
          missingSources.push(source.name);
          this.#reportFailure(source, error, request);
        }
      }
      openSession.tools = allTools;
      const instructions = listInstructions(openSession, sources);
      return { tools: allTools, missingSources, instructions, prompts: listPrompts(openSession, sources), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Finds a tool by name in any session, because the display of a stored call does not depend on its session. */
  find(name: string): Tool | undefined {
    for (const { tools } of this.#openSessions.values()) {
      const match = tools.find((tool) => tool.name === name);
      if (match) return match;
    }
    return undefined;
  }

  /**
   * Returns the commands of these sources in a session and folder, as far as the sources are open. Sources that another
   * client passed to its own runs are not included.
   */
  prompts(session: ToolSession, sources: readonly ToolSource[]): SlashCommand[] {
    return listPrompts(this.#openSessions.get(createKey(session)), sources);
  }

  /** Returns the tools of the session's last run; undefined if no source is open in this folder. */
  listOpenTools(session: ToolSession): readonly Tool[] | undefined {
    return this.#openSessions.get(createKey(session))?.tools;
  }

  /** Closes the sources of idle sessions now, and those of active sessions when their run ends or is cancelled. */
  shutDown(): void {
    this.#isShuttingDown = true;
    for (const [key, { activeRuns }] of this.#openSessions) if (activeRuns === 0) this.#closeSession(key);
  }

  async close(): Promise<void> {
    for (const key of [...this.#openSessions.keys()]) this.#closeSession(key);
    await this.#opener.settled();
  }

  /** Returns the current tools of a source. Rejects with the reason why it is unavailable. */
  async #openTools(source: ToolSource, openSession: OpenSession, request: ToolRequest): Promise<readonly Tool[]> {
    const openTools = openSession.sources.get(source);
    if (openTools) return openTools.tools;
    const opening = openSession.openings.get(source) ?? this.#begin(source, openSession, request);
    return (await this.#opener.waitForTools(opening, this.#persistentSources.has(source), request.signal)).tools;
  }

  #begin(source: ToolSource, openSession: OpenSession, request: ToolRequest): SourceOpening {
    const opening = this.#opener.startOpening(source, request, (openTools) => {
      openSession.openings.delete(source);
      if (openTools) openSession.sources.set(source, openTools);
    });
    openSession.openings.set(source, opening);
    return opening;
  }

  #reportFailure(source: ToolSource, error: unknown, { runId, sessionId, logger }: ToolRequest): void {
    const reason = error instanceof Error ? error : new Error(String(error));
    const fields = { source: source.name, session: sessionId, error: reason.message };
    logger.warn("tools of a source unavailable; the run continues without them", fields);
    this.#bus.emit("tools.failed", { runId, sessionId, source: source.name, error: reason });
  }

  #release(key: string, openSession: OpenSession): void {
    openSession.activeRuns -= 1;
    if (openSession.activeRuns > 0) return;
    for (const [source, openTools] of openSession.sources) {
      if (this.#persistentSources.has(source) && !this.#isShuttingDown) continue;
      openSession.sources.delete(source);
      this.#opener.close(source, openTools);
    }
    this.#openSessions.delete(key);
    if (openSession.sources.size + openSession.openings.size === 0) return;
    this.#openSessions.set(key, openSession);
    openSession.timer = setTimeout(() => this.#closeSession(key), this.#idleMs).unref();
    const idleSessions = [...this.#openSessions].filter(([, { activeRuns }]) => activeRuns === 0);
    for (const [idleKey] of idleSessions.slice(0, -MAX_IDLE_SESSIONS)) this.#closeSession(idleKey);
  }

  #closeSession(key: string): void {
    const openSession = this.#openSessions.get(key);
    this.#openSessions.delete(key);
    clearTimeout(openSession?.timer);
    if (openSession) this.#closeSources(openSession);
  }

  #closeSources({ sources, openings }: OpenSession): void {
    for (const { cancel } of openings.values()) cancel();
    for (const [source, openTools] of sources) this.#opener.close(source, openTools);
    sources.clear();
  }
}

function createKey({ sessionId, projectDir }: ToolSession): string {
  return `${sessionId}\0${projectDir}`;
}

function listPrompts(openSession: OpenSession | undefined, sources: readonly ToolSource[]): SlashCommand[] {
  return sources.flatMap((source) => readPrompts(openSession?.sources.get(source))).slice(0, MAX_PROMPTS);
}

/** Returns the instructions of the sources that have tools. */
function listInstructions({ sources: openSources }: OpenSession, sources: readonly ToolSource[]): SourceInstructions[] {
  return sources.flatMap((source) => {
    const { tools = [], instructions: text } = openSources.get(source) ?? {};
    return typeof text === "string" && text.trim() !== "" && tools.length > 0 ? { source: source.name, text } : [];
  });
}

/** Returns the commands of a source. Invalid ones are left out, because third parties write sources. */
function readPrompts(openTools: OpenTools | undefined): SlashCommand[] {
  try {
    const prompts: readonly (Partial<SlashCommand> | null)[] = openTools?.prompts ?? [];
    return prompts.filter((command): command is SlashCommand => {
      const { name, description, hint, origin, prompt } = command ?? {};
      if (typeof prompt !== "function" || typeof name !== "string" || !/^\S{1,128}$/.test(name)) return false;
      return [description, hint, origin].every((text) => typeof text === "string");
    });
  } catch {
    return [];
  }
}

function parseSessionId(key: string): string {
  return key.slice(0, key.indexOf("\0"));
}
