import { createDeadline } from "../../base/abort.js";
import { toPrintable } from "../../base/printable.js";
import { TaskSet } from "../../base/task-set.js";
import type { ThrottledOutput } from "../../base/throttled-output.js";
import { nowNotBefore } from "../../base/ids.js";
import { InputError } from "../../ports/errors.js";
import type { Run } from "../../ports/run.js";
import type { Session } from "../../ports/session.js";
import type { Subagent, SpawnInput } from "../../ports/spawn.js";
import type { Tool } from "../../ports/tool.js";
import type { Usage } from "../../ports/usage.js";
import { createNewSession } from "../../sessions/new-session.js";
import { recordChanges } from "./display.js";
import { findModeDenial } from "../permissions/modes.js";
import type { SubagentCall } from "../context/agent-services.js";
import type { RunContext } from "../context/run-context.js";
import type { CallState } from "../tools/tool-state.js";

/** Appended to the parent's instructions in a subagent's system prompt. */
const SUBAGENT_INSTRUCTIONS =
  "You are a subagent. Another agent delegated one task to you and reads only your final answer, nothing before it. " +
  "Make that answer self-contained: the result, where you found it (paths, lines), what you changed and ran, and what remains or is in doubt. " +
  "Background commands end with you. You cannot ask questions: decide, and report your assumptions.";

/** Maximum characters of a title or of a progress line. */
const MAX_TITLE_CHARACTERS = 120;

/** The tool call that spawns subagents. `tool`: name of the tool. */
interface CallReference {
  readonly id: string;
  readonly tool: string;
  readonly state: CallState;
}

/** The subagents of one tool call. */
export class Subagents {
  readonly #run: RunContext;
  readonly #call: CallReference;
  readonly #progress: Pick<ThrottledOutput, "push">;
  readonly #endController = new AbortController();
  readonly #tasks = new TaskSet();

  constructor(run: RunContext, call: CallReference, progress: Pick<ThrottledOutput, "push">) {
    this.#run = run;
    this.#call = call;
    this.#progress = progress;
  }

