import type { Agent, AgentEvent, AskReply, AskRequest, Logger, Run, RunInput, RunResult, Session } from "gantry";
import { newId } from "gantry/plugin";
import { registerClient, type AcpClient } from "./client.js";
import { toFailureText, isCancellation, RpcError } from "./errors.js";
import type { OpenSession, OwnRun } from "./open-session.js";
import { askClient, toPermissionQuestion } from "./permission.js";
import { readPlan } from "./plan.js";
import type { ClientProfile } from "./profile.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import type { PromptInput } from "./prompt-input.js";
import { ReportedCalls } from "./reported-calls.js";
import { RunUsage } from "./run-usage.js";
import type { Turn } from "./turns.js";
import {
  toFinishedResult,
  toNotice,
  toRetryUpdates,
  toTextBlock,
  toRunUpdates,
  toUsageUpdate,
  toWaitUpdates,
} from "./updates.js";
import { ERROR_CODES, type Profile, type PromptResult, type SessionUpdate } from "./wire.js";

/** A prompt and the dependencies of its run. */
export interface PromptContext extends ClientProfile {
  agent: Agent;
  logger: Logger;
  session: Session;
  /** State of the session in this client. */
  openSession: OpenSession;
  input: PromptInput;
  client: AcpClient;
  /** Name of the client in stored answers. */
  clientName: string;
  /** As in `RunInput`. */
  logFields?: RunInput["logFields"];
  /** Whether the client answers the questions of the run. */
  canAsk: boolean;
  /** Whether tools that need permission ask in every mode of the session, also in `auto`. */
  alwaysAsk: boolean;
  /** Whether the client supports `compaction_update`; otherwise only a message is sent. */
  supportsCompactionUpdates: boolean;
  send(update: SessionUpdate): void;
  /** Called once, when the run has started. */
  onStarted(): void;
  /** Resolves when the client can take more updates; undefined if the client can take more now. */
  waitUntilReady(): Promise<void> | undefined;
}

/** Error codes of runs that never started: they fail the request instead of giving a failed result. */
const REQUEST_ERROR_CODES: ReadonlySet<string> = new Set([
  "attachment",
  "invalid_input",
  "session_busy",
  "session_not_found",
  "shutting_down",
  "too_many_runs",
]);

/**
 * Runs one prompt to its end. Rejects if the run could not start, or with `RpcError` and profile `official` if it
 * failed. Sends nothing after the turn was answered.
 */
export async function runPrompt(turn: Turn, context: PromptContext): Promise<PromptResult> {
  const { agent, session, openSession, profile, logger, client } = context;
  const send = (update: SessionUpdate) => {
    if (!turn.isAnswered) context.send(update);
  };
  const removeClient = registerClient(session.chain.root, client);
  const endToolReports = context.supportsNotices ? reportMissingTools(context, send) : undefined;
  const reportedCalls = new ReportedCalls();
  const runUsage = new RunUsage(agent, session.chain.root);
  const outputStream = new ToolOutputStream(send, context.showsTerminals);
  let ownRun: OwnRun | undefined;
  /** Whether the run never started, so that the request fails. The caller converts the error. */
  let isRefused = false;
  // Any client may answer. A call with a permission question starts when the answer allows it.
  const unsubscribe = agent.on("ask.closed", ({ runId, ask }) => {
    const isAllowed = ask.kind === "question" || ask.reply?.choice === "allow" || ask.reply?.choice === "allow_always";
    if (context.isEditor && isAllowed && runId === ownRun?.run.id && reportedCalls.hasQuestion(ask.callId))
      send(toStartedUpdate(ask.callId));
  });
  try {
    const endStart = openSession.beginPromptStart();
    try {
      const run = await agent.run({ ...toRunInput(context, reportedCalls, send), signal: turn.signal });
      ownRun = { run, reportedCalls, asksClient: context.canAsk };
      openSession.setOwnRun(ownRun);
      context.onStarted();
    } catch (error) {
      if (!turn.isCancelled && REQUEST_ERROR_CODES.has(readErrorCode(error))) isRefused = true;
      throw error;
    } finally {
      endStart();
    }
    const { run } = ownRun;
    const isCompacted = await sendEvents(run, turn, send, reportedCalls, outputStream, context);
    const result = await run.result;
    // A run that only compacts sends nothing if there is too little to compact.
    if (result.iterations === 0 && result.endedBy === "model" && !isCompacted)
      send(toMessageChunk(TOO_LITTLE_TO_COMPACT_TEXT));
    const usage = toUsageUpdate(result, profile);
    if (usage) send(usage);
    return toPromptResult(result, turn, profile);
  } catch (error) {
    if (isRefused || error instanceof RpcError) throw error;
    const usage = await runUsage.readUpdate(ownRun?.run, profile, logger);
    const message = turn.isCancelled || isCancellation(error) ? undefined : toFailureText(error, logger);
    if (message !== undefined && profile !== "official") send(toMessageChunk(message));
    if (usage) send(usage);
    if (message === undefined) return { stopReason: "cancelled" };
    if (profile === "official") throw new RpcError(ERROR_CODES.internal, message);
    return { stopReason: "error", _meta: { error: { message } } };
  } finally {
    if (ownRun) openSession.endOwnRun(ownRun);
    unsubscribe();
    outputStream.close();
    runUsage.end();
    endToolReports?.();
    removeClient();
  }
}

