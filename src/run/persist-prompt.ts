import { now } from "../base/ids.js";
import { type DanglingCall, INTERRUPTED, toolMessage } from "../conversation/messages.js";
import { hasCode } from "../ports/errors.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { SessionDriver, SessionFields } from "../ports/session-driver.js";
import { withEffectiveState, canRestart, asInterrupted, isQueued } from "../sessions/stored-run.js";
import type { ExpandedInput } from "./prompt/slash-commands.js";
import type { RunContext } from "./context/run-context.js";

/** The user's input as a message. */
export function promptOf(input: ExpandedInput): ModelMessage {
  const { message: text, originalText } = input;
  return {
    role: "user" as const,
    parts: [
      ...(text === "" && originalText === undefined
        ? []
        : [{ type: "text" as const, text, ...(originalText !== undefined && { originalText }) }]),
      ...(input.attachments ?? []),
    ],
    toolCallId: "",
    name: "",
    failed: false,
  };
}

/** Stores a new session and its first message in one write. */
export async function persistNewSession(
  { id: runId, recorder, bus, conversation }: RunContext,
  prompt: ModelMessage,
): Promise<void> {
  const { session } = conversation;
  const message = conversation.compose(prompt);
  await recorder.begin({ ...session, lastSeq: message.seq }, message);
  conversation.add(message);
  bus.emit("session.created", { session, runId });
}

/**
 * Stores the user's message, if any, and repairs the effects of a crash, in one write. `dangling`: calls without a
 * result, which get an error result. `unfinished`: runs that this run's lease ends.
 */
export async function persistPrompt(
  run: RunContext,
  set: SessionFields,
  { compact }: ExpandedInput,
  prompt: ModelMessage,
  dangling: readonly DanglingCall[],
  unfinished: readonly RunRecord[],
): Promise<void> {
  const { id: runId, sessionId, conversation, recorder, bus } = run;
  const mended = dangling.map(({ call }) => conversation.compose(toolMessage(call, INTERRUPTED, true)));
  const add: Message[] = [...mended, ...(compact ? [] : [conversation.compose(prompt)])];
  const dead = unfinished.filter((record) => record.id !== runId && !isQueued(record));
  const change = { sync: "later", set: { ...set, updatedAt: now() }, add } as const;
  const ended = dead.map(asInterrupted);
  await recorder.write({ ...change, runs: [...ended, recorder.run] }).catch(async (error: unknown) => {
    const broken = hasCode(error, "run_key_taken")
      ? await restartableRun(run.store, sessionId, recorder.run.idempotencyKey)
      : undefined;
    if (!broken) throw error;
    // Free the key in the same change. If it were free in between, another run could use it to start a session.
    const freed = { ...broken, idempotencyKey: "", fingerprint: "" };
    await recorder.write({ ...change, runs: [...ended.filter(({ id }) => id !== freed.id), freed, recorder.run] });
  });
  for (const message of add) conversation.add(message);
  bus.emit("session.resume", { runId, sessionId: conversation.session.id, rootId: sessionId });
}

/** The run of a chain that has the key and may be started again. The caller must hold the chain's lease. */
async function restartableRun(store: SessionDriver, rootId: string, key: string): Promise<RunRecord | undefined> {
  const [stored] = await store.runs({ sessionId: rootId, idempotencyKey: key, limit: 1 });
  const run = stored && withEffectiveState(stored);
  return run && canRestart(run) ? run : undefined;
}