  /** Implements `ToolContext.spawn`. */
  async spawn(input: SpawnInput): Promise<Subagent> {
    const run = this.#run;
    const { provider, model, effort, extraPrompt } = run.model;
    const { projectDir, folders } = run.info;
    const title = readTitle(input);
    const usageTasks = new TaskSet();
    const maxIterations = readMaxIterations(input, run.budget.limits.iterations);
    const { mode } = run.session.conversation.session;
    const tools = selectTools(input, run.tools.inheritable, this.#call.tool);
    const sourceInstructions = run.tools.sourceInstructions.filter(({ source }) =>
      tools.some(({ origin }) => origin?.startsWith(`${source}/`)),
    );
    const { id: callId, state } = this.#call;
    const parentCall: SubagentCall = {
      ...{ parentRun: run, callId, title, mode, maxIterations, sourceInstructions, usageTasks },
      recordChanges: (paths) => recordChanges(paths, state, run.info),
    };
    const { signal, clear } = createDeadline(undefined, run.signal, this.#endController.signal);
    try {
      const runInput = {
        message: input.message,
        provider: provider.name,
        model: model.id,
        reasoningEffort: effort,
        projectDir,
        systemPrompt: [extraPrompt, SUBAGENT_INSTRUCTIONS].filter((text) => text !== "").join("\n\n"),
        tools,
        clientName: run.permissions.clientName,
        logFields: run.info.logFields,
        folders,
        signal,
        ...(input.budget && { budget: input.budget }),
      };
      const subagent = await run.agent.spawn(runInput, parentCall);
      void this.#tasks.add(this.#followSubagent(subagent, parentCall).finally(clear));
      const { id: runId, sessionId } = subagent;
      const result = subagent.result.then(({ output, endedBy, usage, iterations }) => {
        return { output, endedBy, usage, iterations };
      });
      // A caller that does not wait for the result must not cause an unhandled rejection.
      result.catch(() => undefined);
      return { runId, sessionId, result };
    } catch (error) {
      clear();
      throw error;
    }
  }

  /** Cancels the subagents when the call ends, and waits for them. Never rejects. */
  async end(): Promise<void> {
    this.#endController.abort(new Error("the parent tool call has ended"));
    await this.#tasks.settled();
  }

  /** Shows a subagent's progress until it ends and its usage is counted. Never rejects. */
  async #followSubagent(subagent: Run, { usageTasks }: SubagentCall): Promise<void> {
    for await (const event of subagent)
      if (event.type === "tool_call") this.#progress.push(`${toOneLine(event.title)}\n`);
    await subagent.result.catch(() => undefined);
    this.#run.budget.allowance?.releaseReservation(subagent.id);
    await this.#deleteIfOrphaned(subagent);
    // No other run will use the background work that the subagent left running.
    const backgroundWorks = new Set(this.#run.tools.list.flatMap(({ background }) => background ?? []));
    await Promise.allSettled([...backgroundWorks].map((work) => work.end(subagent.sessionId)));
    await usageTasks.settled();
  }

  /** Deletes the subagent's session if another process deleted the parent's: no list would show it. */
  async #deleteIfOrphaned({ sessionId }: Run): Promise<void> {
    const { signal, info, session, channels } = this.#run;
    const { store } = session;
    if (!signal.aborted) return;
    try {
      if ((await store.get(info.sessionId)) === undefined) await store.delete([sessionId]);
    } catch (error) {
      channels.logger.debug("orphaned subagent session could not be checked; it is kept", { error });
    }
  }
}

export function createSubagentSession({ parentRun, callId, title, mode }: SubagentCall, projectDir: string): Session {
  const spawnedBy = { sessionId: parentRun.info.sessionId, runId: parentRun.info.id, callId };
  const { owner, shared } = parentRun.session.conversation.session;
  const session = createNewSession({ title, owner }, { projectDir, mode }, parentRun.session.store);
  return { ...session, hasFinalTitle: true, spawnedBy, ...(shared && { shared }) };
}

/** Adds the usage of a subagent to its parent's run and session immediately. */
export function addUsageToParent({ parentRun, usageTasks }: SubagentCall, runId: string, usage: Usage): void {
  const { recorder, store } = parentRun.session;
  const { allowance } = parentRun.budget;
  const amount = allowance?.findReservation(runId);
  const set = { updatedAt: nowNotBefore(recorder.run.startedAt, store) };
  const usageWrite = recorder.write({ sync: false, usage, set }).then(
    () => undefined,
    // The error that prevents the write also ends the parent run.
    (error: unknown) => parentRun.channels.logger.debug("subagent usage was not stored in the parent run", { error }),
  );
  void usageTasks.add(usageWrite.finally(() => allowance?.releaseReservation(runId, amount)));
}

function readTitle({ message, title }: SpawnInput): string {
  if (typeof message !== "string" || message.trim() === "") throw new InputError("message", "a text that is not empty");
  if (typeof title !== "string" || title.trim() === "") throw new InputError("title", "a text that is not empty");
  return toOneLine(title);
}

function readMaxIterations({ maxIterations = Infinity }: SpawnInput, limit: number): number {
  if (maxIterations !== Infinity && (!Number.isSafeInteger(maxIterations) || maxIterations < 1))
    throw new InputError("maxIterations", "a whole number, at least 1");
  return Math.min(maxIterations, limit);
}

/** Selects the tools of a subagent. Throws `InputError` for a name that is not a tool of the run. */
function selectTools(
  { tools: names, readOnly = false }: SpawnInput,
  tools: readonly Tool[],
  spawningTool: string,
): readonly Tool[] {
  const allowedTools = tools.filter(({ name, needsUser }) => name !== spawningTool && needsUser !== true);
  if (
    names !== undefined &&
    (!Array.isArray(names) || !names.every((name) => allowedTools.some((tool) => tool.name === name)))
  )
    throw new InputError("tools", `a list with some of ${allowedTools.map(({ name }) => name).join(", ") || "(none)"}`);
  const selectedTools = names === undefined ? allowedTools : allowedTools.filter(({ name }) => names.includes(name));
  return readOnly ? selectedTools.filter((tool) => findModeDenial("plan", tool) === undefined) : selectedTools;
}

function toOneLine(text: string): string {
  const singleLine = toPrintable(text.trim().replace(/\s+/g, " "));
  return singleLine.length > MAX_TITLE_CHARACTERS ? `${singleLine.slice(0, MAX_TITLE_CHARACTERS - 1)}…` : singleLine;
}
