import type { Agent, AgentEvent, AskReply, AskRequest, Logger, Run, RunResult, Session } from "gantry";
import { newId } from "gantry/plugin";
import { announceClient, type AcpClient } from "./client.js";
import { failureText, isCancellation, RpcError, toRpcError } from "./errors.js";
import type { OpenSession, OwnRun } from "./open-session.js";
import { askClient, askingOf } from "./permission.js";
import { planOf } from "./plan.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import type { PromptInput } from "./prompt-input.js";
import { ReportedCalls } from "./reported-calls.js";
import { RunUsage } from "./run-usage.js";
import type { Turn } from "./turns.js";
import { promptResult, retryThought, textBlock, updatesOf, usageUpdate } from "./updates.js";
import { visible } from "./printable-line.js";
import { CODES, type Profile, type PromptResult, type SessionUpdate } from "./wire.js";

export interface PromptParts {
  agent: Agent;
  logger: Logger;
  profile: Profile;
  session: Session;
  /** State of the session in this client. */
  open: OpenSession;
  input: PromptInput;
  client: AcpClient;
  /** Name of the client in stored answers. */
  askedAt: string;
  /** Whether the client answers the questions of the run. */
  ask: boolean;
  /** Whether tools that need permission ask in every mode of the session. */
  asksInAuto: boolean;
  /** Whether the client shows compactions. */
  compaction: boolean;
  /** Whether to send the updates that editors show: plans, starting tools, retries. */
  editor: boolean;
  send(update: SessionUpdate): void;
  /** Called once, when the run has started. */
  began(): void;
  /** Resolves when the client can take more; undefined when it can now. */
  ready(): Promise<void> | undefined;
}

/** Error codes of runs that never started: they fail the request instead of giving a failed result. */
const REFUSALS: ReadonlySet<string> = new Set([
  "attachment",
  "invalid_input",
  "session_busy",
  "session_not_found",
  "shutting_down",
  "too_many_runs",
]);

/** Runs one prompt to its end. Sends nothing after the turn is answered. */
export async function runPrompt(turn: Turn, parts: PromptParts): Promise<PromptResult> {
  const { agent, session, open, input, profile, logger, client } = parts;
  const send = (update: SessionUpdate) => {
    if (!turn.answered) parts.send(update);
  };
  const leave = announceClient(session.chain.root, client);
  const shown = new ReportedCalls();
  const spent = new RunUsage(agent, session.chain.root);
  const printed = new ToolOutputStream(send);
  let run: Run | undefined;
  // Any client may answer. A call with a permission question starts when the answer allows it.
  const unhear = agent.on("ask.closed", ({ runId, ask }) => {
    const goesOn = ask.kind === "question" || ask.reply?.choice === "allow" || ask.reply?.choice === "allow_always";
    if (parts.editor && goesOn && runId === run?.id && shown.isAsked(ask.callId)) send(begun(ask.callId));
  });
  let own: OwnRun | undefined;
  try {
    const settled = open.starts();
    try {
      run = await agent.run({
        message: input.message,
        attachments: input.attachments,
        sessionId: session.id,
        projectDir: open.cwd,
        mcpServers: open.brought.servers,
        folders: open.brought.folders,
        commands: parts.editor,
        signal: turn.signal,
        overflow: "merge",
        onWaiting: parts.editor ? waiting(send) : undefined,
        ask: parts.ask ? (request, signal) => askHere(request, signal, shown, parts) : undefined,
        alwaysAsk: parts.asksInAuto,
        clientName: parts.askedAt,
      });
      own = { run, shown, asks: parts.ask };
      open.began(own);
      parts.began();
    } catch (error) {
      if (!turn.cancelled && REFUSALS.has(codeOf(error))) throw toRpcError(error, logger);
      throw error;
    } finally {
      settled();
    }
    const isCompacted = await forward(run, turn, send, shown, printed, parts);
    const result = await run.result;
    // A run that only compacts sends nothing if there is too little to compact.
    if (parts.editor && result.iterations === 0 && result.endedBy === "model" && !isCompacted)
      send({ sessionUpdate: "agent_message_chunk", messageId: newId(), content: textBlock(TOO_LITTLE) });
    const usage = usageUpdate(result, profile);
    if (usage) send(usage);
    return ended(result, turn, profile);
  } catch (error) {
    if (error instanceof RpcError) throw error;
    const usage = await spent.update(run, profile, logger);
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
    if (own) open.ended(own);
    unhear();
    printed.close();
    spent.end();
    leave();
  }
}

/** Asks the client's user a tool's question. Rejects if the user does not answer. */
async function askHere(
  request: AskRequest,
  signal: AbortSignal,
  shown: ReportedCalls,
  { client, profile }: PromptParts,
): Promise<AskReply> {
  const { callId, kind } = request;
  shown.asks(callId);
  // The client must receive the call before the question about it.
  await shown.call(callId, signal);
  return askClient(client, askingOf(request), profile === "spec" ? "other" : kind, signal);
}

function begun(toolCallId: string): SessionUpdate {
  return { sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" };
}

const TOO_LITTLE = "There is too little here to be summed up.";

/**
 * Sends the events of a run as fast as the client reads; the kernel merges events for slow clients. Returns whether the
 * session was compacted.
 */
async function forward(
  run: Run,
  turn: Turn,
  send: (update: SessionUpdate) => void,
  shown: ReportedCalls,
  printed: ToolOutputStream,
  { profile, compaction, editor, ready }: PromptParts,
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
    if (event.type === "tool_result") printed.end(event.callId);
    for (const update of updatesOf(event, profile, compaction)) send(update);
    if (editor && event.type === "tool_progress") printed.add(event.callId, event.text);
    if (event.type === "tool_call") {
      open.set(event.callId, event.input);
      shown.add(event.callId);
    }
    const more = editor ? besides(event, shown, open) : undefined;
    if (more) send(more);
    if (event.type === "tool_result") open.delete(event.callId);
    const room = ready();
    // A cancel is answered at once, even if the client does not read.
    if (room) await Promise.race([room, cancelled]);
  }
  for (const toolCallId of open.keys()) send({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" });
  return isCompacted;
}

/** The additional update of an event for editors. `open`: inputs of the calls without a result. */
function besides(
  event: AgentEvent,
  shown: ReportedCalls,
  open: ReadonlyMap<string, unknown>,
): SessionUpdate | undefined {
  switch (event.type) {
    case "tool_call":
      return shown.isAsked(event.callId) ? undefined : begun(event.callId);
    case "tool_result":
      return event.failed ? undefined : planOf(event.name, open.get(event.callId));
    case "retry":
      return retryThought(event.error.message, event.delayMs);
    default:
      return undefined;
  }
}

/** Returns a function that reports why no model is available; repeated reasons are sent once. */
function waiting(send: (update: SessionUpdate) => void): (why: string) => void {
  let told = "";
  return (why) => {
    if (why === told) return;
    told = why;
    const text = `[waiting for a model${why === "" ? "" : `: ${visible(why)}`}]\n`;
    send({ sessionUpdate: "agent_thought_chunk", messageId: newId(), content: textBlock(text) });
  };
}

/** The result of a run. A cancelled turn gives `cancelled`, even if the run finished before the cancel took effect. */
function ended(result: RunResult, turn: Turn, profile: Profile): PromptResult {
  return turn.cancelled ? { stopReason: "cancelled" } : promptResult(result, profile);
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}