function toRunInput(
  context: PromptContext,
  reportedCalls: ReportedCalls,
  send: (update: SessionUpdate) => void,
): RunInput {
  const { agent, session, openSession, input, isEditor, supportsNotices, canAsk, alwaysAsk, clientName, logFields } =
    context;
  const { servers, folders, instructions } = openSession.clientResources;
  return {
    message: input.message,
    attachments: input.attachments,
    trace: input.trace,
    sessionId: session.id,
    projectDir: openSession.cwd,
    mcpServers: servers,
    folders,
    // Without instructions of the client, the agent's defaults apply.
    ...(instructions && {
      systemPrompt: [agent.systemPrompt, instructions.text].join("\n\n").trimStart(),
      promptUse: instructions.use === "replace" ? instructions.use : undefined,
    }),
    // Other clients send tasks, which are no commands; only a compaction has no method of its own.
    commands: isEditor || /^\/compact(\s|$)/.test(input.message),
    overflow: "merge",
    onWaiting: isEditor || supportsNotices ? createWaitReporter(context, send) : undefined,
    ask: canAsk ? (request, signal) => askOwnClient(request, signal, reportedCalls, context) : undefined,
    alwaysAsk,
    clientName,
    logFields,
  };
}

/** Sends a tool's question to the client's user. Rejects with `RpcError` if the user does not answer. */
async function askOwnClient(
  request: AskRequest,
  signal: AbortSignal,
  reportedCalls: ReportedCalls,
  { client, profile }: PromptContext,
): Promise<AskReply> {
  const { callId, kind } = request;
  reportedCalls.markQuestion(callId);
  // The client must receive the call before the question about it.
  await reportedCalls.waitFor(callId, signal);
  return askClient(client, toPermissionQuestion(request), profile === "spec" ? "other" : kind, signal);
}

function toStartedUpdate(toolCallId: string): SessionUpdate {
  return { sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" };
}

function toMessageChunk(text: string): SessionUpdate {
  return { sessionUpdate: "agent_message_chunk", messageId: newId(), content: toTextBlock(text) };
}

const TOO_LITTLE_TO_COMPACT_TEXT = "There is too little to compact.";

/**
 * Sends the events of a run as fast as the client reads; the agent merges events for slow clients. Returns whether the
 * session was compacted.
 */
async function sendEvents(
  run: Run,
  turn: Turn,
  send: (update: SessionUpdate) => void,
  reportedCalls: ReportedCalls,
  outputStream: ToolOutputStream,
  context: PromptContext,
): Promise<boolean> {
  const { isEditor, waitUntilReady } = context;
  const cancellation = new Promise<void>((resolve) => {
    if (turn.isCancelled) resolve();
    turn.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  /** Inputs of the calls that have no result yet. */
  const inputsByCallId = new Map<string, unknown>();
  let isCompacted = false;
  for await (const event of run) {
    if (event.type === "compaction") isCompacted = true;
    if (event.type === "tool_result") outputStream.end(event.callId);
    for (const update of toRunUpdates(event, context.profile, context.supportsCompactionUpdates)) send(update);
    if (event.type === "retry")
      for (const update of toRetryUpdates(event.error.message, event.delayMs, context)) send(update);
    if (isEditor && event.type === "tool_progress") outputStream.add(event.callId, event.text);
    if (event.type === "tool_call") {
      inputsByCallId.set(event.callId, event.input);
      reportedCalls.add(event.callId);
    }
    const editorUpdate = isEditor ? toEditorUpdate(event, reportedCalls, inputsByCallId) : undefined;
    if (editorUpdate) send(editorUpdate);
    if (event.type === "tool_result") inputsByCallId.delete(event.callId);
    const clientReady = waitUntilReady();
    // A cancel is answered at once, even if the client does not read.
    if (clientReady) await Promise.race([clientReady, cancellation]);
  }
  for (const toolCallId of inputsByCallId.keys())
    send({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" });
  return isCompacted;
}

/** The additional update of an event for editors; undefined if there is none. `inputsByCallId`: as in `sendEvents`. */
function toEditorUpdate(
  event: AgentEvent,
  reportedCalls: ReportedCalls,
  inputsByCallId: ReadonlyMap<string, unknown>,
): SessionUpdate | undefined {
  switch (event.type) {
    case "tool_call":
      return reportedCalls.hasQuestion(event.callId) ? undefined : toStartedUpdate(event.callId);
    case "tool_result":
      return event.failed ? undefined : readPlan(event.name, inputsByCallId.get(event.callId));
    default:
      return undefined;
  }
}

/** Reports each tool source that fails to open for the session's run. The returned function ends the reports. */
function reportMissingTools({ agent, session }: PromptContext, send: (update: SessionUpdate) => void): () => void {
  return agent.on("tools.failed", ({ sessionId, source, error }) => {
    if (sessionId === session.chain.root)
      send(toNotice("warning", `Tools of ${source} are unavailable`, error.message));
  });
}

/** Returns a function that reports why no model is available; repeated reasons are sent once. */
function createWaitReporter(profile: ClientProfile, send: (update: SessionUpdate) => void): (reason: string) => void {
  let lastReason = "";
  return (reason) => {
    if (reason === lastReason) return;
    lastReason = reason;
    for (const update of toWaitUpdates(reason, profile)) send(update);
  };
}

/** The result of a run. A cancelled turn gives `cancelled`, even if the run finished before the cancel took effect. */
function toPromptResult(result: RunResult, turn: Turn, profile: Profile): PromptResult {
  return turn.isCancelled ? { stopReason: "cancelled" } : toFinishedResult(result, profile);
}

/** The code of an error; `""` if there is none. */
function readErrorCode(error: unknown): string {
  const code: unknown = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}
