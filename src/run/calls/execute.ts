import { INTERRUPTED_CALL_RESULT } from "../../conversation/messages.js";
import type { StateChanges } from "../../conversation/conversation.js";
import { RunCancelledError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { ToolDisplay } from "../../ports/tool-display.js";
import type { Tool, ToolCall, ToolContext, ToolOutput } from "../../ports/tool.js";
import { onAbort } from "../../base/abort.js";
import { ThrottledOutput } from "../../base/throttled-output.js";
import { withAlternative } from "./call-dialects.js";
import { applyAfterHook, findHookDenial } from "./hooks.js";
import { NestedInstructions } from "../prompt/nested-instructions.js";
import { CANCELLED_TEXT, evaluate, recheckMode, type Verdict } from "../permissions/evaluate.js";
import { hasResponder } from "../permissions/modes.js";
import {
  createAskUser,
  createPermissionRequester,
  findDenialReason,
  type PermissionRequester,
} from "../permissions/permission-request.js";
import { createCallFileHistory } from "./file-history.js";
import { formatError, prepareCall, previewCall, toToolCall, type PreparedCall } from "./prepare.js";
import type { RunContext } from "../context/run-context.js";
import { listChangedPaths, recordChanges, toToolDisplay } from "./display.js";
import { Subagents } from "./spawn.js";
import { CallState } from "../tools/tool-state.js";
import { capText } from "../../base/cut-text.js";

/** Maximum calls of one answer that run at the same time. */
const MAX_CONCURRENT_CALLS = 8;
/** Time for a tool to report its outcome after a cancel, in ms. */
const CANCEL_GRACE_MS = 400;

export interface ToolOutcome {
  call: ToolCallPart;
  output: ToolOutput;
  /** Whether the call did not run because permission was denied. */
  refused: boolean;
  /** Changes of the session's state by the call. */
  state: StateChanges;
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
  const { list } = run.tools;
  const preparedCalls = await Promise.all(
    calls.map((call) => withAlternative(prepareCall(call, list, run.info.projectDir, run.channels.logger), list)),
  );
  const nestedInstructions = new NestedInstructions({
    project: run.agent.project,
    projectDir: run.info.projectDir,
    conversation: run.session.conversation,
    toolOutputBytes: run.budget.limits.toolOutputBytes,
  });
  for (let i = 0; i < preparedCalls.length;) {
    const isParallel = (index: number) => preparedCalls[index]?.tool?.parallel === true;
    let end = i + 1;
    while (isParallel(i) && isParallel(end) && end < i + MAX_CONCURRENT_CALLS) end += 1;
    const group = preparedCalls.slice(i, end);
    i = end;
    const outcomes = await Promise.allSettled(
      group.map(async (preparedCall) => {
        // The verdict comes before the announcement, so that clients know at once whether the call needs permission.
        const verdict = await evaluateWithPreview(preparedCall, run);
        const ids = announceCall(preparedCall, messageId, run);
        const state = new CallState(run.session.state);
        const { output, refused = false } = await runCall(preparedCall, verdict, { state, nestedInstructions }, run);
        const { text, failed = false } = output;
        run.channels.bus.emit("tool.finished", { ...ids, failed, refused, output: text });
        const shown = toToolDisplay(output, run.budget.limits.toolOutputBytes);
        await onOutcome({ call: preparedCall.call, output, refused, state: state.collectChanges(), shown });
      }),
    );
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }
}

/** Reports the start of a call. Returns the ids of the call for the report of its end. */
function announceCall(preparedCall: PreparedCall, messageId: string, { info, channels }: RunContext) {
  const { call, tool, input, title, kind, locations } = preparedCall;
  const { id: callId, name, arguments: args } = call;
  const { id: runId, sessionId } = info;
  const ids = { runId, sessionId, callId, name, isOffered: tool !== undefined, origin: tool?.origin };
  channels.bus.emit("tool.started", { ...ids, arguments: args });
  const description = { input, title, kind, locations };
  channels.events.push({ type: "tool_call", messageId, callId, name, arguments: args, ...description });
  return ids;
}

/** Evaluates a call. Adds the tool's preview if a person decides on the call. Never rejects. */
async function evaluateWithPreview(preparedCall: PreparedCall, run: RunContext): Promise<Verdict> {
  if (preparedCall.refusal !== undefined || !preparedCall.tool) return { denialReason: preparedCall.refusal ?? "" };
  const verdict = await evaluate(toToolCall(preparedCall, preparedCall.tool, run.info), preparedCall.args, run);
  if (typeof verdict === "string" || !("askReason" in verdict)) return verdict;
  return {
    ...verdict,
    preview: await previewCall(preparedCall.tool, preparedCall.args, { ...run.info, signal: run.signal }),
  };
}

interface CallResources {
  state: CallState;
  nestedInstructions: NestedInstructions;
}

type PerformResources = CallResources & { progress: ThrottledOutput; spawn: ToolContext["spawn"] };

type CallResult = Pick<ToolOutcome, "output"> & { refused?: boolean };

/** Runs a call and ends its subagents. Never rejects. */
async function runCall(
  preparedCall: PreparedCall,
  verdict: Verdict,
  resources: CallResources,
  run: RunContext,
): Promise<CallResult> {
  const { signal } = run;
  if (signal.aborted) return { output: { text: CANCELLED_TEXT, failed: true } };
  if (!preparedCall.tool) return { output: { text: preparedCall.refusal ?? "", failed: true } };
  const progress = createProgress(preparedCall.call.id, run);
  const { call, tool } = preparedCall;
  // Created at the first spawn, because most calls spawn none.
  let subagents: Subagents | undefined;
  let hasEnded = false;
  const spawn: ToolContext["spawn"] = async (input) => {
    // No caller would wait for a subagent that starts after the call ended.
    if (hasEnded) throw new RunCancelledError();
    subagents ??= new Subagents(run, { id: call.id, tool: tool.name, state: resources.state }, progress);
    return subagents.spawn(input);
  };
  const endSubagents = async () => {
    hasEnded = true;
    await subagents?.end();
  };
  const work = performCall(preparedCall, tool, verdict, { ...resources, progress, spawn }, run).finally(endSubagents);
  const result = await waitWithGrace(work, signal);
  progress.end();
  if (result === undefined) {
    // A tool that is slow to end must not leave subagents running.
    await endSubagents();
    void run.agent.tools.unsettled.add(work);
    return { output: { text: INTERRUPTED_CALL_RESULT, failed: true } };
  }
  return result;
}

/** Forwards the output that a call prints to the run's reader and to watchers of the session. */
function createProgress(callId: string, { channels: { events, tail }, tools: { hooks } }: RunContext): ThrottledOutput {
  return new ThrottledOutput((text) => {
    // Output must not be shown before the `afterToolCall` hook has seen it.
    if (hooks.afterToolCall) return;
    events.push({ type: "tool_progress", callId, text });
    tail.appendProgress(callId, text);
  });
}

/** Returns the result of the work; undefined if it does not end within the grace period after an abort. */
function waitWithGrace(work: Promise<CallResult>, signal: AbortSignal): Promise<CallResult | undefined> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const removeListener = onAbort(signal, () => (timer = setTimeout(() => resolve(undefined), CANCEL_GRACE_MS)));
    void work.then((result) => {
      clearTimeout(timer);
      removeListener();
      resolve(result);
    });
  });
}

