import type { Bus } from "../../base/bus.js";
import type { BusEvents } from "../../ports/bus-events.js";
import { InputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import type { Tool } from "../../ports/tool.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";
import { byName, type ToolList } from "../input/run-input.js";
import { type Opening, OpenToolSources } from "./source-openings.js";

/**
 * Idle time before open sources are closed, in ms, and the maximum idle sessions with open sources. Each source may run
 * processes.
 */
const IDLE_MS = 300_000;
const MAX_IDLE_SESSIONS = 32;
/** Maximum commands of a session's sources. */
const MAX_PROMPTS = 256;

/** Open sources of a session that works in one folder. */
interface OpenSession {
  readonly sources: Map<ToolSource, OpenTools>;
  /** Sources that are being opened. Persistent ones finish opening even if no run waits for them. */
  readonly opening: Map<ToolSource, Opening>;
  /** The tools of the last run. */
  tools: readonly Tool[];
  /** Number of active runs that use the sources. */
  runs: number;
  /** Closes the sources when no run has used them for a while. Set while no run is active. */
  timer?: NodeJS.Timeout;
}

/** The tools of a run's sources. */
export interface RunTools {
  /** Sorted by name. */
  readonly tools: readonly Tool[];
  /** Names of unavailable sources. */
  readonly missing: readonly string[];
  /** Commands of the sources for the run's user. */
  readonly prompts: readonly SlashCommand[];
  /** Call this once, when the run has ended. */
  release(): void;
}

/** The run that needs tools. */
export interface ToolRequest extends ToolSession {
  readonly runId: string;
  /** Adds the run's id to each line. */
  readonly logger: Logger;
  /** The signal of the run. */
  readonly signal: AbortSignal;
}

/**
 * Tools of sources. They are opened with a session's first run, kept for its next run, and finally closed in any case.
 */
export class ToolSources {
  readonly #persistentSources: WeakSet<ToolSource>;
  readonly #bus: Bus<BusEvents>;
  readonly #idleMs: number;
  readonly #openings: OpenToolSources;
  /** The least recently used session comes first. */
  readonly #openSessions = new Map<string, OpenSession>();

  /** `persistentSources`: sources that stay open after a run. */
  constructor(
    persistentSources: readonly ToolSource[],
    bus: Bus<BusEvents>,
    logger: Logger,
    times: { openMs?: number; keptMs?: number; startMs?: number } = {},
  ) {
    this.#persistentSources = new WeakSet(persistentSources);
    this.#bus = bus;
    this.#idleMs = times.keptMs ?? IDLE_MS;
    this.#openings = new OpenToolSources(logger, times);
    bus.on("session.deleted", ({ ids }) => {
      for (const [key, { runs }] of this.#openSessions) if (runs === 0 && ids.includes(sessionOf(key))) this.#end(key);
    });
  }

  /**
   * Opens the sources of a run. A source that fails is left out and reported. Rejects only with the signal's reason.
   */
  async open({ tools, sources, persistentSources = [] }: ToolList, request: ToolRequest): Promise<RunTools> {
    for (const source of persistentSources) this.#persistentSources.add(source);
    if (sources.length === 0) return { tools, missing: [], prompts: [], release: () => undefined };
    const key = keyOf(request);
    const open: OpenSession = this.#openSessions.get(key) ?? {
      sources: new Map(),
      opening: new Map(),
      tools: [],
      runs: 0,
    };
    this.#openSessions.set(key, open);
    clearTimeout(open.timer);
    open.runs += 1;
    const release = () => this.#release(key, open);
    try {
      const opened = await Promise.all(sources.map((source) => this.#toolsOf(source, open, request)));
      request.signal.throwIfAborted();
      let all = tools;
      const missing: string[] = [];
      for (const [i, source] of sources.entries()) {
        try {
          all = withTools(all, source, opened[i]);
        } catch (error) {
          missing.push(source.name);
          this.#reportFailure(source, error, request);
        }
      }
      open.tools = all;
      return { tools: all, missing, prompts: promptsIn(open, sources), release };
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
   * Commands of these sources in a session and folder, as far as they are open. Sources that another client brought for
   * its own runs are not included.
   */
  prompts(session: ToolSession, sources: readonly ToolSource[]): SlashCommand[] {
    return promptsIn(this.#openSessions.get(keyOf(session)), sources);
  }

  /** Closes all sources. No run may be active. */
  async close(): Promise<void> {
    for (const key of [...this.#openSessions.keys()]) this.#end(key);
    await this.#openings.settled();
  }

  /** The current tools of a source, or the reason why it has none. */
  async #toolsOf(source: ToolSource, open: OpenSession, request: ToolRequest): Promise<readonly Tool[] | Error> {
    try {
      const openTools = open.sources.get(source);
      if (openTools) return openTools.tools;
      const opening = open.opening.get(source) ?? this.#begin(source, open, request);
      return (await this.#openings.waitFor(opening, this.#persistentSources.has(source), request.signal)).tools;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  #begin(source: ToolSource, open: OpenSession, request: ToolRequest): Opening {
    const opening = this.#openings.begin(source, request, (opened) => {
      open.opening.delete(source);
      if (opened) open.sources.set(source, opened);
    });
    open.opening.set(source, opening);
    return opening;
  }

  #reportFailure(source: ToolSource, error: unknown, { runId, sessionId, logger }: ToolRequest): void {
    const why = error instanceof Error ? error : new Error(String(error));
    const names = { source: source.name, session: sessionId, error: why.message };
    logger.warn("tools of a source unavailable; the run continues without them", names);
    this.#bus.emit("tools.failed", { runId, sessionId, source: source.name, error: why });
  }

  #release(key: string, open: OpenSession): void {
    open.runs -= 1;
    if (open.runs > 0) return;
    for (const [source, opened] of open.sources) {
      if (this.#persistentSources.has(source)) continue;
      open.sources.delete(source);
      this.#openings.close(source, opened);
    }
    this.#openSessions.delete(key);
    if (open.sources.size + open.opening.size === 0) return;
    this.#openSessions.set(key, open);
    open.timer = setTimeout(() => this.#end(key), this.#idleMs).unref();
    const idle = [...this.#openSessions].filter(([, { runs }]) => runs === 0);
    for (const [oldest] of idle.slice(0, -MAX_IDLE_SESSIONS)) this.#end(oldest);
  }

  #end(key: string): void {
    const open = this.#openSessions.get(key);
    this.#openSessions.delete(key);
    clearTimeout(open?.timer);
    for (const { cancel } of open?.opening.values() ?? []) cancel();
    for (const [source, opened] of open?.sources ?? []) this.#openings.close(source, opened);
  }
}

function keyOf({ sessionId, projectDir }: ToolSession): string {
  return `${sessionId}\0${projectDir}`;
}

function promptsIn(open: OpenSession | undefined, sources: readonly ToolSource[]): SlashCommand[] {
  return sources.flatMap((source) => promptsOf(open?.sources.get(source))).slice(0, MAX_PROMPTS);
}

/** Third parties write sources, so invalid commands are left out. */
function promptsOf(opened: OpenTools | undefined): SlashCommand[] {
  try {
    const prompts: readonly (Partial<SlashCommand> | null)[] = opened?.prompts ?? [];
    return prompts.filter((command): command is SlashCommand => {
      const { name, description, hint, origin, prompt } = command ?? {};
      if (typeof prompt !== "function" || typeof name !== "string" || !/^\S{1,128}$/.test(name)) return false;
      return [description, hint, origin].every((text) => typeof text === "string");
    });
  } catch {
    return [];
  }
}

function sessionOf(key: string): string {
  return key.slice(0, key.indexOf("\0"));
}

/** Adds the tools of a source, sorted by name. Throws if they are invalid. */
function withTools(
  all: readonly Tool[],
  source: ToolSource,
  result: readonly Tool[] | Error | undefined,
): readonly Tool[] {
  if (result === undefined || result instanceof Error) throw result ?? new Error("it has no tools");
  const field = `tools of ${source.name}`;
  const sourceTools = byName(field, result);
  // A name that the provider rejects would fail every call of the run.
  const odd = sourceTools.find(({ name }) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name));
  if (odd) throw new InputError(field, `names of 1 to 64 letters, digits, _ and -, got ${JSON.stringify(odd.name)}`);
  return byName(field, [...all, ...sourceTools]);
}
