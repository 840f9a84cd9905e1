import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import { newId } from "../base/ids.js";
import { createLoggerWithFields } from "../base/log.js";
import { Conversation } from "../conversation/conversation.js";
import { findDanglingCalls } from "../conversation/messages.js";
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
import { checkFolder, createNewSession } from "../sessions/new-session.js";
import { isBefore, isQueued } from "../sessions/stored-run.js";
import { requirePrices, RunBudget } from "./budget/run-budget.js";
import { createContinuedSession, createHeadRequest, loadMessages } from "./chain-head.js";
import { RunClock } from "./budget/run-clock.js";
import { EventBuffer } from "./context/event-buffer.js";
import { persistNewSession, persistPrompt, toPromptMessage } from "./persist-prompt.js";
import { withFolders } from "./input/folders.js";
import { Inbox } from "./queue/inbox.js";
import { createToolList, withMcpServers } from "./input/run-input.js";
import { selectOfferedTools } from "./tools/offered-tools.js";
import { countAttachedBytes, type RunSlot } from "./budget/run-limiter.js";
import { hasCostLimit, isMetered, resolveBudget } from "./budget/budget.js";
import type { QueueHandover } from "./queue/queued-run.js";
import type { AgentServices, RunContext, SubagentCall } from "./context/run-context.js";
import { createRunRecord, toRunError } from "../sessions/run-record.js";
import { addUsageToParent, createSubagentSession } from "./calls/spawn.js";
import { loadEnvironment, worksOnFiles } from "./prompt/environment.js";
import { buildSystemPrompt } from "./prompt/system-prompt.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/**
 * Starts a run: takes a slot and the session's lease, and stores the user's message. Rejects like `Agent.run`; then no
 * message is stored, and slot and lease are free. `handover`: set for a run that was queued. `parentCall`: set for the
 * run of a subagent.
 */
export async function startRun(
  agent: AgentServices,
  input: RunInput,
  handover?: QueueHandover,
  parentCall?: SubagentCall,
): Promise<RunContext> {
  const slot = agent.limiter.takeSlot();
  const cancel = new AbortController();
  const parentSignals = [
    agent.closeSignal,
    ...(input.signal ? [input.signal] : []),
    ...(handover ? [handover.signal] : []),
  ];
  // Each tool of a run may add a listener, and many runs share these signals.
  setMaxListeners(0, cancel.signal, ...parentSignals);
  // `AbortSignal.any` is not used: its signals are expensive and are released only by garbage collection.
  const removeListeners = parentSignals.map((signal) => onAbort(signal, () => cancel.abort(signal.reason)));
  const releaseSlot = (): void => {
    for (const removeListener of removeListeners) removeListener();
    slot.release();
  };
  try {
    slot.reserveBytes(countAttachedBytes(input));
    return await startInSlot(agent, input, slot, cancel, releaseSlot, handover, parentCall);
  } catch (error) {
    releaseSlot();
    throw toRunError(error, cancel.signal);
  }
}