/** Checks the permission of a call, then runs its tool and the hooks. Never rejects. */
async function performCall(
  preparedCall: PreparedCall,
  tool: Tool,
  verdict: Verdict,
  resources: PerformResources,
  run: RunContext,
): Promise<CallResult> {
  const { toolOutputBytes } = run.budget.limits;
  const call = toToolCall(preparedCall, tool, run.info);
  const hookScope = { hooks: run.tools.hooks, signal: run.signal, logger: run.channels.logger };
  const grantScope = typeof verdict === "object" && "askReason" in verdict ? verdict.grantScope : undefined;
  const requestPermission = createPermissionRequester(call.callId, tool, run, grantScope);
  const denialReason =
    (await findDenialReason(call, verdict, requestPermission, run)) ??
    // The call does not run if the preceding messages could not be stored.
    (await run.session.recorder.onDisk.then(
      () => undefined,
      () => CANCELLED_TEXT,
    )) ??
    (await findHookDenial(call, hookScope)) ??
    (await recheckMode(call, verdict, run, run.tools.hooks.beforeToolCall !== undefined));
  if (denialReason !== undefined) {
    // Invalid arguments and calls that a cancel prevented do not count as denied.
    const refused = preparedCall.refusal === undefined && denialReason !== CANCELLED_TEXT;
    return { output: { text: capText(denialReason, toolOutputBytes), failed: true }, refused };
  }
  const permission = { isDenied: false };
  const history = createCallFileHistory(call.callId, run.agent.tools.fileHistory, run);
  const [backgroundSignal, stopWaiting] = run.channels.inbox.waitForBackground(call.callId);
  const context: ToolContext = {
    ...createToolContext(call, resources, run, permission),
    ...history.context,
    backgroundSignal,
  };
  const toolOutput = history.addNote(
    await runTool(tool, preparedCall.args, context, run.channels.logger).finally(stopWaiting),
  );
  const { state, nestedInstructions } = resources;
  const extendedOutput = await nestedInstructions.appendTo(toolOutput, tool.kind, preparedCall.locations, state);
  const output = await applyAfterHook(call, extendedOutput, hookScope);
  recordChanges(listChangedPaths(tool.kind, output, preparedCall.locations), state, run.info);
  return {
    output: { ...output, text: capText(output.text, toolOutputBytes) },
    refused: permission.isDenied && !run.signal.aborted,
  };
}

