import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { RunInput } from "../ports/run.js";
import { Conversation } from "../conversation/conversation.js";
import { danglingCalls, INTERRUPTED, toolMessage } from "../conversation/messages.js";
import { now } from "../base/ids.js";
import { HeldLease } from "../sessions/lease.js";
import type { ChosenModel, ModelPair, Models } from "../models/models.js";
import type { Logger } from "../ports/logger.js";
import { SessionNotFoundError } from "../ports/errors.js";
import type { Message } from "../ports/message.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { Session } from "../ports/session.js";
import type { ChainHead, SessionDriver } from "../ports/session-driver.js";
import type { RunPlace } from "./places.js";
import { checkFolder, found, newSession } from "../sessions/sessions.js";

/** What a run needs before it can begin. */
export interface StartParts {
  store: SessionDriver;
  models: Models;
  bus: Bus<BusEvents>;
  logger: Logger;
  /** Of sessions that are new. */
  projectDir: string;
  reasoningEffort: ReasoningEffort;
  /** Its share of what all runs may take. */
  place: Pick<RunPlace, "read" | "reserve">;
}

/** A run that holds its session, with the user's message stored. */
export interface StartedRun {
  conversation: Conversation;
  chosen: ChosenModel;
  projectDir: string;
  lease: HeldLease;
}

/** Rejects, with nothing stored and nothing held, as `Agent.run` says. */
export async function startRun(parts: StartParts, input: RunInput, signal: AbortSignal): Promise<StartedRun> {
  const { store, models, logger, place } = parts;
  const stored = input.sessionId === undefined ? undefined : await newestOf(store, input.sessionId);
  const projectDir = input.projectDir ?? stored?.projectDir ?? parts.projectDir;
  await checkFolder(projectDir);
  const chosen = await models.resolve(
    { provider: input.provider ?? "", model: input.model ?? "" },
    { provider: stored?.provider ?? "", model: stored?.model ?? "" },
    () => recentPair(store, projectDir),
    signal,
    input.onWaiting,
  );
  const session = stored ?? newSession({ projectDir }, projectDir);
  const lease = await HeldLease.take(store, session.chain.root, logger);
  try {
    signal.throwIfAborted();
    const { attach } = input;
    const attached =
      attach &&
      (await place.read(() => {
        signal.throwIfAborted();
        return attach((bytes) => place.reserve(bytes));
      }));
    signal.throwIfAborted();
    const whole = attached ? { ...input, attachments: [...(input.attachments ?? []), ...attached] } : input;
    const set = {
      provider: chosen.provider.name,
      model: chosen.model.id,
      reasoningEffort: input.reasoningEffort ?? chosenEffort(stored) ?? parts.reasoningEffort,
    };
    const conversation = stored
      ? await resume(parts, lease, session.chain.root, set, whole)
      : await create(parts, { ...session, ...set }, whole);
    return { conversation, chosen, projectDir, lease };
  } catch (error) {
    await lease.giveBack();
    throw error;
  }
}

async function create({ store, bus }: StartParts, session: Session, input: RunInput): Promise<Conversation> {
  const conversation = new Conversation(session, []);
  const message = conversation.compose(prompt(input));
  await store.create({ session: { ...session, lastSeq: message.seq }, messages: [message] });
  conversation.add(message);
  bus.emit("session.created", { session });
  return conversation;
}

/** Load what there is, mend what a crash left, and store the user's message: one write. */
async function resume(
  { store, bus }: StartParts,
  lease: HeldLease,
  rootId: string,
  set: Pick<Session, "provider" | "model" | "reasoningEffort">,
  input: RunInput,
): Promise<Conversation> {
  // Read again: until the lease was ours, another process may have gone on, compacted or deleted it.
  const head = await store.head(rootId);
  if (!head) throw new SessionNotFoundError(rootId);
  const { messages: before } = head;
  const session = goingOn(head);
  const conversation = new Conversation({ ...session, ...set }, before);
  const mended = danglingCalls(before).map(({ call }) => conversation.compose(toolMessage(call, INTERRUPTED, true)));
  const add: Message[] = [...mended, conversation.compose(prompt(input))];
  await store.write(session.id, {
    fence: lease.fence,
    sync: true,
    set: { ...set, updatedAt: now() },
    add,
  });
  for (const message of add) conversation.add(message);
  bus.emit("session.resume", { sessionId: session.id, rootId: session.chain.root });
  return conversation;
}

function prompt(input: RunInput) {
  return {
    role: "user" as const,
    parts: [
      ...(input.message === "" ? [] : [{ type: "text" as const, text: input.message }]),
      ...(input.attachments ?? []),
    ],
    toolCallId: "",
    name: "",
    failed: false,
  };
}

/** The effort that a session goes on with; undefined for one that was made without a run and chose none. */
function chosenEffort(session: Session | undefined): ReasoningEffort | undefined {
  return session && (session.lastSeq > 0 || session.reasoningEffort !== "") ? session.reasoningEffort : undefined;
}

/** The session that a run goes on in: the newest of the chain that `id` belongs to, with the fields of the chain. */
async function newestOf(store: SessionDriver, id: string): Promise<Session> {
  const session = await found(store, id);
  const original = await found(store, session.chain.root);
  return goingOn({ original, newest: (await store.newest(session.chain.root)) ?? session });
}

/** The original's fields are the chain's: a revert may have made an earlier follow-up the newest again. */
function goingOn({ original, newest }: Pick<ChainHead, "original" | "newest">): Session {
  const { title, titled, provider, model, reasoningEffort, projectDir } = original;
  return { ...newest, title, titled, provider, model, reasoningEffort, projectDir };
}

async function recentPair(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  const { sessions } = await store.list({ projectDir, limit: 10 });
  return sessions.find((session) => session.provider !== "" && session.model !== "");
}
