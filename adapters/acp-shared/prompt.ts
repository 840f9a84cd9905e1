import type { Agent, AgentEvent, AskReply, AskRequest, Logger, Run, RunResult, Session } from "gantry";
import { newId } from "gantry/plugin";
import { announceClient, type AcpClient } from "./client.js";
import { failureText, isCancellation, RpcError, toRpcError } from "./errors.js";
import type { OpenSession, OwnRun } from "./open-session.js";
import { askClient, toPermissionQuestion } from "./permission.js";
import { planOf } from "./plan.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import type { PromptInput } from "./prompt-input.js";
import { ReportedCalls } from "./reported-calls.js";
import { RunUsage } from "./run-usage.js";
import type { Turn } from "./turns.js";
import { promptResult, retryThought, textBlock, updatesOf, usageUpdate } from "./updates.js";
import { escapeInvisible } from "./printable-line.js";
import { CODES, type Profile, type PromptResult, type SessionUpdate } from "./wire.js";

export interface ParsedPrompt {
  agent: Agent;
  logger: Logger;
  profile: Profile;
  session: Session;
  /** State of the session in this client. */
  open: OpenSession;
  input: PromptInput;
  client: AcpClient;
  /** Name of the client in stored answers. */
  clientName: string;
  /** Whether the client answers the questions of the run. */
  canAsk: boolean;
  /** Whether tools that need permission ask in every mode of the session. */
  alwaysAsk: boolean;
  /** Whether the client shows compactions. */
  compaction: boolean;
  /** Whether to send the updates that editors show: plans, starting tools, retries. */
  editor: boolean;
  send(update: SessionUpdate): void;
  /** Called once, when the run has started. */
  onStarted(): void;
  /** Resolves when the client can take more; undefined when it can now. */
  ready(): Promise<void> | undefined;
}

/** Error codes of runs that never started: they fail the request instead of giving a failed result. */
const REQUEST_ERRORS: ReadonlySet<string> = new Set([
  "attachment",
  "invalid_input",
  "session_busy",
  "session_not_found",
  "shutting_down",
  "too_many_runs",
]);

/** Runs one prompt to its end. Sends nothing after the turn is answered. */
export async function runPrompt(turn: Turn, parts: ParsedPrompt): Promise<PromptResult> {
  const { agent, session, open, input, profile, logger, client } = parts;
  const send = (update: SessionUpdate) => {
    if (!turn.answered) parts.send(update);
  };
  const removeClient = announceClient(session.chain.root, client);
  const reportedCalls = new ReportedCalls();
  const runUsage = new RunUsage(agent, session.chain.root);
  const outputStream = new ToolOutputStream(send);
  let run: Run | undefined;
  // Any client may answer. A call with a permission question starts when the answer allows it.
  const unsubscribe = agent.on("ask.closed", ({ runId, ask }) => {
    const isAllowed = ask.kind === "question" || ask.reply?.choice === "allow" || ask.reply?.choice === "allow_always";
    if (parts.editor && isAllowed && runId === run?.id && reportedCalls.isAsked(ask.callId))
      send(startedUpdate(ask.callId));
  });
  let ownRun: OwnRun | undefined;
  try {
    const endStart = open.beginStart();
    try {
      run = await agent.run({
        message: input.message,
        attachments: input.attachments,
        sessionId: session.id,
        projectDir: open.cwd,
        mcpServers: open.clientResources.servers,
        folders: open.clientResources.folders,
        commands: parts.editor,
        signal: turn.signal,
        overflow: "merge",
        onWaiting: parts.editor ? createWaitReporter(send) : undefined,
        ask: parts.canAsk ? (request, signal) => askOwnClient(request, signal, reportedCalls, parts) : undefined,
        alwaysAsk: parts.alwaysAsk,
        clientName: parts.clientName,
      });
      ownRun = { run, reportedCalls, asksClient: parts.canAsk };
      open.began(ownRun);
      parts.onStarted();
    } catch (error) {
      if (!turn.cancelled && REQUEST_ERRORS.has(codeOf(error))) throw toRpcError(error, logger);
      throw error;
    } finally {
      endStart();
    }
    const isCompacted = await forward(run, turn, send, reportedCalls, outputStream, parts);
    const result = await run.result;
    // A run that only compacts sends nothing if there is too little to compact.
    if (parts.editor && result.iterations === 0 && result.endedBy === "model" && !isCompacted)
      send({ sessionUpdate: "agent_message_chunk", messageId: newId(), content: textBlock(TOO_LITTLE) });
    const usage = usageUpdate(result, profile);
    if (usage) send(usage);
    return toPromptResult(result, turn, profile);
  } catch (error) {
    if (error instanceof RpcError) throw error;
    const usage = await runUsage.update(run, profile, logger);
    if (turn.cancelled || isCancellation(error)) {
      if (usage) send(usage);
      return { stopReason: "cancelled" };
    }
    const message = failureText(error, logger);
    if (profile === "official") {
      if (usage) send(usage);
      throw new RpcError(CODES.internal, message);
    }
    send({ sessionUpdate: "agent_message_chunk", messageId: newId(), content: textBlock(message) });
    if (usage) send(usage);
    return { stopReason: "error", _meta: { error: { message } } };
  } finally {
    if (ownRun) open.ended(ownRun);
    unsubscribe();
    outputStream.close();
    runUsage.end();
    removeClient();
  }
}

