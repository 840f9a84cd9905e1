import { onAbort } from "../../base/abort.js";
import { printable } from "../../base/printable.js";
import { TaskSet } from "../../base/task-set.js";
import type { Paced } from "../../base/throttled-output.js";
import { now } from "../../base/ids.js";
import { InputError } from "../../ports/errors.js";
import type { Run } from "../../ports/run.js";
import type { Session } from "../../ports/session.js";
import type { Helper, SpawnInput } from "../../ports/spawn.js";
import type { Tool } from "../../ports/tool.js";
import type { Usage } from "../../ports/usage.js";
import { newSession } from "../../sessions/new-session.js";
import { recordChanges } from "./changed-files.js";
import { checkInput } from "../input/run-input.js";
import { refusedInMode } from "../permissions/modes.js";
import type { RunContext, Spawned } from "../context/run-context.js";
import type { CallState } from "../tools/tool-state.js";

/** What a helper is told beside all that its asker is told. */
const HELPER =
  "You are a helper: another agent asked you for one piece of its work, and nobody else reads what you say. " +
  "It sees your last answer alone, and nothing of what you did before: let that answer stand by itself, with what was asked " +
  "for, where you found it (paths, lines), what you changed and ran, and what is left or in doubt. What you leave running in the background ends with you. " +
  "Nobody can be asked what was meant: decide, and say what you took for granted.";

/** Characters of a title, and of a line that tells what a helper does. */
const LONGEST = 120;

/** The tool call that spawns subagents. */
interface SpawningCall {
  readonly id: string;
  readonly tool: string;
  readonly state: CallState;
}

/** The helpers of one tool call. */
export class Helpers {
  readonly #run: RunContext;
  readonly #call: SpawningCall;
  readonly #progress: Pick<Paced, "push">;
  readonly #ended = new AbortController();
  readonly #tasks = new TaskSet();

  constructor(run: RunContext, call: SpawningCall, progress: Pick<Paced, "push">) {
    this.#run = run;
    this.#call = call;
    this.#progress = progress;
  }

  /** As `ToolContext.spawn`. */
  async spawn(input: SpawnInput): Promise<Helper> {
    const run = this.#run;
    const title = titleOf(input);
    const counted = new TaskSet();
    const maxIterations = iterationsOf(input, run);
    const { mode } = run.conversation.session;
    const { id: callId, state } = this.#call;
    const changes = (paths: readonly string[]) => recordChanges(paths, state, run);
    const spawned: Spawned = { asker: run, callId, title, mode, maxIterations, counted, recordChanges: changes };
    const ended = new AbortController();
    const ties = [run.signal, this.#ended.signal].map((one) => onAbort(one, () => ended.abort(one.reason)));
    const untie = () => ties.forEach((one) => one());
    try {
      const asked = {
        message: input.message,
        provider: run.provider.name,
        model: run.model.id,
        reasoningEffort: run.effort,
        projectDir: run.projectDir,
        systemPrompt: [run.extraPrompt, HELPER].filter((text) => text !== "").join("\n\n"),
        tools: toolsFor(input, run, this.#call.tool),
        askedAt: run.askedAt,
        folders: run.folders,
        signal: ended.signal,
        ...(input.budget && { budget: input.budget }),
      };
      checkInput(asked);
      const helper = await run.agent.spawn(asked, spawned);
      void this.#tasks.add(this.#follow(helper, spawned).finally(untie));
      const { id: runId, sessionId } = helper;
      const result = helper.result.then(({ output, endedBy, usage, iterations }) => ({
        output,
        endedBy,
        usage,
        iterations,
      }));
      // Whoever does not wait for it is told nothing.
      result.catch(() => undefined);
      return { runId, sessionId, result };
    } catch (error) {
      untie();
      throw error;
    }
  }

  /** The call has ended, and so do they. Never rejects. */
  async end(): Promise<void> {
    this.#ended.abort(new Error("the call that asked for it has ended"));
    await this.#tasks.settled();
  }

  /** Show what it does until it has ended, and what it spent is counted. Never rejects. */
  async #follow(helper: Run, { counted }: Spawned): Promise<void> {
    for await (const event of helper) if (event.type === "tool_call") this.#progress.push(`${oneLine(event.title)}\n`);
    await helper.result.catch(() => undefined);
    this.#run.allowance?.returned(helper.id);
    await this.#forgetWithAsker(helper);
    // Nobody goes on with what it left running.
    const works = new Set(this.#run.tools.flatMap(({ background }) => background ?? []));
    await Promise.allSettled([...works].map((work) => work.end(helper.sessionId)));
    await counted.settled();
  }

  /** Whoever deleted the asker's session elsewhere may not have seen this one yet: no list would ever show it. */
  async #forgetWithAsker({ sessionId }: Run): Promise<void> {
    const { signal, store, sessionId: asker, logger } = this.#run;
    if (!signal.aborted) return;
    try {
      if ((await store.get(asker)) === undefined) await store.delete([sessionId]);
    } catch (error) {
      logger.debug("whether a helper's session is to go with its asker's could not be told", { error });
    }
  }
}

/** The session that a helper's run begins. */
export function helpersSession({ asker, callId, title, mode }: Spawned, projectDir: string): Session {
  const spawnedBy = { sessionId: asker.sessionId, runId: asker.id, callId };
  return { ...newSession({ title }, { projectDir, mode }), titled: true, spawnedBy };
}

/** Count what a helper used in its asker's run and session, at once. */
export function countIn({ asker, counted }: Spawned, runId: string, usage: Usage): void {
  const { recorder, allowance, logger } = asker;
  const amount = allowance?.lentTo(runId);
  const written = recorder.write({ sync: false, usage, set: { updatedAt: now() } }).then(
    () => undefined,
    // Whatever keeps it from being stored ends that run by itself.
    (error: unknown) => logger.debug("what a helper used was not stored with its asker", { error }),
  );
  void counted.add(written.finally(() => allowance?.returned(runId, amount)));
}

function titleOf({ message, title }: SpawnInput): string {
  if (typeof message !== "string" || message.trim() === "") throw new InputError("message", "a text that is not empty");
  if (typeof title !== "string" || title.trim() === "") throw new InputError("title", "a text that is not empty");
  return oneLine(title);
}

function iterationsOf({ maxIterations = Infinity }: SpawnInput, { limits }: RunContext): number {
  if (maxIterations !== Infinity && (!Number.isSafeInteger(maxIterations) || maxIterations < 1))
    throw new InputError("maxIterations", "a whole number, at least 1");
  return Math.min(maxIterations, limits.iterations);
}

/** Throws `InputError` for a name that the run has no tool of. */
function toolsFor({ tools: names, readOnly = false }: SpawnInput, run: RunContext, asking: string): readonly Tool[] {
  const may = run.tools.filter(({ name, needsPerson }) => name !== asking && needsPerson !== true);
  if (names !== undefined && (!Array.isArray(names) || !names.every((name) => may.some((tool) => tool.name === name))))
    throw new InputError("tools", `a list with some of ${may.map(({ name }) => name).join(", ") || "(none)"}`);
  const chosen = names === undefined ? may : may.filter(({ name }) => names.includes(name));
  return readOnly ? chosen.filter((tool) => refusedInMode("plan", tool) === undefined) : chosen;
}

function oneLine(text: string): string {
  const line = printable(text.trim().replace(/\s+/g, " "));
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
}