async function startInSlot(
  agent: AgentServices,
  input: RunInput,
  slot: RunSlot,
  cancel: AbortController,
  releaseSlot: () => void,
  handover: QueueHandover | undefined,
  parentCall: SubagentCall | undefined,
): Promise<RunContext> {
  const { signal } = cancel;
  const store = await agent.store();
  const storedSession = input.sessionId === undefined ? undefined : await requireFirstSession(store, input.sessionId);
  const projectDir = input.projectDir ?? storedSession?.projectDir ?? agent.projectDir;
  // Read in parallel with the folder check and the store. Never rejects.
  const instructionsPromise = agent.project.instructions(projectDir);
  const usesFiles = worksOnFiles(input.tools ?? agent.tools.list.tools);
  const environmentPromise = storedSession || !usesFiles ? undefined : agent.project.environment(projectDir);
  await checkFolder(projectDir);
  const chosenModel = await agent.models.resolve(
    { provider: input.provider ?? "", model: input.model ?? "" },
    { provider: storedSession?.provider ?? "", model: storedSession?.model ?? "" },
    () => findRecentModel(store, projectDir),
    signal,
    input.onWaiting,
  );
  const budgetLimits = resolveBudget(agent.limits, input);
  // A run with a cost limit must not call a model with unknown prices.
  if (hasCostLimit(budgetLimits))
    await requirePrices(chosenModel.provider, chosenModel.model, 0, budgetLimits.unknownPrice);
  const { outputSchema } = input;
  const structuredOutput =
    outputSchema === undefined
      ? undefined
      : await (await import("./context/structured-output.js")).StructuredOutput.open(outputSchema, signal);
  const id = handover?.record.id ?? newId();
  const logger = createLoggerWithFields(agent.logger, { run: id });
  const firstSession =
    storedSession ??
    (parentCall
      ? createSubagentSession(parentCall, projectDir)
      : createNewSession({}, { projectDir, mode: agent.mode }));
  const sessionId = firstSession.chain.root;
  // The head is read with the lease, because another process may have continued, compacted or deleted the session.
  const headRequest = storedSession && createHeadRequest(storedSession, agent.conversationCache.getFence(sessionId));
  const onLeaseLost = (reason: Error) => cancel.abort(reason);
  const [lease, head] = await ActiveLease.takeWithHead(store, sessionId, headRequest, logger, onLeaseLost);
  let releaseTools = (): void => undefined;
  let releaseTail = (): void => undefined;
  let closeInbox = async (): Promise<void> => undefined;
  try {
    await handover?.takeOver();
    const inputWithAttachments = await readAttachments(input, slot, signal);
    const effort = input.reasoningEffort ?? findSessionEffort(storedSession) ?? agent.reasoningEffort;
    const sessionFields = {
      provider: chosenModel.provider.name,
      model: chosenModel.model.id,
      reasoningEffort: effort,
      ...(input.mode && { mode: input.mode }),
    };
    if (storedSession && !head) throw new SessionNotFoundError(sessionId);
    if (head?.unfinished.some((run) => isAhead(run, handover?.record))) throw new SessionBusyError();
    const session = { ...(head ? createContinuedSession(head) : firstSession), ...sessionFields };
    const cachedConversation = head && agent.conversationCache.take(sessionId, lease.previousFence);
    const storedMessages =
      head && !cachedConversation ? await loadMessages(store, head, headRequest, lease.previousFence) : [];
    const conversation = cachedConversation ?? new Conversation(session, storedMessages);
    conversation.session = session;
    const { idempotencyKey = "", fingerprint = "" } = input;
    const after = conversation.lastSeq;
    const record = createRunRecord({
      id,
      sessionId,
      provider: sessionFields.provider,
      model: sessionFields.model,
      after,
      idempotencyKey,
      fingerprint,
    });
    const runToolList = withMcpServers(
      input.tools === undefined ? agent.tools.list : createToolList(input.tools),
      agent,
      input,
    );
    const toolRequest = { runId: id, sessionId, projectDir, logger, signal };
    const {
      tools,
      missingSources,
      prompts,
      release: releaseRunTools,
    } = await agent.sources.open(runToolList, toolRequest);
    releaseTools = releaseRunTools;
    const isCommand = input.commands === true && input.message.trimStart().startsWith("/");
    const expandedInput = isCommand
      ? await (
          await import("./prompt/agent-commands.js")
        ).expandCommand(agent, inputWithAttachments, { projectDir, prompts }, slot, signal)
      : inputWithAttachments;
    const inbox = new Inbox({ runId: id, sessionId, store, cancel, logger });
    closeInbox = () => inbox.close();
    const { tail, release: closeTail } = agent.liveSessions().open(sessionId, store);
    const tailWriter = tail.openWriter((head?.root ?? firstSession).rewinds.length);
    // Added before the tools are selected: tools that need a user are offered only if a client can answer.
    const removeResponder = input.hasResponder ? tail.addResponder(input.hasResponder) : () => undefined;
    // A subagent requests permission from its parent's clients, but it cannot ask users questions.
    const canAskUser = !parentCall && (input.ask !== undefined || tail.isShown || agent.unattended.policy === "wait");
    releaseTail = () => {
      removeResponder();
      tailWriter.end();
      closeTail();
    };
    const state = await agent.toolStates.load(conversation, store, cachedConversation !== undefined);
    const { environment, newState } = await loadEnvironment(
      agent.project,
      projectDir,
      usesFiles,
      state,
      environmentPromise,
    );
    const instructions = await instructionsPromise;
    // Without a tool that reads skills, the prompt lists none.
    const visibleInstructions = tools.some(({ needsSkills }) => needsSkills)
      ? instructions
      : { ...instructions, skills: [] };
    const modelTools = selectOfferedTools(
      tools,
      { provider: sessionFields.provider, id: sessionFields.model },
      { canAskUser, hasSkills: visibleInstructions.skills.length > 0 },
      logger,
    );
    const recorder = new Recorder(
      store,
      session.id,
      lease.fence,
      record,
      (head?.root ?? firstSession).usage,
      (error) => cancel.abort(error),
      (change) => {
        tailWriter.reportChange(change);
        notifierOf(store).publish(sessionId);
        if (parentCall && change.usage) addUsageToParent(parentCall, id, change.usage);
      },
    );
    const parentBudget = parentCall?.parentRun.allowance;
    const budgetOwner = { ...chosenModel, recorder, signal, parentBudget };
    const { seconds } = budgetLimits.run;
    const extraPrompt = input.systemPrompt ?? agent.prompt.text;
    const run: RunContext = {
      agent,
      id,
      sessionId,
      parentCall,
      agentId: newId(),
      ...chosenModel,
      effort: selectEffort(chosenModel, effort, logger),
      extraPrompt,
      systemPrompt: buildSystemPrompt({
        model: chosenModel.model,
        tools: modelTools,
        projectDir,
        environment,
        instructions: visibleInstructions,
        extraText: withFolders(extraPrompt, input.folders),
        promptUse: agent.prompt.use,
        missingSources,
        answerInstructions: structuredOutput?.instructions ?? "",
      }),
      tools: modelTools,
      skills: visibleInstructions.skills,
      hooks: agent.hooks,
      limits: parentCall ? { ...agent.limits, iterations: parentCall.maxIterations } : agent.limits,
      allowance: isMetered(budgetLimits) || parentBudget ? new RunBudget(budgetLimits, budgetOwner) : undefined,
      clock: seconds === undefined ? undefined : new RunClock(seconds, () => cancel.abort(new BudgetExceededError())),
      unknownPrice: budgetLimits.unknownPrice,
      structuredOutput,
      outputSchema: structuredOutput?.schema,
      compactionInstruction: expandedInput.compact ? expandedInput.message : undefined,
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
        releaseSlot();
        releaseRunTools();
        releaseTail();
      },
    };
    const prompt = withState(toPromptMessage(expandedInput), newState);
    // A cached conversation has no dangling calls.
    const callsWithoutResult = cachedConversation ? [] : findDanglingCalls(conversation.messages);
    await (head
      ? persistPrompt(run, sessionFields, expandedInput, prompt, callsWithoutResult, head.unfinished)
      : persistNewSession(run, prompt));
    inbox.listen();
    // Instructions may have arrived while the run was queued.
    if (handover) void inbox.read();
    return run;
  } catch (error) {
    releaseTools();
    releaseTail();
    await closeInbox();
    await lease.releaseWithRetries(agent);
    throw error;
  }
}