/** Asks the client's user a tool's question. Rejects if the user does not answer. */
async function askOwnClient(
  request: AskRequest,
  signal: AbortSignal,
  reportedCalls: ReportedCalls,
  { client, profile }: ParsedPrompt,
): Promise<AskReply> {
  const { callId, kind } = request;
  reportedCalls.markAsked(callId);
  // The client must receive the call before the question about it.
  await reportedCalls.waitFor(callId, signal);
  return askClient(client, toPermissionQuestion(request), profile === "spec" ? "other" : kind, signal);
}

function startedUpdate(toolCallId: string): SessionUpdate {
  return { sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" };
}

const TOO_LITTLE = "There is too little to compact.";

/**
 * Sends the events of a run as fast as the client reads; the kernel merges events for slow clients. Returns whether the
 * session was compacted.
 */
async function forward(
  run: Run,
  turn: Turn,
  send: (update: SessionUpdate) => void,
  reportedCalls: ReportedCalls,
  outputStream: ToolOutputStream,
  { profile, compaction, editor, ready }: ParsedPrompt,
): Promise<boolean> {
  const cancelled = new Promise<void>((resolve) => {
    if (turn.cancelled) resolve();
    turn.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  /** Inputs of the calls without a result. */
  const open = new Map<string, unknown>();
  let isCompacted = false;
  for await (const event of run) {
    if (event.type === "compaction") isCompacted = true;
    if (event.type === "tool_result") outputStream.end(event.callId);
    for (const update of updatesOf(event, profile, compaction)) send(update);
    if (editor && event.type === "tool_progress") outputStream.add(event.callId, event.text);
    if (event.type === "tool_call") {
      open.set(event.callId, event.input);
      reportedCalls.add(event.callId);
    }
    const editorUpdate = editor ? toEditorUpdate(event, reportedCalls, open) : undefined;
    if (editorUpdate) send(editorUpdate);
    if (event.type === "tool_result") open.delete(event.callId);
    const room = ready();
    // A cancel is answered at once, even if the client does not read.
    if (room) await Promise.race([room, cancelled]);
  }
  for (const toolCallId of open.keys()) send({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" });
  return isCompacted;
}

/** The additional update of an event for editors. `open`: inputs of the calls without a result. */
function toEditorUpdate(
  event: AgentEvent,
  reportedCalls: ReportedCalls,
  open: ReadonlyMap<string, unknown>,
): SessionUpdate | undefined {
  switch (event.type) {
    case "tool_call":
      return reportedCalls.isAsked(event.callId) ? undefined : startedUpdate(event.callId);
    case "tool_result":
      return event.failed ? undefined : planOf(event.name, open.get(event.callId));
    case "retry":
      return retryThought(event.error.message, event.delayMs);
    default:
      return undefined;
  }
}

/** Returns a function that reports why no model is available; repeated reasons are sent once. */
function createWaitReporter(send: (update: SessionUpdate) => void): (why: string) => void {
  let lastReason = "";
  return (why) => {
    if (why === lastReason) return;
    lastReason = why;
    const text = `[waiting for a model${why === "" ? "" : `: ${escapeInvisible(why)}`}]\n`;
    send({ sessionUpdate: "agent_thought_chunk", messageId: newId(), content: textBlock(text) });
  };
}

/** The result of a run. A cancelled turn gives `cancelled`, even if the run finished before the cancel took effect. */
function toPromptResult(result: RunResult, turn: Turn, profile: Profile): PromptResult {
  return turn.cancelled ? { stopReason: "cancelled" } : promptResult(result, profile);
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}
