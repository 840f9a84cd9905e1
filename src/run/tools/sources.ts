import type { Bus } from "../../base/bus.js";
import type { BusEvents } from "../../ports/bus-events.js";
import { InputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { SlashCommand } from "../../ports/slash-command.js";
import type { Tool } from "../../ports/tool.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";
import { byName, type ToolList } from "../input/run-input.js";
import { type Opening, SourceOpenings } from "./source-openings.js";

/** How long what was opened waits for the session's next run, in ms, and for how many sessions: each may be processes. */
const KEPT_MS = 300_000;
const KEPT = 32;
/** Commands of a session's sources. */
const PROMPTS = 256;

/** What is open for a session that works on one folder. */
interface Open {
  readonly sources: Map<ToolSource, OpenTools>;
  /** Those of the session's own go on until they are open, whether a run waits for them or not. */
  readonly opening: Map<ToolSource, Opening>;
  /** As its last run had them. */
  tools: readonly Tool[];
  /** Runs that use it. */
  runs: number;
  /** Runs while there is none. */
  timer?: NodeJS.Timeout;
}

/** What a run has of its sources. */
export interface ToolsOfRun {
  /** Sorted by name. */
  readonly tools: readonly Tool[];
  /** Names of sources that it goes without. */
  readonly missing: readonly string[];
  /** What its person may say by a command. */
  readonly prompts: readonly SlashCommand[];
  /** To be called once, when the run has ended. */
  release(): void;
}

/** Which run tools are opened for. */
export interface ToolsWanted extends ToolSession {
  readonly runId: string;
  /** Names the run. */
  readonly logger: Logger;
  /** The run's. */
  readonly signal: AbortSignal;
}

/** Tools of sources: opened with a session's first run, kept for its next one, closed in the end whatever happens. */
export class ToolSources {
  readonly #kept: WeakSet<ToolSource>;
  readonly #bus: Bus<BusEvents>;
  readonly #keptMs: number;
  readonly #openings: SourceOpenings;
  /** The one longest unused comes first. */
  readonly #open = new Map<string, Open>();

  /** `kept`: sources whose tools outlive a run. */
  constructor(
    kept: readonly ToolSource[],
    bus: Bus<BusEvents>,
    logger: Logger,
    times: { openMs?: number; keptMs?: number; startMs?: number } = {},
  ) {
    this.#kept = new WeakSet(kept);
    this.#bus = bus;
    this.#keptMs = times.keptMs ?? KEPT_MS;
    this.#openings = new SourceOpenings(logger, times);
    bus.on("session.deleted", ({ ids }) => {
      for (const [key, { runs }] of this.#open) if (runs === 0 && ids.includes(sessionOf(key))) this.#end(key);
    });
  }

  /** Rejects with the signal's reason alone: a source that fails is left out, and told of. */
  async open({ tools, sources, lasting = [] }: ToolList, wanted: ToolsWanted): Promise<ToolsOfRun> {
    for (const source of lasting) this.#kept.add(source);
    if (sources.length === 0) return { tools, missing: [], prompts: [], release: () => undefined };
    const key = keyOf(wanted);
    const open: Open = this.#open.get(key) ?? { sources: new Map(), opening: new Map(), tools: [], runs: 0 };
    this.#open.set(key, open);
    clearTimeout(open.timer);
    open.runs += 1;
    const release = () => this.#release(key, open);
    try {
      const opened = await Promise.all(sources.map((source) => this.#toolsOf(source, open, wanted)));
      wanted.signal.throwIfAborted();
      let all = tools;
      const missing: string[] = [];
      for (const [i, source] of sources.entries()) {
        try {
          all = withTools(all, source, opened[i]);
        } catch (error) {
          missing.push(source.name);
          this.#tell(source, error, wanted);
        }
      }
      open.tools = all;
      return { tools: all, missing, prompts: promptsIn(open, sources), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** The tool of that name in any session: how a stored call is shown does not depend on where it was made. */
  find(name: string): Tool | undefined {
    for (const { tools } of this.#open.values()) {
      const found = tools.find((tool) => tool.name === name);
      if (found) return found;
    }
    return undefined;
  }

  /**
   * What people who have these sources may say by a command in a session that works on a folder, as far as they are open
   * there: what another client brought along for its own runs is not theirs.
   */
  prompts(session: ToolSession, sources: readonly ToolSource[]): SlashCommand[] {
    return promptsIn(this.#open.get(keyOf(session)), sources);
  }

  /** Close all, when no run goes on. */
  async close(): Promise<void> {
    for (const key of [...this.#open.keys()]) this.#end(key);
    await this.#openings.settled();
  }

  /** Its tools as they are now, or why there are none. */
  async #toolsOf(source: ToolSource, open: Open, wanted: ToolsWanted): Promise<readonly Tool[] | Error> {
    try {
      const kept = open.sources.get(source);
      if (kept) return kept.tools;
      const opening = open.opening.get(source) ?? this.#begin(source, open, wanted);
      return (await this.#openings.waitFor(opening, this.#kept.has(source), wanted.signal)).tools;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  #begin(source: ToolSource, open: Open, wanted: ToolsWanted): Opening {
    const opening = this.#openings.begin(source, wanted, (opened) => {
      open.opening.delete(source);
      if (opened) open.sources.set(source, opened);
    });
    open.opening.set(source, opening);
    return opening;
  }

  #tell(source: ToolSource, error: unknown, { runId, sessionId, logger }: ToolsWanted): void {
    const why = error instanceof Error ? error : new Error(String(error));
    const names = { source: source.name, session: sessionId, error: why.message };
    logger.warn("the tools of a source could not be had; the run goes on without them", names);
    this.#bus.emit("tools.failed", { runId, sessionId, source: source.name, error: why });
  }

  #release(key: string, open: Open): void {
    open.runs -= 1;
    if (open.runs > 0) return;
    for (const [source, opened] of open.sources) {
      if (this.#kept.has(source)) continue;
      open.sources.delete(source);
      this.#openings.shut(source, opened);
    }
    this.#open.delete(key);
    if (open.sources.size + open.opening.size === 0) return;
    this.#open.set(key, open);
    open.timer = setTimeout(() => this.#end(key), this.#keptMs).unref();
    const idle = [...this.#open].filter(([, { runs }]) => runs === 0);
    for (const [oldest] of idle.slice(0, -KEPT)) this.#end(oldest);
  }

  #end(key: string): void {
    const open = this.#open.get(key);
    this.#open.delete(key);
    clearTimeout(open?.timer);
    for (const { cancel } of open?.opening.values() ?? []) cancel();
    for (const [source, opened] of open?.sources ?? []) this.#openings.shut(source, opened);
  }
}

function keyOf({ sessionId, projectDir }: ToolSession): string {
  return `${sessionId}\0${projectDir}`;
}

function promptsIn(open: Open | undefined, sources: readonly ToolSource[]): SlashCommand[] {
  return sources.flatMap((source) => promptsOf(open?.sources.get(source))).slice(0, PROMPTS);
}

/** Of a source that a stranger wrote: what is no command is left out. */
function promptsOf(opened: OpenTools | undefined): SlashCommand[] {
  try {
    const prompts: readonly (Partial<SlashCommand> | null)[] = opened?.prompts ?? [];
    return prompts.filter((one): one is SlashCommand => {
      const { name, description, hint, origin, prompt } = one ?? {};
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

/** All tools by name. Throws what is wrong with those of the source. */
function withTools(
  all: readonly Tool[],
  source: ToolSource,
  more: readonly Tool[] | Error | undefined,
): readonly Tool[] {
  if (more === undefined || more instanceof Error) throw more ?? new Error("it has no tools");
  const field = `tools of ${source.name}`;
  const own = byName(field, more);
  // One name that a provider refuses would fail every call of the run.
  const odd = own.find(({ name }) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name));
  if (odd) throw new InputError(field, `names of 1 to 64 letters, digits, _ and -, got ${JSON.stringify(odd.name)}`);
  return byName(field, [...all, ...own]);
}
