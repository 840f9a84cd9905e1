import type { Bus, RunInput } from "./events.js";
import { EFFORTS, oneOf } from "./agent-options.js";
import { Conversation } from "./conversation.js";
import { InputError } from "./errors.js";
import { danglingCalls, INTERRUPTED, toolMessage } from "./history.js";
import { now } from "./ids.js";
import { HeldLease } from "./lease.js";
import type { ChosenModel, ModelPair, Models } from "./models.js";
import type { Logger } from "./ports/logger.js";
import type { Message, ReasoningEffort, Session, SessionDriver } from "./ports/session-driver.js";
import type { RunPlace } from "./run-places.js";
import { checkFolder, found, newSession } from "./sessions.js";

/** What a run needs before it can begin. */
export interface StartParts {
  store: SessionDriver;
  models: Models;
  bus: Bus;
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
  await store.create({ ...session, lastSeq: message.seq }, [message]);
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
  const session = await newestOf(store, rootId);
  const before = [...(await store.view(session.id)), ...(await store.messages(session.id))];
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

const KNOWN: Readonly<Record<keyof RunInput, true>> = {
  message: true,
  attachments: true,
  attach: true,
  provider: true,
  model: true,
  reasoningEffort: true,
  sessionId: true,
  projectDir: true,
  signal: true,
  onWaiting: true,
  overflow: true,
  ask: true,
};

/** Throws `InputError`. */
export function checkInput(input: RunInput): void {
  const strings = ["message", "provider", "model", "sessionId", "projectDir"] as const;
  for (const field of strings) {
    const value: unknown = input[field];
    if (typeof value !== "string" && (field === "message" || value !== undefined))
      throw new InputError(field, "a string");
  }
  for (const field of Object.keys(input))
    if (!Object.hasOwn(KNOWN, field)) throw new InputError(field, `one of ${Object.keys(KNOWN).join(", ")}`);
  if (input.reasoningEffort !== undefined) oneOf("reasoningEffort", EFFORTS, input.reasoningEffort);
  if (input.overflow !== undefined) oneOf("overflow", ["drop", "merge"], input.overflow);
  if (input.message.trim() === "" && (input.attachments ?? []).length === 0)
    throw new InputError("message", "a prompt that is not empty");
}

/** The effort that a session goes on with; undefined for one that was made without a run and chose none. */
function chosenEffort(session: Session | undefined): ReasoningEffort | undefined {
  return session && (session.lastSeq > 0 || session.reasoningEffort !== "") ? session.reasoningEffort : undefined;
}

/** The session that a run goes on in: the newest of the chain that `id` belongs to, with the fields of the chain. */
async function newestOf(store: SessionDriver, id: string): Promise<Session> {
  const session = await found(store, id);
  const newest = (await store.newest(session.chain.root)) ?? session;
  if (newest.chain.index === 0) return newest;
  // The original's are the chain's: a revert may have made an earlier follow-up the newest again.
  const { title, titled, provider, model, reasoningEffort, projectDir } = await found(store, session.chain.root);
  return { ...newest, title, titled, provider, model, reasoningEffort, projectDir };
}

async function recentPair(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  const { sessions } = await store.list({ projectDir, limit: 10 });
  return sessions.find((session) => session.provider !== "" && session.model !== "");
}
