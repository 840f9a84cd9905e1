import { newId, type Agent, type Logger, type Run, type RunResult, type Session } from "gantry";
import { announceClient, askClient, type AcpClient } from "./client.js";
import { failureText, isCancellation, RpcError, toRpcError } from "./errors.js";
import type { PromptInput } from "./prompt-input.js";
import type { Turn } from "./turns.js";
import { promptResult, textBlock, updatesOf, usageUpdate } from "./updates.js";
import { CODES, type Profile, type PromptResult, type SessionUpdate } from "./wire.js";

/** What one prompt needs. */
export interface PromptParts {
  agent: Agent;
  logger: Logger;
  profile: Profile;
  session: Session;
  input: PromptInput;
  /** Where the tools run; undefined: the session's own folder. */
  cwd: string | undefined;
  client: AcpClient;
  /** Whether tools that need leave ask. */
  ask: boolean;
  /** Whether the client shows compactions. */
  compaction: boolean;
  send(update: SessionUpdate): void;
  /** Resolves when the client can take more; undefined when it can now. */
  ready(): Promise<void> | undefined;
}

/** Codes of errors that mean that a run never began, and are the request's own rather than a failed run's. */
const REFUSALS: ReadonlySet<string> = new Set([
  "attachment",
  "invalid_input",
  "session_busy",
  "session_not_found",
  "shutting_down",
  "too_many_runs",
]);

/** Run one prompt to its end. Nothing is sent once the turn is answered. */
export async function runPrompt(turn: Turn, parts: PromptParts): Promise<PromptResult> {
  const { agent, session, input, profile, logger, client } = parts;
  const send = (update: SessionUpdate) => {
    if (!turn.answered) parts.send(update);
  };
  const leave = announceClient(session.chain.root, client);
  const shown = new Shown();
  try {
    let run: Run;
    try {
      run = await agent.run({
        message: input.message,
        attachments: input.attachments,
        sessionId: session.id,
        ...(parts.cwd === undefined ? {} : { projectDir: parts.cwd }),
        signal: turn.signal,
        overflow: "merge",
        ...(parts.ask
          ? {
              ask: async (request, signal) => {
                // The person sees the call before the question about it.
                await shown.call(request.callId, signal);
                return askClient(client, request, profile === "spec" ? "other" : request.kind, signal, logger);
              },
            }
          : {}),
      });
    } catch (error) {
      if (!turn.cancelled && REFUSALS.has(codeOf(error))) throw toRpcError(error, logger);
      throw error;
    }
    await forward(run, turn, send, shown, parts);
    const result = await run.result;
    const usage = usageUpdate(result, profile);
    if (usage) send(usage);
    return ended(result, turn, profile);
  } catch (error) {
    if (error instanceof RpcError) throw error;
    if (turn.cancelled || isCancellation(error)) return { stopReason: "cancelled" };
    const message = failureText(error, logger);
    if (profile === "official") throw new RpcError(CODES.internal, message);
    send({ sessionUpdate: "agent_message_chunk", messageId: newId(), content: textBlock(message) });
    return { stopReason: "error", _meta: { error: { message } } };
  } finally {
    leave();
  }
}

/** Events become updates as fast as the client takes them; what it does not take in time the kernel joins. */
async function forward(
  run: Run,
  turn: Turn,
  send: (update: SessionUpdate) => void,
  shown: Shown,
  { profile, compaction, ready }: PromptParts,
): Promise<void> {
  const cancelled = new Promise<void>((resolve) => {
    if (turn.cancelled) resolve();
    turn.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  const open = new Set<string>();
  for await (const event of run) {
    for (const update of updatesOf(event, profile, compaction)) send(update);
    if (event.type === "tool_call") {
      open.add(event.callId);
      shown.add(event.callId);
    }
    if (event.type === "tool_result") open.delete(event.callId);
    const more = ready();
    // A cancel is answered at once, also to a client that does not read.
    if (more) await Promise.race([more, cancelled]);
  }
  for (const toolCallId of open) send({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" });
}

/** Which tool calls the client was told of. */
class Shown {
  readonly #calls = new Set<string>();
  readonly #waiting = new Map<string, () => void>();

  add(callId: string): void {
    this.#calls.add(callId);
    this.#waiting.get(callId)?.();
  }

  /** Resolves when the client was told of the call, or the signal aborts. */
  async call(callId: string, signal: AbortSignal): Promise<void> {
    if (this.#calls.has(callId) || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#waiting.set(callId, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

/** A run that ended well although it was cancelled: the cancel came too late for it, but not for the client. */
function ended(result: RunResult, turn: Turn, profile: Profile): PromptResult {
  return turn.cancelled ? { stopReason: "cancelled" } : promptResult(result, profile);
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}
