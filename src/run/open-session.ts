import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { AsyncScope } from "../base/async-scope.js";
import { Conversation } from "../conversation/conversation.js";
import { Recorder } from "../conversation/recorder.js";
import type { ChosenModel } from "../models/models.js";
import { SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { Message } from "../ports/message.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { Session } from "../ports/session.js";
import type { LeaseHead, LeaseOptions, SessionDriver } from "../ports/session-driver.js";
import type { SessionFields } from "../ports/session-change.js";
import type { Environment, ProjectInstructions } from "../project/project.js";
import type { NewWorktree } from "../ports/worktrees.js";
import { ActiveLease } from "../sessions/lease.js";
import { createNewSession } from "../sessions/new-session.js";
import { notifierOf } from "../sessions/polling-notifier.js";
import { createRunRecord } from "../sessions/run-record.js";
import { isBefore, isQueued } from "../sessions/stored-run.js";
import type { SessionTail } from "../watch/session-tail.js";
import { addUsageToParent, createSubagentSession } from "./calls/spawn.js";
import type { RunLimits, RunSlot } from "./budget/limits.js";
import type { AgentServices, SubagentCall } from "./context/agent-services.js";
import type { StructuredOutput } from "./context/structured-output.js";
import { Inbox } from "./queue/inbox.js";
import type { QueueHandover } from "./queue/queued-run.js";

/** Messages that one query reads. */
const PAGE_SIZE = 1_000;

/** A request for a run, as it arrives. */
export interface RunOrigin {
  readonly input: RunInput;
  /** Set for a run that was queued. */
  readonly handover: QueueHandover | undefined;
  /** Set for the run of a subagent. */
  readonly parentCall: SubagentCall | undefined;
  readonly slot: RunSlot;
  /** Ends the run, also while it starts. */
  readonly cancel: AbortController;
  /** Called if the run does not start, while it still has the lease. They never reject. */
  readonly rollbacks: (() => Promise<void>)[];
}

/** A request with its session, folder, model, effort and budget. */
export interface ResolvedRequest extends RunOrigin {
  readonly id: string;
  /** Adds the run's id to each log line. */
  readonly logger: Logger;
  readonly store: SessionDriver;
  /** First session of the chain, as read before the lease is taken. Undefined: the run creates a session. */
  readonly storedSession: Session | undefined;
  readonly projectDir: string;
  /** The worktree of a new session that works in one. */
  readonly worktree: NewWorktree | undefined;
  readonly chosenModel: ChosenModel;
  readonly requestedEffort: ReasoningEffort;
  readonly limits: RunLimits;
  readonly structuredOutput: StructuredOutput | undefined;
  /** Whether the requested tools work on files. */
  readonly usesFiles: boolean;
  /** Read in parallel with the store. Never rejects. */
  readonly instructions: Promise<ProjectInstructions>;
  /** Like `instructions`. Undefined if the session exists, because the session then usually has an environment. */
  readonly environment: Promise<Environment> | undefined;
}

/** The session of a run, opened under its lease. */
export interface OpenedSession {
  /** Id of the chain's first session. */
  readonly id: string;
  readonly store: SessionDriver;
  /** The chain as read with the lease. Undefined: the run creates the session. */
  readonly head: LeaseHead | undefined;
  /** Fields that the run sets in the session. */
  readonly fields: SessionFields;
  /** The run's input with the attachments that were read. */
  readonly input: RunInput;
  readonly conversation: Conversation;
  /** Whether the conversation is that of the previous run of this process, unchanged since. */
  readonly isCached: boolean;
  /** State that tools store for the session. */
  readonly state: Map<string, unknown>;
  readonly lease: ActiveLease;
  readonly releaseLease: () => Promise<void>;
  readonly recorder: Recorder;
  readonly inbox: Inbox;
  readonly tail: SessionTail;
}

/**
 * Takes the session's lease, and reads what the run continues. `scope` then owns the lease, the inbox and the tail.
 * Rejects with `SessionBusyError` if another run has the session or is ahead in its queue.
 */
export async function openSession(
  agent: AgentServices,
  request: ResolvedRequest,
  scope: AsyncScope,
): Promise<OpenedSession> {
  const { handover, store, storedSession, logger, cancel, chosenModel } = request;
  const { conversations, toolStates } = agent.caches;
  const firstSession = storedSession ?? createFirstSession(agent, request);
  const id = firstSession.chain.root;
  // The head is read with the lease, because another process may have continued, compacted or deleted the session.
  const headRequest = storedSession && createHeadRequest(storedSession, conversations.getFence(id));
  const onLeaseLost = (reason: Error) => cancel.abort(reason);
  const [lease, leaseHead] = await ActiveLease.takeWithHead(store, id, headRequest, logger, onLeaseLost);
  const releaseLease = scope.defer(() => lease.releaseWithRetries(agent.background));
  await handover?.takeOver();
  const input = await readAttachments(request);
  if (storedSession && !leaseHead) throw new SessionNotFoundError(id);
  if (leaseHead?.unfinished.some((run) => isAhead(run, handover?.record))) throw new SessionBusyError();
  const replacesMessages = input.rewind !== undefined || input.retry === true;
  const rewoundHead =
    leaseHead && replacesMessages
      ? await (await import("./rewind.js")).rewindForRun(agent, request, lease.fence)
      : undefined;
  const head = rewoundHead ?? leaseHead;
  const fields = {
    provider: chosenModel.provider.name,
    model: chosenModel.model.id,
    reasoningEffort: request.requestedEffort,
    ...(input.mode && { mode: input.mode }),
    // A new message brings the session back to the lists.
    ...(head?.root.archived && { archived: false }),
  };
  const session = { ...(head ? createContinuedSession(head) : firstSession), ...fields };
  const unchangedConversation = head && conversations.take(id, lease.previousFence);
  const cachedConversation = rewoundHead ? undefined : unchangedConversation;
  const isCached = cachedConversation !== undefined;
  const messages = head && !isCached ? await loadMessages(store, head, headRequest, lease.previousFence) : [];
  const conversation = cachedConversation ?? new Conversation(session, messages);
  conversation.session = session;
  const channels = openChannels(agent, request, conversation, head?.root ?? firstSession, lease.fence, scope);
  const state = await toolStates.load(conversation, store, isCached);
  return { id, store, head, fields, input, conversation, isCached, state, lease, releaseLease, ...channels };
}

function createFirstSession(agent: AgentServices, { parentCall, projectDir }: ResolvedRequest): Session {
  return parentCall
    ? createSubagentSession(parentCall, projectDir)
    : createNewSession({}, { projectDir, mode: agent.defaults.mode });
}

/** Opens what writes to the session and what reads its instructions. `root`: first session, as read with the lease. */
function openChannels(
  agent: AgentServices,
  { id: runId, input, parentCall, store, logger, cancel }: ResolvedRequest,
  { session, lastSeq }: Conversation,
  root: Session,
  fence: number,
  scope: AsyncScope,
): Pick<OpenedSession, "inbox" | "tail" | "recorder"> {
  const sessionId = root.chain.root;
  const inbox = scope.use(new Inbox({ runId, sessionId, store, cancel, logger }), (openInbox) => openInbox.close());
  const { tail, release } = agent.channels.liveSessions().open(sessionId, store);
  scope.defer(release);
  const tailWriter = scope.use(tail.openWriter(root.rewinds.length), (writer) => writer.end());
  if (input.hasResponder) scope.defer(tail.addResponder(input.hasResponder));
  const { provider, model } = session;
  const { idempotencyKey = "", fingerprint = "" } = input;
  const record = createRunRecord({
    id: runId,
    sessionId,
    provider,
    model,
    after: lastSeq,
    idempotencyKey,
    fingerprint,
  });
  const onFailure = (error: unknown) => cancel.abort(error);
  const recorder = new Recorder(store, session.id, fence, record, root.usage, onFailure, (change) => {
    tailWriter.reportChange(change);
    notifierOf(store).publish(sessionId);
    if (parentCall && change.usage) addUsageToParent(parentCall, runId, change.usage);
  });
  return { inbox, tail, recorder };
}

/** Reads the attachments when a reader slot is free. Returns the input with these attachments. */
async function readAttachments({ input, slot, cancel: { signal } }: ResolvedRequest): Promise<RunInput> {
  const { attach, attachments = [] } = input;
  signal.throwIfAborted();
  if (!attach) return input;
  const loadedAttachments = await slot.read(() => {
    signal.throwIfAborted();
    return attach((bytes) => slot.reserveBytes(bytes));
  });
  signal.throwIfAborted();
  return { ...input, attachments: [...attachments, ...loadedAttachments] };
}

/** Whether `run` is queued before the starting run. `queuedRecord`: undefined if the starting run is not queued. */
function isAhead(run: RunRecord, queuedRecord: RunRecord | undefined): boolean {
  return isQueued(run) && run.id !== queuedRecord?.id && (!queuedRecord || isBefore(run, queuedRecord));
}

export type HeadRequest = NonNullable<LeaseOptions["head"]>;

/**
 * Returns the head options for acquiring the lease of a chain. `firstSession` is the chain's first session, as read
 * before. The messages of a long conversation are not requested; `loadMessages` reads them.
 */
export function createHeadRequest(firstSession: Session, cachedFence: number | undefined): HeadRequest {
  return {
    messages: firstSession.lastSeq <= PAGE_SIZE,
    ...(cachedFence !== undefined && { cachedFence }),
  };
}

/**
 * Returns the messages of the head that was returned with the lease, including messages that were not requested.
 * `headRequest` and `previousFence` show whether messages are missing. The caller must hold the lease, so that the
 * messages cannot change.
 *
 * A long conversation is read in pages. Other tasks can run between two pages.
 */
export async function loadMessages(
  store: SessionDriver,
  head: LeaseHead,
  headRequest: HeadRequest | undefined,
  previousFence: number | undefined,
): Promise<Message[]> {
  const isCached = headRequest?.cachedFence !== undefined && headRequest.cachedFence === previousFence;
  // Some stores return the messages although they were not requested.
  if (head.messages.length > 0 || (headRequest?.messages === true && !isCached)) return head.messages;
  const { root } = head.root.chain;
  // A follow-up session starts with a view, which only the head contains. A view is short by design.
  if (head.newest.chain.index > 0) return (await store.head(root))?.messages ?? [];
  const messages: Message[] = [];
  for (let after = 0; ; after = messages.at(-1)?.seq ?? after) {
    const page = await store.messages(root, { after, limit: PAGE_SIZE });
    messages.push(...page);
    if (page.length < PAGE_SIZE) return messages;
    await yieldToEventLoop();
  }
}

/**
 * Returns the session that a run continues. Chain-wide fields come from the first session, because a revert may have
 * made an earlier follow-up the newest again.
 */
export function createContinuedSession({ root, newest }: LeaseHead): Session {
  const { title, hasFinalTitle, provider, model, reasoningEffort, mode, permissionGrants, rewinds, projectDir } = root;
  return {
    ...newest,
    title,
    hasFinalTitle,
    provider,
    model,
    reasoningEffort,
    mode,
    permissionGrants,
    rewinds,
    projectDir,
  };
}
