import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import { newId } from "../base/ids.js";
import { loggerWith } from "../base/log.js";
import { Conversation } from "../conversation/conversation.js";
import { danglingCalls } from "../conversation/messages.js";
import { withState } from "../conversation/stored-state.js";
import { Recorder } from "../conversation/recorder.js";
import { nearestEffort } from "../models/efforts.js";
import type { ChosenModel, ModelPair } from "../models/models.js";
import { BudgetExceededError, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Session } from "../ports/session.js";
import { requireSession } from "../sessions/require-session.js";
import { ActiveLease } from "../sessions/lease.js";
import { checkFolder, newSession } from "../sessions/new-session.js";
import { isBefore, isQueued } from "../sessions/stored-run.js";
import { pricesOf, RunBudget } from "./budget/meter.js";
import { sessionToContinue, headOptions, messagesOf } from "./chain-head.js";
import { RunClock } from "./budget/time-limit.js";
import { EventBuffer } from "./context/event-buffer.js";
import { persistNewSession, persistPrompt, promptOf } from "./persist-prompt.js";
import { withFolders } from "./input/folders.js";
import { Inbox } from "./queue/inbox.js";
import { toolList, withServers } from "./input/run-input.js";
import { offeredTools } from "./tools/offered-tools.js";
import { attachedBytes, type RunSlot } from "./budget/concurrency.js";
import { hasCostLimit, isMetered, resolveBudget } from "./budget/budget.js";
import type { QueueTurn } from "./queue/queued-run.js";
import type { AgentServices, RunContext, Spawned } from "./context/run-context.js";
import { startedRecord, asRunError } from "../sessions/run-record.js";
import { addUsageToParent, newSubagentSession } from "./calls/spawn.js";
import { loadEnvironment, worksOnFiles } from "./prompt/environment.js";
import { systemPrompt } from "./prompt/system-prompt.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/**
 * Starts a run: takes a slot and the session's lease, and stores the user's message. Rejects like `Agent.run`; then
 * nothing is stored and nothing is held. `turn`: set for a run that was queued.
 */
export async function startRun(
  agent: AgentServices,
  input: RunInput,
  turn?: QueueTurn,
  spawned?: Spawned,
): Promise<RunContext> {
  const place = agent.limiter.take();
  const cancel = new AbortController();
  const parentSignals = [agent.closing, ...(input.signal ? [input.signal] : []), ...(turn ? [turn.signal] : [])];
  // Each tool of a run may add a listener, and many runs share these signals.
  setMaxListeners(0, cancel.signal, ...parentSignals);
  // `AbortSignal.any` is not used: its signals are expensive and are released only by garbage collection.
  const ties = parentSignals.map((signal) => onAbort(signal, () => cancel.abort(signal.reason)));
  const leave = (): void => {
    for (const untie of ties) untie();
    place.release();
  };
  try {
    place.reserve(attachedBytes(input));
    return await begin(agent, input, place, cancel, leave, turn, spawned);
  } catch (error) {
    leave();
    throw asRunError(error, cancel.signal);
  }
}

