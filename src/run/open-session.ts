import type { AsyncScope } from "../base/async-scope.js";
import { nowNotBefore } from "../base/ids.js";
import { createLoggerWithFields } from "../base/log.js";
import { Conversation } from "../conversation/conversation.js";
import { Recorder } from "../conversation/recorder.js";
import type { ChosenModel } from "../models/models.js";
import { RunCancelledError, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { Session } from "../ports/session.js";
import type { LeaseHead, SessionDriver } from "../ports/session-driver.js";
import type { SessionFields } from "../ports/session-change.js";
import type { Environment, ProjectInstructions } from "../project/project.js";
import type { NewWorktree } from "../ports/worktrees.js";
import { ActiveLease } from "../sessions/lease.js";
import { notifierOf } from "../sessions/polling-notifier.js";
import { createRunRecord } from "../sessions/run-record.js";
import { canRestart, isBefore, isQueued, withEffectiveState } from "../sessions/stored-run.js";
import type { SessionTail } from "../watch/session-tail.js";
import { addUsageToParent } from "./calls/spawn.js";
import type { RunLimits, RunSlot } from "./budget/limits.js";
import type { AgentServices, SubagentCall } from "./context/agent-services.js";
import type { StructuredOutput } from "./context/structured-output.js";
import { createHeadRequest, loadMessages } from "./load-messages.js";
import { Inbox } from "./queue/inbox.js";
import type { QueueHandover } from "./queue/queued-run.js";

/** A request for a run, as it arrives. */
export interface RunOrigin {
  readonly input: RunInput;
  /** Set for a run that was queued. */
  readonly handover: QueueHandover | undefined;
  /** Set for the run of a subagent. */
  readonly parentCall: SubagentCall | undefined;
  /** Whether the run starts with the steering instructions that ended runs of its session did not read. */
  readonly isLateRun: boolean;
  readonly slot: RunSlot;
  /** Ends the run, also while it starts. */
  readonly cancel: AbortController;
  /** Called if the run does not start, while it still has the lease. They never reject. */
  readonly rollbacks: (() => Promise<void>)[];
}

/** A request with its session, folder, model, effort and budget. */
export interface ResolvedRequest extends RunOrigin {
  readonly id: string;
  /** Adds the ids of run and session, the client and the request to each log line. */
  readonly logger: Logger;
  readonly store: SessionDriver;
  /** First session of the chain, as read before the lease is taken. Undefined: the run creates a session. */
  readonly storedSession: Session | undefined;
  /** The same session, or the session that the run creates. */
  readonly firstSession: Session;
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
  /** The request. If the run continues an interrupted run, it has the id of that run. */
  readonly request: ResolvedRequest;
  /** Id of the chain's first session. */
  readonly id: string;
  readonly store: SessionDriver;
  /** The chain as read with the lease. Undefined: the run creates the session. */
  readonly head: LeaseHead | undefined;
  /** Fields that the run sets in the session. */
  readonly fields: SessionFields;
  /** The run's input with the attachments, or the late steering instructions, that were read. */
  readonly input: RunInput;
  /** Ids of the instructions whose texts are in `input`. */
  readonly consumedInstructions: readonly string[];
  readonly conversation: Conversation;
  /** Whether the conversation is that of the previous run of this process, unchanged since. */
  readonly isCached: boolean;
  /** State that tools store for the session. */
  readonly state: Map<string, unknown>;
  readonly lease: ActiveLease;
  readonly releaseLease: () => Promise<void>;
  readonly recorder: Recorder;
  readonly inbox: Inbox;
  /** The interrupted run that this run continues in place, after its stored prompt. */
  readonly continuedRun: RunRecord | undefined;
  /** An interrupted run that has the run's key but cannot be continued. It loses its key to this run. */
  readonly replacedRun: RunRecord | undefined;
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
  const { handover, store, storedSession, firstSession, logger, cancel, chosenModel } = request;
  const { conversations, toolStates } = agent.caches;
  const id = firstSession.chain.root;
  // The head is read with the lease, because another process may have continued, compacted or deleted the session.
  const headRequest = storedSession && createHeadRequest(storedSession, conversations.getFence(id));
  const onLeaseLost = (reason: Error) => cancel.abort(reason);
  const [lease, leaseHead] = await ActiveLease.takeWithHead(store, id, headRequest, logger, onLeaseLost);
  const releaseLease = scope.defer(() => lease.releaseWithRetries(agent.background));
  await handover?.takeOver();
  if (storedSession && !leaseHead) throw new SessionNotFoundError(id);
  const { continuedRun, replacedRun } = await findKeyOwner(request, id);
  // A continued run was active before the queued runs.
  if (!continuedRun && leaseHead?.unfinished.some((run) => isAhead(run, handover?.record, store)))
    throw new SessionBusyError();
  const { input, consumedInstructions } = await readInput(request, id);
  const replacesMessages = continuedRun !== undefined || input.rewind !== undefined || input.retry === true;
  const rewoundHead =
    leaseHead && replacesMessages
      ? await (await import("./rewind.js")).rewindForRun(agent, request, lease.fence, continuedRun)
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
  const ownRequest = continuedRun ? withRunId(request, continuedRun.id) : request;
  const root = head?.root ?? firstSession;
  const channels = openChannels(agent, ownRequest, { conversation, root, fence: lease.fence, continuedRun }, scope);
  const state = await toolStates.load(conversation, store, isCached);
  return {
    ...{ request: ownRequest, id, store, head, fields, input, conversation, isCached, state, lease, releaseLease },
    ...{ continuedRun, replacedRun, consumedInstructions, ...channels },
  };
}

/** Finds the interrupted run that has the run's key. The caller must hold the chain's lease. */
async function findKeyOwner(
  { input, store, storedSession }: ResolvedRequest,
  sessionId: string,
): Promise<Pick<OpenedSession, "continuedRun" | "replacedRun">> {
  const { idempotencyKey } = input;
  const run =
    !storedSession || idempotencyKey === undefined
      ? undefined
      : await findInterruptedRun(store, sessionId, idempotencyKey);
  const isContinued = run !== undefined && (await (await import("./rewind.js")).canContinue(store, run, input));
  return { continuedRun: isContinued ? run : undefined, replacedRun: isContinued ? undefined : run };
}

/** Returns the run of a chain that has a key and may be started again. */
async function findInterruptedRun(
  store: SessionDriver,
  sessionId: string,
  idempotencyKey: string,
): Promise<RunRecord | undefined> {
  const [keyOwner] = await store.runs({ sessionId, idempotencyKey, limit: 1 });
  const run = keyOwner && withEffectiveState(keyOwner, store);
  return run && canRestart(run) ? run : undefined;
}

function withRunId(request: ResolvedRequest, id: string): ResolvedRequest {
  return { ...request, id, logger: createLoggerWithFields(request.logger, () => ({ run: id })) };
}

interface ChannelOwner extends Pick<OpenedSession, "conversation" | "continuedRun"> {
  /** First session, as read with the lease. */
  readonly root: Session;
  readonly fence: number;
}

/** Opens what writes to the session and what reads its instructions. */
function openChannels(
  agent: AgentServices,
  { id: runId, input, parentCall, store, logger, cancel }: ResolvedRequest,
  { conversation, root, fence, continuedRun }: ChannelOwner,
  scope: AsyncScope,
): Pick<OpenedSession, "inbox" | "tail" | "recorder"> {
  const { session, lastSeq } = conversation;
  const sessionId = root.chain.root;
  const inbox = scope.use(new Inbox({ runId, sessionId, store, cancel, logger }), (openInbox) => openInbox.close());
  const { tail, release } = agent.channels.liveSessions().open(sessionId, store);
  scope.defer(release);
  const tailWriter = scope.use(tail.openWriter(root.rewinds.length), (writer) => writer.end());
  if (input.hasResponder) scope.defer(tail.addResponder(input.hasResponder));
  const { provider, model } = session;
  const { idempotencyKey = "", fingerprint = "", user } = input;
  const newRecord = createRunRecord({
    id: runId,
    sessionId,
    provider,
    model,
    after: lastSeq,
    idempotencyKey,
    fingerprint,
    ...(user !== undefined && { user }),
    startedAt: selectStartTime(root, store),
  });
  const { after, startedAt, usage, iterations } = continuedRun ?? newRecord;
  const record = { ...newRecord, after, startedAt, usage, iterations };
  const recorded = { run: record, lastSeq, sessionUsage: root.usage };
  const onFailure = (error: unknown) => cancel.abort(error);
  const recorder = new Recorder(store, session.id, fence, recorded, onFailure, (change) => {
    tailWriter.reportChange(change);
    notifierOf(store).publish(sessionId);
    if (parentCall && change.usage) addUsageToParent(parentCall, runId, change.usage);
  });
  return { inbox, tail, recorder };
}

/**
 * Returns the time at which a run of a chain starts: later than the chain's last change, so that the order of its runs
 * is correct even if the clocks of processes differ. `root`: first session, as read with the lease.
 */
function selectStartTime(root: Session, store: SessionDriver): string {
  const afterLastChange = root.lastSeq === 0 ? "" : new Date(Date.parse(root.updatedAt) + 1).toISOString();
  return nowNotBefore(afterLastChange, store);
}

/** Rejects with `RunCancelledError` if there are no late steering instructions, because another run took them. */
async function readInput(
  request: ResolvedRequest,
  sessionId: string,
): Promise<Pick<OpenedSession, "input" | "consumedInstructions">> {
  const { store, isLateRun, id } = request;
  if (!isLateRun) return { input: await readAttachments(request), consumedInstructions: [] };
  const { joinTexts, takeLateSteering } = await import("./queue/late-steering.js");
  const steering = await takeLateSteering(store, await store.instructions(sessionId), id);
  if (steering.length === 0) throw new RunCancelledError();
  const input = { ...request.input, message: joinTexts(steering) };
  return { input, consumedInstructions: steering.map((instruction) => instruction.id) };
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
function isAhead(run: RunRecord, queuedRecord: RunRecord | undefined, store: SessionDriver): boolean {
  return isQueued(run, store) && run.id !== queuedRecord?.id && (!queuedRecord || isBefore(run, queuedRecord));
}

/**
 * Returns the session that a run continues. Chain-wide fields come from the first session, because a revert may have
 * made an earlier follow-up the newest again.
 */
export function createContinuedSession({ root, newest }: LeaseHead): Session {
  const { title, hasFinalTitle, provider, model, reasoningEffort, mode, permissionGrants, rewinds, projectDir } = root;
  return {
    ...newest,
    ...(root.owner !== undefined && { owner: root.owner }),
    ...(root.shared && { shared: root.shared }),
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
