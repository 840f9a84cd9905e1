import { now } from "../base/ids.js";
import { type DanglingCall, INTERRUPTED, toolMessage } from "../conversation/messages.js";
import { hasCode } from "../ports/errors.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { SessionDriver, SessionFields } from "../ports/session-driver.js";
import { asItIs, brokeOff, interrupted, waitsInLine } from "../sessions/stored-run.js";
import type { SpokenInput } from "./prompt/slash-commands.js";
import type { RunContext } from "./context/run-context.js";

/** What the user says, as a message. */
export function promptOf(input: SpokenInput): ModelMessage {
  const { message: text, typed } = input;
  return {
    role: "user" as const,
    parts: [
      ...(text === "" && typed === undefined
        ? []
        : [{ type: "text" as const, text, ...(typed !== undefined && { typed }) }]),
      ...(input.attachments ?? []),
    ],
    toolCallId: "",
    name: "",
    failed: false,
  };
}

/** Store a new session with its first message: one write. */
export async function create(
  { id: runId, recorder, bus, conversation }: RunContext,
  prompt: ModelMessage,
): Promise<void> {
  const { session } = conversation;
  const message = conversation.compose(prompt);
  await recorder.begin({ ...session, lastSeq: message.seq }, message);
  conversation.add(message);
  bus.emit("session.created", { session, runId });
}

/** Mend what a crash left, and store the user's message, if there is one: one write. `dangling`: calls without a result, `unfinished`: runs that this one's lease ends. */
export async function goOn(
  run: RunContext,
  set: SessionFields,
  { compact }: SpokenInput,
  prompt: ModelMessage,
  dangling: readonly DanglingCall[],
  unfinished: readonly RunRecord[],
): Promise<void> {
  const { id: runId, sessionId, conversation, recorder, bus } = run;
  const mended = dangling.map(({ call }) => conversation.compose(toolMessage(call, INTERRUPTED, true)));
  const add: Message[] = [...mended, ...(compact ? [] : [conversation.compose(prompt)])];
  const dead = unfinished.filter((one) => one.id !== runId && !waitsInLine(one));
  const change = { sync: "later", set: { ...set, updatedAt: now() }, add } as const;
  const ended = dead.map(interrupted);
  await recorder.write({ ...change, runs: [...ended, recorder.run] }).catch(async (error: unknown) => {
    const broken = hasCode(error, "run_key_taken")
      ? await brokenOff(run.store, sessionId, recorder.run.key)
      : undefined;
    if (!broken) throw error;
    // With the same change: a key that is free in between begins another session.
    const freed = { ...broken, key: "", fingerprint: "" };
    await recorder.write({ ...change, runs: [...ended.filter(({ id }) => id !== freed.id), freed, recorder.run] });
  });
  for (const message of add) conversation.add(message);
  bus.emit("session.resume", { runId, sessionId: conversation.session.id, rootId: sessionId });
}

/** The run of a chain that has a key and broke off, for whoever holds the chain's lease. */
async function brokenOff(store: SessionDriver, rootId: string, key: string): Promise<RunRecord | undefined> {
  const [stored] = await store.runs({ sessionId: rootId, key, limit: 1 });
  const run = stored && asItIs(stored);
  return run && brokeOff(run) ? run : undefined;
}