async function begin(
  agent: AgentServices,
  input: RunInput,
  place: RunSlot,
  cancel: AbortController,
  leave: () => void,
  turn: QueueTurn | undefined,
  spawned: Spawned | undefined,
): Promise<RunContext> {
  const { signal } = cancel;
  const store = await agent.store();
  const stored = input.sessionId === undefined ? undefined : await requireOriginal(store, input.sessionId);
  const projectDir = input.projectDir ?? stored?.projectDir ?? agent.projectDir;
  // Runs in parallel with the folder check and the store. Never rejects.
  const words = agent.project.instructions(projectDir);
  const isOnFiles = worksOnFiles(input.tools ?? agent.tools.list.tools);
  const looking = stored || !isOnFiles ? undefined : agent.project.environment(projectDir);
  await checkFolder(projectDir);
  const chosen = await agent.models.resolve(
    { provider: input.provider ?? "", model: input.model ?? "" },
    { provider: stored?.provider ?? "", model: stored?.model ?? "" },
    () => recentPair(store, projectDir),
    signal,
    input.onWaiting,
  );
  const purse = resolveBudget(agent.limits, input);
  // A run with a cost limit must not call a model with unknown prices.
  if (hasCostLimit(purse)) await pricesOf(chosen.provider, chosen.model, 0, purse.unknownPrice);
  const { outputSchema } = input;
  const structure =
    outputSchema === undefined
      ? undefined
      : await (await import("./context/structured-output.js")).StructuredOutput.open(outputSchema, signal);
  const id = turn?.record.id ?? newId();
  const logger = loggerWith(agent.logger, { run: id });
  const original =
    stored ?? (spawned ? newSubagentSession(spawned, projectDir) : newSession({}, { projectDir, mode: agent.mode }));
  const sessionId = original.chain.root;
  // Read with the lease: before that, another process may have continued, compacted or deleted the session.
  const headRequest = stored && headOptions(stored, agent.conversationCache.fenceOf(sessionId));
  const lost = (reason: Error) => cancel.abort(reason);
  const [lease, head] = await ActiveLease.takeWithHead(store, sessionId, headRequest, logger, lost);
  let releaseTools = (): void => undefined;
  let releaseTail = (): void => undefined;
  let closeInbox = async (): Promise<void> => undefined;
  try {
    await turn?.takeOver();
    const inputWithAttachments = await readAttachments(input, place, signal);
    const effort = input.reasoningEffort ?? chosenEffort(stored) ?? agent.reasoningEffort;
    const set = {
      provider: chosen.provider.name,
      model: chosen.model.id,
      reasoningEffort: effort,
      ...(input.mode && { mode: input.mode }),
    };
    if (stored && !head) throw new SessionNotFoundError(sessionId);
    if (head?.unfinished.some((run) => isAhead(run, turn?.record))) throw new SessionBusyError();
    const session = { ...(head ? sessionToContinue(head) : original), ...set };
    const cachedConversation = head && agent.conversationCache.take(sessionId, lease.previous);
    const before = head && !cachedConversation ? await messagesOf(store, head, headRequest, lease.previous) : [];
    const conversation = cachedConversation ?? new Conversation(session, before);
    conversation.session = session;
    const { idempotencyKey = "", fingerprint = "" } = input;
    const after = conversation.lastSeq;
    const record = startedRecord({
      id,
      sessionId,
      provider: set.provider,
      model: set.model,
      after,
      idempotencyKey: idempotencyKey,
      fingerprint,
    });
    const list = withServers(input.tools === undefined ? agent.tools.list : toolList(input.tools), agent, input);
    const of = { runId: id, sessionId, projectDir, logger, signal };
    const { tools, missing, prompts, release } = await agent.sources.open(list, of);
    releaseTools = release;
    const isCommand = input.commands === true && input.message.trimStart().startsWith("/");
    const expandedInput = isCommand
      ? await (
          await import("./prompt/agent-commands.js")
        ).expandCommand(agent, inputWithAttachments, { projectDir, prompts }, place, signal)
      : inputWithAttachments;
    const inbox = new Inbox({ runId: id, sessionId, store, cancel, logger });
    closeInbox = () => inbox.close();
    const { tail, leave: leaveTail } = agent.live().open(sessionId, store);
    const hold = tail.openWriter((head?.original ?? original).rewinds.length);
    // Before the tools are chosen: tools that need a user are offered only if a client can answer.
    const unattend = input.hasResponder ? tail.addResponder(input.hasResponder) : () => undefined;
    // A subagent requests permission from its parent's clients, but it cannot ask users questions.
    const someone = !spawned && (input.ask !== undefined || tail.isShown || agent.unattended.policy === "wait");
    releaseTail = () => {
      unattend();
      hold.end();
      leaveTail();
    };
    const state = await agent.toolStates.of(conversation, store, cachedConversation !== undefined);
    const { environment, newState } = await loadEnvironment(agent.project, projectDir, isOnFiles, state, looking);
    const instructions = await words;
    // Without a tool that reads skills, the prompt lists none.
    const visibleInstructions = tools.some(({ needsSkills }) => needsSkills)
      ? instructions
      : { ...instructions, skills: [] };
    const offered = offeredTools(
      tools,
      { provider: set.provider, id: set.model },
      { person: someone, skills: visibleInstructions.skills.length > 0 },
      logger,
    );
    const recorder = new Recorder(
      store,
      session.id,
      lease.fence,
      record,
      (head?.original ?? original).usage,
      (error) => cancel.abort(error),
      (change) => {
        hold.stored(change);
        notifierOf(store).publish(sessionId);
        if (spawned && change.usage) addUsageToParent(spawned, id, change.usage);
      },
    );
    const parentBudget = spawned?.parentRun.allowance;
    const spender = { ...chosen, recorder, signal, parentBudget };
    const { seconds } = purse.run;
    const extraPrompt = input.systemPrompt ?? agent.prompt.text;
    const run: RunContext = {
      agent,
      id,
      sessionId,
      spawned,
      agentId: newId(),
      ...chosen,
      effort: effortOf(chosen, effort, logger),
      extraPrompt,
      system: systemPrompt({
        model: chosen.model,
        tools: offered,
        projectDir,
        environment: environment,
        instructions: visibleInstructions,
        extra: withFolders(extraPrompt, input.folders),
        use: agent.prompt.use,
        missing,
        answer: structure?.instructions ?? "",
      }),
      tools: offered,
      skills: visibleInstructions.skills,
      hooks: agent.hooks,
      limits: spawned ? { ...agent.limits, iterations: spawned.maxIterations } : agent.limits,
      allowance: isMetered(purse) || parentBudget ? new RunBudget(purse, spender) : undefined,
      clock: seconds === undefined ? undefined : new RunClock(seconds, () => cancel.abort(new BudgetExceededError())),
      unknownPrice: purse.unknownPrice,
      structure,
      outputSchema: structure?.schema,
      compacts: expandedInput.compact ? expandedInput.message : undefined,
      projectDir,
      folders: input.folders ?? [],
      conversation,
      state,
      store,
      lease,
      recorder,
      tail,
      inbox,
      bus: agent.bus,
      logger,
      events: new EventBuffer(input.overflow ?? "drop"),
      ask: input.ask,
      alwaysAsk: input.alwaysAsk ?? true,
      clientName: input.clientName ?? "sdk",
      pendingAskIds: new Set(),
      cancel,
      signal,
      release: () => {
        leave();
        release();
        releaseTail();
      },
    };
    const prompt = withState(promptOf(expandedInput), newState);
    // A cached conversation has no dangling calls.
    const dangling = cachedConversation ? [] : danglingCalls(conversation.messages);
    await (head
      ? persistPrompt(run, set, expandedInput, prompt, dangling, head.unfinished)
      : persistNewSession(run, prompt));
    inbox.listen();
    // Instructions may have arrived while the run was queued.
    if (turn) void inbox.read();
    return run;
  } catch (error) {
    releaseTools();
    releaseTail();
    await closeInbox();
    await lease.releaseWithRetries(agent);
    throw error;
  }
}

