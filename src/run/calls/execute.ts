import { INTERRUPTED } from "../../conversation/messages.js";
import type { StateChanges } from "../../conversation/stored-state.js";
import type { Logger } from "../../ports/logger.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { ToolDisplay } from "../../ports/tool-display.js";
import type { Tool, ToolContext, ToolOutput } from "../../ports/tool.js";
import { onAbort } from "../../base/abort.js";
import { ThrottledOutput } from "../../base/throttled-output.js";
import { CallSubagents } from "./subagents.js";
import { changedBy, recordChanges } from "./changed-files.js";
import { previewCall } from "./describe.js";
import { applyAfterHook, deniedByHook } from "./hooks.js";
import { NestedInstructions } from "../prompt/nested-instructions.js";
import {
  createRequestPermission,
  hasResponder,
  evaluate,
  NOT_RUN,
  createAskUser,
  denialReason,
  recheckMode,
  type RequestPermission,
  type Verdict,
} from "../permissions/evaluate.js";
import { callFileHistory } from "./file-history.js";
import { readCall, prepare, textOf, type Prepared } from "./prepare.js";
import type { RunContext } from "../context/run-context.js";
import { toToolDisplay } from "./display.js";
import { Subagents } from "./spawn.js";
import { CallState } from "../tools/tool-state.js";
import { capText } from "../../base/cut-text.js";

/** Maximum calls of one answer that run at the same time. */
const MAX_CONCURRENT_CALLS = 8;
/** Time for a tool to report its outcome after a cancel, in ms. */
const CANCEL_GRACE_MS = 400;

/** The outcome of a call. */
export interface ToolOutcome {
  call: ToolCallPart;
  output: ToolOutput;
  /** Whether the call did not run because permission was denied. */
  refused: boolean;
  /** Changes of the session's state by the call. */
  state: StateChanges;
  /** Stored display data; undefined if there is none. */
  shown: ToolDisplay | undefined;
}

/**
 * Runs the calls of one answer. Adjacent calls of parallel tools run concurrently, the others one by one in order.
 * `onOutcome` is awaited exactly once for each call, including calls that a cancel prevented.
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
      group.length < MAX_CONCURRENT_CALLS &&
      group.every((preparedCall) => preparedCall.tool?.parallel) &&
      prepared[i + group.length]?.tool?.parallel
    ) {
      group.push(prepared[i + group.length]!);
    }
    i += group.length;
    const outcomes = await Promise.allSettled(
      group.map(async (preparedCall) => {
        // Before the call is announced, so that clients know at once whether it needs permission or runs.
        const verdict = await evaluateCall(preparedCall, run);
        announce(preparedCall, messageId, run);
        const state = new CallState(run.state);
        const { output, refused = false } = await runCall(preparedCall, verdict, { state, nested }, run);
        run.bus.emit("tool.finished", {
          runId: run.id,
          sessionId: run.sessionId,
          callId: preparedCall.call.id,
          name: preparedCall.call.name,
          failed: output.failed === true,
        });
        const shown = toToolDisplay(output, run.limits.toolOutputBytes);
        await onOutcome({ call: preparedCall.call, output, refused, state: state.changes(), shown });
      }),
    );
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }
}

function announce(preparedCall: Prepared, messageId: string, run: RunContext): void {
  run.bus.emit("tool.started", {
    runId: run.id,
    sessionId: run.sessionId,
    callId: preparedCall.call.id,
    name: preparedCall.call.name,
  });
  run.events.push({
    type: "tool_call",
    messageId,
    callId: preparedCall.call.id,
    name: preparedCall.call.name,
    arguments: preparedCall.call.arguments,
    input: preparedCall.input,
    title: preparedCall.title,
    kind: preparedCall.tool?.kind ?? "other",
    locations: preparedCall.locations,
  });
}

/** Never rejects. */
async function evaluateCall(preparedCall: Prepared, run: RunContext): Promise<Verdict> {
  if (preparedCall.refusal !== undefined || !preparedCall.tool) return { refused: preparedCall.refusal ?? "" };
  const verdict = await evaluate(readCall(preparedCall, preparedCall.tool, run), preparedCall.args, run);
  if (typeof verdict === "string" || !("askReason" in verdict)) return verdict;
  return { ...verdict, preview: await previewCall(preparedCall.tool, preparedCall.args, run) };
}

/** The resources of a call besides its arguments. */
interface CallResources {
  state: CallState;
  nested: NestedInstructions;
}

/** The output of a call, and whether permission was denied. */
type CallResult = Pick<ToolOutcome, "output"> & { refused?: boolean };