/** Creates the context of a tool. `permission.isDenied` is set while the tool's own request is denied or unanswered. */
function createToolContext(
  { callId, sessionId, projectDir, tool, input }: ToolCall,
  { state, progress, spawn }: PerformResources,
  run: RunContext,
  permission: { isDenied: boolean },
): ToolContext {
  const askForTool = createPermissionRequester(callId, tool, run);
  const trackAnswer = async (answer: ReturnType<PermissionRequester>): ReturnType<PermissionRequester> => {
    permission.isDenied = true;
    const decision = await answer;
    permission.isDenied = decision === "reject";
    return decision;
  };
  return {
    runId: run.info.id,
    sessionId,
    callId,
    projectDir,
    folders: run.info.folders,
    signal: run.signal,
    // In mode `auto` without a responder, a tool's own permission request is allowed, like every other call.
    ask: (request) =>
      hasResponder(run) || run.session.conversation.session.mode !== "auto"
        ? trackAnswer(askForTool(request))
        : Promise.resolve("allow"),
    askUser: createAskUser(callId, tool, input, run),
    progress: (text) => progress.push(text),
    spawn,
    state,
    skills: run.tools.skills,
    searchWeb: async (query, signal) => (await import("./provider-search.js")).searchWithProvider(run, query, signal),
  };
}

/** Runs a tool and returns its output, also if it failed. Never rejects. */
async function runTool(tool: Tool, args: unknown, context: ToolContext, logger: Logger): Promise<ToolOutput> {
  try {
    const toolResult: unknown = await tool.run(args, context);
    // A tool written in JavaScript may return plain text.
    if (typeof toolResult === "string") return { text: toolResult };
    if (typeof (toolResult as ToolOutput | undefined)?.text === "string") return toolResult as ToolOutput;
    logger.error("tool returned no text; expected { text }", { tool: tool.name, returned: typeof toolResult });
    throw new Error("the tool ran, but returned no text");
  } catch (error) {
    if (context.signal.aborted) return { text: INTERRUPTED_CALL_RESULT, failed: true };
    logger.debug("tool failed", { tool: tool.name, error });
    return { text: `${tool.name}: ${formatError(error)}`, failed: true };
  }
}
