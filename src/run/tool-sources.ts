import { abortable, deadline, settlesWithin } from "../base/abort.js";
import type { Bus } from "../base/bus.js";
import { TaskSet } from "../base/task-set.js";
import type { BusEvents } from "../ports/bus-events.js";
import { InputError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { SlashCommand } from "../ports/slash-command.js";
import type { Tool } from "../ports/tool.js";
import type { OpenTools, ToolSession, ToolSource } from "../ports/tool-source.js";
import { byName, type ToolList } from "./input.js";

/** For a source to open, and for one to close, in ms. */
const OPEN_MS = 30_000;
const CLOSE_MS = 2_500;
/** How long what was opened waits for the session's next run, in ms, and for how many sessions: each may be processes. */
const KEPT_MS = 300_000;
const KEPT = 32;
/** Commands of a session's sources. */
const PROMPTS = 256;

/** What is open for a session that works on one folder. */
interface Open {
  readonly sources: Map<ToolSource, OpenTools>;
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
  readonly #logger: Logger;
  readonly #times: { openMs: number; keptMs: number };
  /** The one longest unused comes first. */
  readonly #open = new Map<string, Open>();
  readonly #closing = new TaskSet();

  /** `kept`: sources whose tools outlive a run. */
  constructor(
    kept: readonly ToolSource[],
    bus: Bus<BusEvents>,
    logger: Logger,
    times = { openMs: OPEN_MS, keptMs: KEPT_MS },
  ) {
    this.#kept = new WeakSet(kept);
    this.#bus = bus;
    this.#logger = logger;
    this.#times = times;
    bus.on("session.deleted", ({ ids }) => {
      for (const [key, { runs }] of this.#open) if (runs === 0 && ids.includes(sessionOf(key))) this.#end(key);
    });
  }

  /** Rejects with the signal's reason alone: a source that fails is left out, and told of. */
  async open({ tools, sources, lasting = [] }: ToolList, wanted: ToolsWanted): Promise<ToolsOfRun> {
    for (const source of lasting) this.#kept.add(source);
    if (sources.length === 0) return { tools, missing: [], release: () => undefined };
    const key = keyOf(wanted);
    const open = this.#open.get(key) ?? { sources: new Map<ToolSource, OpenTools>(), tools: [], runs: 0 };
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
      return { tools: all, missing, release };
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

  /** What people may say by a command in a session that works on this folder, as far as its sources are open. */
  prompts(sessionId: string, projectDir: string): SlashCommand[] {
    const open = this.#open.get(keyOf({ sessionId, projectDir }));
    return [...(open?.sources.values() ?? [])].flatMap(promptsOf).slice(0, PROMPTS);
  }

  /** Close all, when no run goes on. */
  async close(): Promise<void> {
    for (const key of [...this.#open.keys()]) this.#end(key);
    await this.#closing.settled(CLOSE_MS);
  }

  /** Its tools as they are now, or why there are none. */
  async #toolsOf(source: ToolSource, open: Open, wanted: ToolsWanted): Promise<readonly Tool[] | Error> {
    try {
      const kept = open.sources.get(source);
      if (kept) return kept.tools;
      const opened = await this.#begin(source, wanted);
      open.sources.set(source, opened);
      return opened.tools;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  async #begin(source: ToolSource, { sessionId, projectDir, signal }: ToolsWanted): Promise<OpenTools> {
    const { openMs } = this.#times;
    const time = deadline(openMs, signal);
    const opening = (async () => source.open({ sessionId, projectDir }, time.signal))();
    try {
      const opened: Partial<OpenTools> | undefined = await abortable(opening, time.signal);
      if (typeof opened?.close !== "function") throw new InputError("open", "an object with tools and close");
      return opened as OpenTools;
    } catch (error) {
      // Should it open after all, it is not wanted any more.
      void this.#closing.add(opening.then((opened) => this.#shut(source, opened)));
      throw time.expired ? new Error(`it was not ready within ${openMs / 1000} s`) : error;
    } finally {
      time.clear();
    }
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
      void this.#closing.add(this.#shut(source, opened));
    }
    this.#open.delete(key);
    if (open.sources.size === 0) return;
    this.#open.set(key, open);
    open.timer = setTimeout(() => this.#end(key), this.#times.keptMs).unref();
    const idle = [...this.#open].filter(([, { runs }]) => runs === 0);
    for (const [oldest] of idle.slice(0, -KEPT)) this.#end(oldest);
  }

  #end(key: string): void {
    const open = this.#open.get(key);
    this.#open.delete(key);
    clearTimeout(open?.timer);
    for (const [source, opened] of open?.sources ?? []) void this.#closing.add(this.#shut(source, opened));
  }

  /** Never rejects. */
  async #shut(source: ToolSource, opened: OpenTools): Promise<void> {
    const fields = { source: source.name };
    const closing = (async () => opened.close())().catch((error: unknown) =>
      this.#logger.warn("a source of tools failed while closing", { ...fields, error }),
    );
    if (!(await settlesWithin(closing, CLOSE_MS)))
      this.#logger.warn("a source of tools did not close in time and is left behind", fields);
  }
}

function keyOf({ sessionId, projectDir }: ToolSession): string {
  return `${sessionId}\0${projectDir}`;
}

/** Of a source that a stranger wrote: what is no command is left out. */
function promptsOf(opened: OpenTools): SlashCommand[] {
  try {
    const prompts: readonly (Partial<SlashCommand> | null)[] = opened.prompts ?? [];
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