/** The input with its attachments read, when a reader slot is free. */
async function readAttachments(input: RunInput, place: RunSlot, signal: AbortSignal): Promise<RunInput> {
  const { attach, attachments = [] } = input;
  signal.throwIfAborted();
  if (!attach) return input;
  const extraAttachments = await place.read(() => {
    signal.throwIfAborted();
    return attach((bytes) => place.reserve(bytes));
  });
  signal.throwIfAborted();
  return { ...input, attachments: [...attachments, ...extraAttachments] };
}

/** Whether a queued run comes before another run. All queued runs come before a run that is not queued. */
function isAhead(run: RunRecord, queuedRecord: RunRecord | undefined): boolean {
  return isQueued(run) && run.id !== queuedRecord?.id && (!queuedRecord || isBefore(run, queuedRecord));
}

/** The effort of a run: the requested one, or the nearest that the model supports. */
function effortOf({ provider, model }: ChosenModel, requestedEffort: ReasoningEffort, logger: Logger): ReasoningEffort {
  const effort = nearestEffort(requestedEffort, model.efforts);
  if (effort !== requestedEffort) {
    const names = { provider: provider.name, model: model.id };
    logger.info("model does not support the reasoning effort; using the nearest", {
      ...names,
      requested: requestedEffort,
      effort,
    });
  }
  return effort;
}

/** The effort with which a session continues. Undefined for a session that has no run yet and set no effort. */
function chosenEffort(session: Session | undefined): ReasoningEffort | undefined {
  return session && (session.lastSeq > 0 || session.reasoningEffort !== "") ? session.reasoningEffort : undefined;
}

/** The original of a session's chain, which has the chain-wide fields. */
async function requireOriginal(store: SessionDriver, id: string): Promise<Session> {
  const session = await requireSession(store, id);
  return session.chain.index === 0 ? session : requireSession(store, session.chain.root);
}

async function recentPair(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  // The newest session usually has a model. Sessions that a client only opened have none.
  for (const limit of [1, 10]) {
    const { sessions } = await store.list({ projectDir, limit });
    const last = sessions.find((session) => session.provider !== "" && session.model !== "");
    if (last) return last;
  }
  return undefined;
}