/** Never rejects. */
async function runCall(
  preparedCall: Prepared,
  verdict: Verdict,
  resources: CallResources,
  run: RunContext,
): Promise<CallResult> {
  const { signal } = run;
  if (signal.aborted) return { output: { text: NOT_RUN, failed: true } };
  if (!preparedCall.tool) return { output: { text: preparedCall.refusal ?? "", failed: true } };
  const progress = progressOf(preparedCall.call.id, run);
  const { call, tool } = preparedCall;
  const helpers = new CallSubagents(
    () => new Subagents(run, { id: call.id, tool: tool.name, state: resources.state }, progress),
  );
  const work = perform(preparedCall, tool, verdict, { ...resources, progress, helpers }, run).finally(() =>
    helpers.end(),
  );
  const settled = await withGrace(work, signal);
  progress.end();
  if (settled === undefined) {
    // A tool that is slow to end must not leave subagents running.
    await helpers.end();
    void run.agent.unsettledTools.add(work);
    return { output: { text: INTERRUPTED, failed: true } };
  }
  return settled;
}

/** Forwards the output that a call prints to the run's reader and to watchers of the session. */
function progressOf(callId: string, { events, hooks, tail }: RunContext): ThrottledOutput {
  return new ThrottledOutput((text) => {
    // Output must not be shown before the `afterToolCall` hook has seen it.
    if (hooks.afterToolCall) return;
    events.push({ type: "tool_progress", callId, text });
    tail.appendProgress(callId, text);
  });
}

/** The outcome of the work; undefined if it does not end within the grace period after an abort. */
function withGrace(work: Promise<CallResult>, signal: AbortSignal): Promise<CallResult | undefined> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const forget = onAbort(signal, () => (timer = setTimeout(() => resolve(undefined), CANCEL_GRACE_MS)));
    void work.then((settled) => {
      clearTimeout(timer);
      forget();
      resolve(settled);
    });
  });
}

/** Never rejects. */
async function perform(
  preparedCall: Prepared,
  tool: Tool,
  verdict: Verdict,
  { state, nested, progress, helpers }: CallResources & { progress: ThrottledOutput; helpers: CallSubagents },
  run: RunContext,
): Promise<CallResult> {
  const { limits } = run;
  const call = readCall(preparedCall, tool, run);
  const { callId, sessionId, projectDir } = call;
  const isAsked = typeof verdict === "object" && "askReason" in verdict;
  const ask = createRequestPermission(callId, tool, run, isAsked ? verdict.grantKey : undefined);
  const requestForTool = createRequestPermission(callId, tool, run);
  const barred =
    (await denialReason(call, verdict, ask, run)) ??
    (await storeFailure(run)) ??
    (await deniedByHook(call, run)) ??
    (await recheckMode(call, verdict, run));
  if (barred !== undefined) {
    // Invalid arguments and calls that a cancel prevented do not count as denied.
    const refused = preparedCall.refusal === undefined && barred !== NOT_RUN;
    return { output: { text: capText(barred, limits.toolOutputBytes), failed: true }, refused };
  }
  let refused = false;
  const noted = async (answer: ReturnType<RequestPermission>): ReturnType<RequestPermission> => {
    refused = true;
    const decision = await answer;
    refused = decision === "reject";
    return decision;
  };
  const history = callFileHistory(callId, run);
  const context: ToolContext = {
    runId: run.id,
    sessionId,
    callId,
    projectDir,
    folders: run.folders,
    signal: run.signal,
    // In mode `auto` without a responder, a tool's own permission request is allowed, like every other call.
    ask: (request) =>
      hasResponder(run) || run.conversation.session.mode !== "auto"
        ? noted(requestForTool(request))
        : Promise.resolve("allow"),
    askUser: createAskUser(callId, tool, preparedCall.input, run),
    progress: (text) => progress.push(text),
    spawn: async (input) => helpers.getOrCreate().spawn(input),
    state,
    ...history.context,
    skills: run.skills,
  };
  const returned = history.addNote(await outputOf(tool, preparedCall.args, context, run.logger));
  const output = await applyAfterHook(call, await nested.with(returned, tool.kind, preparedCall.locations, state), run);
  recordChanges(changedBy(tool.kind, output, preparedCall), state, run);
  return {
    output: { ...output, text: capText(output.text, limits.toolOutputBytes) },
    refused: refused && !run.signal.aborted,
  };
}

/**
 * Why a call cannot run because the preceding messages could not be stored; undefined if they are on disk. Never
 * rejects.
 */
async function storeFailure({ recorder }: RunContext): Promise<string | undefined> {
  return recorder.onDisk.then(
    () => undefined,
    () => NOT_RUN,
  );
}

/** The output of a call, also if it failed. Never rejects. */
async function outputOf(tool: Tool, args: unknown, context: ToolContext, logger: Logger): Promise<ToolOutput> {
  try {
    const returned: unknown = await tool.run(args, context);
    // A tool written in JavaScript may return plain text.
    if (typeof returned === "string") return { text: returned };
    if (typeof (returned as ToolOutput | undefined)?.text === "string") return returned as ToolOutput;
    logger.error("tool returned no text; expected { text }", { tool: tool.name, returned: typeof returned });
    throw new Error("it did its work, but returned nothing that can be shown");
  } catch (error) {
    if (context.signal.aborted) return { text: INTERRUPTED, failed: true };
    logger.debug("tool failed", { tool: tool.name, error });
    return { text: `${tool.name}: ${textOf(error)}`, failed: true };
  }
}
