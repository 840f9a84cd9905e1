import { INTERRUPTED } from "../../conversation/messages.js";
import type { StateChanges } from "../../conversation/stored-state.js";
import type { Logger } from "../../ports/logger.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { Shown } from "../../ports/tool-display.js";
import type { Tool, ToolContext, ToolOutput } from "../../ports/tool.js";
import { onAbort } from "../../base/abort.js";
import { Paced } from "../../base/throttled-output.js";
import { CallHelpers } from "./subagents.js";
import { changedBy, recordChanges } from "./changed-files.js";
import { previewOf } from "./describe.js";
import { keptByHook, refusedByHook } from "./hooks.js";
import { NestedInstructions } from "../prompt/nested-instructions.js";
import {
  asker,
  canAsk,
  judged,
  NOT_RUN,
  questioner,
  refusal,
  refusedSince,
  type Asker,
  type Verdict,
} from "../permissions/evaluate.js";
import { historyOf } from "./file-history.js";
import { callOf, prepare, textOf, type Prepared } from "./prepare.js";
import type { RunContext } from "../context/run-context.js";
import { shownOf } from "./display.js";
import { Helpers } from "./spawn.js";
import { CallState } from "../tools/tool-state.js";
import { capText } from "../../base/cut-text.js";

/** Calls of one answer that may run at the same time. */
const AT_ONCE = 8;
/** After a cancel a tool may take so long, in ms, to say how it ended. */
const GRACE_MS = 400;

/** How a call ended. */
export interface ToolOutcome {
  call: ToolCallPart;
  output: ToolOutput;
  /** Whether it did not run because leave for it was refused. */
  refused: boolean;
  /** What it changed of the session's state. */
  state: StateChanges;
  /** What is stored of what it shows people. */
  shown: Shown | undefined;
}

/**
 * Run the calls of one answer: neighbours that allow it beside each other, the others alone and in order.
 * `onOutcome` is awaited for each call, exactly once, also for calls that a cancel kept from running.
 */
export async function runToolCalls(
  calls: readonly ToolCallPart[],
  messageId: string,
  run: RunContext,
  onOutcome: (outcome: ToolOutcome) => Promise<void>,
): Promise<void> {
  const prepared = calls.map((call) => prepare(call, run));
  const nested = new NestedInstructions(run);
  for (let i = 0; i < prepared.length;) {
    const group = [prepared[i]!];
    while (
      group.length < AT_ONCE &&
      group.every((one) => one.tool?.parallel) &&
      prepared[i + group.length]?.tool?.parallel
    ) {
      group.push(prepared[i + group.length]!);
    }
    i += group.length;
    const outcomes = await Promise.allSettled(
      group.map(async (one) => {
        // Before it is shown: whoever shows it knows at once whether a person is asked, or it runs.
        const verdict = await verdictOn(one, run);
        announce(one, messageId, run);
        const state = new CallState(run.state);
        const { output, refused = false } = await settle(one, verdict, { state, nested }, run);
        run.bus.emit("tool.finished", {
          runId: run.id,
          sessionId: run.sessionId,
          callId: one.call.id,
          name: one.call.name,
          failed: output.failed === true,
        });
        const shown = shownOf(output, run.limits.toolOutputBytes);
        await onOutcome({ call: one.call, output, refused, state: state.changes(), shown });
      }),
    );
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }
}

function announce(one: Prepared, messageId: string, run: RunContext): void {
  run.bus.emit("tool.started", {
    runId: run.id,
    sessionId: run.sessionId,
    callId: one.call.id,
    name: one.call.name,
  });
  run.events.push({
    type: "tool_call",
    messageId,
    callId: one.call.id,
    name: one.call.name,
    arguments: one.call.arguments,
    input: one.input,
    title: one.title,
    kind: one.tool?.kind ?? "other",
    locations: one.locations,
  });
}

/** Never rejects. */
async function verdictOn(one: Prepared, run: RunContext): Promise<Verdict> {
  if (one.refusal !== undefined || !one.tool) return { refused: one.refusal ?? "" };
  const verdict = await judged(callOf(one, one.tool, run), one.args, run);
  if (typeof verdict === "string" || !("askedBecause" in verdict)) return verdict;
  return { ...verdict, preview: await previewOf(one.tool, one.args, run) };
}

/** What a call has beside its arguments. */
interface Own {
  state: CallState;
  nested: NestedInstructions;
}

/** What a call brought, or that it was refused. */
type Settled = Pick<ToolOutcome, "output"> & { refused?: boolean };