/** Reads the attachments when a reader slot is free. Returns the input with these attachments. */
async function readAttachments(input: RunInput, slot: RunSlot, signal: AbortSignal): Promise<RunInput> {
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

/** Returns the requested effort, or the nearest one that the model supports. */
function selectEffort(
  { provider, model }: ChosenModel,
  requestedEffort: ReasoningEffort,
  logger: Logger,
): ReasoningEffort {
  const effort = nearestEffort(requestedEffort, model.efforts);
  if (effort !== requestedEffort) {
    const fields = { provider: provider.name, model: model.id };
    logger.info("model does not support the reasoning effort; using the nearest", {
      ...fields,
      requested: requestedEffort,
      effort,
    });
  }
  return effort;
}

/** Returns the effort with which a session continues; undefined for a session without runs that set no effort. */
function findSessionEffort(session: Session | undefined): ReasoningEffort | undefined {
  return session && (session.lastSeq > 0 || session.reasoningEffort !== "") ? session.reasoningEffort : undefined;
}

/** Returns the first session of a session's chain, which has the chain-wide fields. */
async function requireFirstSession(store: SessionDriver, id: string): Promise<Session> {
  const session = await requireSession(store, id);
  return session.chain.index === 0 ? session : requireSession(store, session.chain.root);
}

async function findRecentModel(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  // The newest session usually has a model. Sessions that a client only opened have none.
  for (const limit of [1, 10]) {
    const { sessions } = await store.list({ projectDir, limit });
    const recentSession = sessions.find((session) => session.provider !== "" && session.model !== "");
    if (recentSession) return recentSession;
  }
  return undefined;
}
