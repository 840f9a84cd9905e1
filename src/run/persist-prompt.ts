import { now } from "../base/ids.js";
import { type DanglingCall, INTERRUPTED_CALL_RESULT, createToolMessage } from "../conversation/messages.js";
import { hasCode } from "../ports/errors.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { SessionFields } from "../ports/session-change.js";
import { withEffectiveState, canRestart, toInterruptedRun, isQueued } from "../sessions/stored-run.js";
import type { ExpandedInput } from "./prompt/slash-commands.js";
import type { RunContext } from "./context/run-context.js";

/** Converts the user's input to a message. */
export function toPromptMessage(input: ExpandedInput): ModelMessage {
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
  await recorder.createSession({ ...session, lastSeq: message.seq }, message);
  conversation.add(message);
  bus.emit("session.created", { session, runId });
}

/**
 * Stores the user's message, if any, and repairs the effects of a crash, in one write. `danglingCalls`: calls without a
 * result, which get an error result. `unfinished`: open runs of the chain. Open runs that are not queued are dead,
 * because this run has the lease.
 */
export async function persistPrompt(
  run: RunContext,
  fields: SessionFields,
  { compact }: ExpandedInput,
  prompt: ModelMessage,
  danglingCalls: readonly DanglingCall[],
  unfinished: readonly RunRecord[],
): Promise<void> {
  const { id: runId, sessionId, conversation, recorder, bus } = run;
  const repairResults = danglingCalls.map(({ call }) =>
    conversation.compose(createToolMessage(call, INTERRUPTED_CALL_RESULT, true)),
  );
  const messages: Message[] = [...repairResults, ...(compact ? [] : [conversation.compose(prompt)])];
  const deadRuns = unfinished.filter((record) => record.id !== runId && !isQueued(record));
  const change = { sync: "later", set: { ...fields, updatedAt: now() }, add: messages } as const;
  const interruptedRuns = deadRuns.map(toInterruptedRun);
  await recorder.write({ ...change, runs: [...interruptedRuns, recorder.run] }).catch(async (error: unknown) => {
    const keyOwner = hasCode(error, "run_key_taken")
      ? await findRestartableRun(run.store, sessionId, recorder.run.idempotencyKey)
      : undefined;
    if (!keyOwner) throw error;
    // Free the key in the same change, so that no other run can take it in between.
    const ownerWithoutKey = { ...keyOwner, idempotencyKey: "", fingerprint: "" };
    await recorder.write({
      ...change,
      runs: [...interruptedRuns.filter(({ id }) => id !== ownerWithoutKey.id), ownerWithoutKey, recorder.run],
    });
  });
  for (const message of messages) conversation.add(message);
  bus.emit("session.resume", { runId, sessionId: conversation.session.id, rootId: sessionId });
}

/** Returns the run of a chain that has the key and may be started again. The caller must hold the chain's lease. */
async function findRestartableRun(store: SessionDriver, rootId: string, key: string): Promise<RunRecord | undefined> {
  const [storedRun] = await store.runs({ sessionId: rootId, idempotencyKey: key, limit: 1 });
  const run = storedRun && withEffectiveState(storedRun);
  return run && canRestart(run) ? run : undefined;
}