/** Never rejects. */
async function settle(one: Prepared, verdict: Verdict, own: Own, run: RunContext): Promise<Settled> {
  const { signal } = run;
  if (signal.aborted) return { output: { text: NOT_RUN, failed: true } };
  if (!one.tool) return { output: { text: one.refusal ?? "", failed: true } };
  const progress = progressOf(one.call.id, run);
  const { call, tool } = one;
  const helpers = new CallHelpers(() => new Helpers(run, { id: call.id, tool: tool.name, state: own.state }, progress));
  const work = perform(one, tool, verdict, { ...own, progress, helpers }, run).finally(() => helpers.end());
  const settled = await withGrace(work, signal);
  progress.end();
  if (settled === undefined) {
    // One that takes its time to end leaves none of them behind.
    await helpers.end();
    void run.agent.stragglers.add(work);
    return { output: { text: INTERRUPTED, failed: true } };
  }
  return settled;
}

/** What a call prints, for whoever reads its run or watches its session. */
function progressOf(callId: string, { events, hooks, tail }: RunContext): Paced {
  return new Paced((text) => {
    // What the hook has not seen is nobody's to see.
    if (hooks.afterToolCall) return;
    events.push({ type: "tool_progress", callId, text });
    tail.printed(callId, text);
  });
}

/** The work's outcome; undefined when the signal aborted and the work did not end soon after. */
function withGrace(work: Promise<Settled>, signal: AbortSignal): Promise<Settled | undefined> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const forget = onAbort(signal, () => (timer = setTimeout(() => resolve(undefined), GRACE_MS)));
    void work.then((settled) => {
      clearTimeout(timer);
      forget();
      resolve(settled);
    });
  });
}

/** Never rejects. */
async function perform(
  one: Prepared,
  tool: Tool,
  verdict: Verdict,
  { state, nested, progress, helpers }: Own & { progress: Paced; helpers: CallHelpers },
  run: RunContext,
): Promise<Settled> {
  const { limits } = run;
  const call = callOf(one, tool, run);
  const { callId, sessionId, projectDir } = call;
  const isAsked = typeof verdict === "object" && "askedBecause" in verdict;
  const ask = asker(callId, tool, run, isAsked ? verdict.lasting : undefined);
  const own = asker(callId, tool, run);
  const barred =
    (await refusal(call, verdict, ask, run)) ??
    (await unstored(run)) ??
    (await refusedByHook(call, run)) ??
    (await refusedSince(call, verdict, run));
  if (barred !== undefined) {
    // Nobody refused what could not be read, or what a cancel was faster than.
    const refused = one.refusal === undefined && barred !== NOT_RUN;
    return { output: { text: capText(barred, limits.toolOutputBytes), failed: true }, refused };
  }
  let refused = false;
  const noted = async (answer: ReturnType<Asker>): ReturnType<Asker> => {
    refused = true;
    const said = await answer;
    refused = said === "reject";
    return said;
  };
  const history = historyOf(callId, run);
  const context: ToolContext = {
    runId: run.id,
    sessionId,
    callId,
    projectDir,
    folders: run.folders,
    signal: run.signal,
    // Of a session whose tools are free, one that asks by itself is as free as the others where nobody is there.
    ask: (request) =>
      canAsk(run) || run.conversation.session.mode !== "auto" ? noted(own(request)) : Promise.resolve("allow"),
    question: questioner(callId, tool, one.input, run),
    progress: (text) => progress.push(text),
    spawn: async (input) => helpers.made().spawn(input),
    state,
    ...history.context,
    skills: run.skills,
  };
  const returned = history.tell(await outputOf(tool, one.args, context, run.logger));
  const output = await keptByHook(call, await nested.with(returned, tool.kind, one.locations, state), run);
  recordChanges(changedBy(tool.kind, output, one), state, run);
  return {
    output: { ...output, text: capText(output.text, limits.toolOutputBytes) },
    refused: refused && !run.signal.aborted,
  };
}

/** Why a call cannot run that the disk should have by now. Never rejects. */
async function unstored({ recorder }: RunContext): Promise<string | undefined> {
  return recorder.onDisk.then(
    () => undefined,
    () => NOT_RUN,
  );
}

/** What a call brought, also when it failed. Never rejects. */
async function outputOf(tool: Tool, args: unknown, context: ToolContext, logger: Logger): Promise<ToolOutput> {
  try {
    const returned: unknown = await tool.run(args, context);
    // A tool written in JavaScript may return its text alone.
    if (typeof returned === "string") return { text: returned };
    if (typeof (returned as ToolOutput | undefined)?.text === "string") return returned as ToolOutput;
    logger.error("a tool returned no text: expected { text }", { tool: tool.name, returned: typeof returned });
    throw new Error("it did its work, but returned nothing that can be shown");
  } catch (error) {
    if (context.signal.aborted) return { text: INTERRUPTED, failed: true };
    logger.debug("a tool failed", { tool: tool.name, error });
    return { text: `${tool.name}: ${textOf(error)}`, failed: true };
  }
}
