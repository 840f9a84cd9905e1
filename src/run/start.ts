import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import { AsyncScope } from "../base/async-scope.js";
import { newId } from "../base/ids.js";
import { createLoggerWithFields } from "../base/log.js";
import { SharedReads } from "../base/shared-reads.js";
import { nearestEffort } from "../models/efforts.js";
import type { ModelPair } from "../models/models.js";
import { BudgetExceededError, InputError } from "../ports/errors.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { NewWorktree } from "../ports/worktrees.js";
import type { Session } from "../ports/session.js";
import { checkFolder, createNewSession } from "../sessions/new-session.js";
import { hasSessions } from "../sessions/folder-use.js";
import { requireSession } from "../sessions/require-session.js";
import { toRunError } from "../sessions/run-record.js";
import { countAttachedBytes, hasCostLimit, isMetered, resolveLimits, RunClock } from "./budget/limits.js";
import { requirePrices, RunBudget } from "./budget/run-budget.js";
import { createSubagentSession } from "./calls/spawn.js";
import type { AgentServices } from "./context/agent-services.js";
import { EventBuffer } from "./context/event-buffer.js";
import type { RunContext } from "./context/run-context.js";
import { openSession, type OpenedSession, type ResolvedRequest, type RunOrigin } from "./open-session.js";
import { worksOnFiles } from "./prompt/system-prompt.js";
import { buildPrompt, openTools, persistPrompt, type RunPrompt } from "./run-prompt.js";

const DEFAULT_CLIENT_NAME = "sdk";

/**
 * Starts a run: takes a slot and the session's lease, and stores the user's message. Rejects like `Agent.run`; then no
 * message is stored, and slot and lease are free.
 */
export async function startRun(
  agent: AgentServices,
  request: Pick<RunOrigin, "input" | "handover" | "parentCall" | "isLateRun">,
): Promise<RunContext> {
  const { input, handover } = request;
  const scope = new AsyncScope();
  const slot = scope.use(agent.budget.limiter.takeSlot(), (takenSlot) => takenSlot.release());
  const rollbacks: (() => Promise<void>)[] = [];
  const cancel = createCancel(scope, [agent.background.closeSignal, input.signal, handover?.signal]);
  try {
    slot.reserveBytes(countAttachedBytes(input.attachments));
    const newRequest = await resolveRequest(agent, { ...request, slot, cancel, rollbacks });
    const session = await openSession(agent, newRequest, scope);
    const { request: ownRequest } = session;
    const tools = await openTools(agent, ownRequest, session, scope);
    const prompt = await buildPrompt(agent, ownRequest, session, tools);
    await persistPrompt(session, prompt, agent.channels.bus);
    await ownRequest.worktree?.confirm();
    session.inbox.listen();
    // Instructions may have arrived while the run was queued.
    if (handover) void session.inbox.read();
    if (session.continuedRun) await session.inbox.read();
    await readLateSteering(agent, session);
    return createRunContext(agent, ownRequest, session, prompt, scope);
  } catch (error) {
    for (const rollBack of rollbacks) await rollBack();
    await scope.close();
    throw toRunError(error, cancel.signal);
  }
}

/**
 * Adds steering instructions that ended runs did not read to a run of another process, or after a failure. The previous
 * run of this process has handled its own instructions. Never rejects.
 */
async function readLateSteering(
  { caches: { lateSteering } }: AgentServices,
  { id, head, isCached, inbox, request: { input, logger } }: OpenedSession,
): Promise<void> {
  if (!head || (isCached && !lateSteering.has(id))) return;
  lateSteering.add(id);
  // A compaction sends no message to the model.
  if (input.compact) return;
  try {
    await inbox.readLateSteering();
    lateSteering.delete(id);
  } catch (error) {
    logger.warn("steering messages of earlier runs could not be read; the next run reads them", { error });
  }
}

/** Creates the controller that ends a run, aborted by each of the signals. `scope` removes the listeners. */
function createCancel(scope: AsyncScope, signals: readonly (AbortSignal | undefined)[]): AbortController {
  const cancel = new AbortController();
  const parentSignals = signals.filter((signal) => signal !== undefined);
  // Each tool of a run may add a listener, and many runs share these signals.
  setMaxListeners(0, cancel.signal, ...parentSignals);
  // `AbortSignal.any` is not used: its signals are expensive and are released only by garbage collection.
  for (const signal of parentSignals) scope.defer(onAbort(signal, () => cancel.abort(signal.reason)));
  return cancel;
}

/** Resolves what a run works with. Stores nothing, takes no lease. Rejects like `Agent.run`. */
async function resolveRequest(agent: AgentServices, origin: RunOrigin): Promise<ResolvedRequest> {
  const { input, handover, cancel } = origin;
  const { signal } = cancel;
  const store = await agent.store();
  const storedSession = input.sessionId === undefined ? undefined : await requireFirstSession(store, input.sessionId);
  const requestedDir = input.projectDir ?? storedSession?.projectDir ?? agent.defaults.projectDir;
  const worktree = input.worktree ? await createWorktree(agent, requestedDir, store, origin) : undefined;
  const projectDir = worktree?.folder ?? requestedDir;
  const instructions = agent.project.instructions(projectDir);
  const usesFiles = worksOnFiles(input.tools ?? agent.tools.agentTools.list.tools);
  const environment = storedSession || !usesFiles ? undefined : agent.project.environment(projectDir);
  await checkFolder(projectDir);
  const id = handover?.record.id ?? newId();
  const firstSession = storedSession ?? createFirstSession(agent, origin, projectDir, store);
  const { clientName = DEFAULT_CLIENT_NAME, logFields } = input;
  const session = firstSession.chain.root;
  const commonFields = { run: id, session, client: clientName, ...logFields };
  const logger = createLoggerWithFields(agent.channels.logger, () => commonFields);
  const chosenModel = await agent.models.resolve(
    { provider: input.provider ?? "", model: input.model ?? "" },
    { provider: storedSession?.provider ?? "", model: storedSession?.model ?? "" },
    () => findRecentModel(store, requestedDir),
    signal,
    input.onWaiting,
    logger,
  );
  const limits = resolveLimits(agent.budget.limits, input.budget, origin.parentCall?.maxIterations);
  // A run with a cost limit must not call a model with unknown prices.
  if (hasCostLimit(limits)) await requirePrices(chosenModel.provider, chosenModel.model, 0, limits.unknownPrice);
  const { outputSchema } = input;
  const structuredOutput =
    outputSchema === undefined
      ? undefined
      : await (await import("./context/structured-output.js")).StructuredOutput.open(outputSchema, signal);
  return {
    ...origin,
    id,
    logger,
    store,
    storedSession,
    firstSession,
    projectDir,
    worktree,
    chosenModel,
    requestedEffort: input.reasoningEffort ?? findSessionEffort(storedSession) ?? agent.defaults.reasoningEffort,
    limits,
    structuredOutput,
    usesFiles,
    instructions,
    environment,
  };
}

function createFirstSession(
  agent: AgentServices,
  { parentCall, input: { user: owner } }: RunOrigin,
  projectDir: string,
  store: SessionDriver,
): Session {
  return parentCall
    ? createSubagentSession(parentCall, projectDir)
    : createNewSession({ owner }, { projectDir, mode: agent.defaults.mode }, store);
}

/** Creates the worktree of a new session. It is removed if the run does not start. */
async function createWorktree(
  agent: AgentServices,
  projectDir: string,
  store: SessionDriver,
  { cancel, rollbacks }: RunOrigin,
): Promise<NewWorktree> {
  const { worktrees } = agent.tools;
  if (!worktrees) throw new InputError("worktree", "false: this agent creates no worktrees");
  await checkFolder(projectDir);
  const worktree = await worktrees.create(projectDir, (folder) => hasSessions(store, folder), cancel.signal);
  rollbacks.push(worktree.discard);
  return worktree;
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

const recentModelReads = new WeakMap<SessionDriver, SharedReads<ModelPair | undefined>>();

/** Returns the model that was last used in a folder. Runs that start together share a read of the store. */
function findRecentModel(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  let reads = recentModelReads.get(store);
  if (!reads) recentModelReads.set(store, (reads = new SharedReads((folder) => readRecentModel(store, folder))));
  return reads.get(projectDir);
}

async function readRecentModel(store: SessionDriver, projectDir: string): Promise<ModelPair | undefined> {
  // The newest session usually has a model. Sessions that a client only opened have none.
  for (const limit of [1, 10]) {
    const { sessions } = await store.list({ projectDir, limit });
    const recentSession = sessions.find((session) => session.provider !== "" && session.model !== "");
    if (recentSession) return recentSession;
  }
  return undefined;
}

/** Creates the context of a stored run, which owns `scope` from then on. */
function createRunContext(
  agent: AgentServices,
  request: ResolvedRequest,
  opened: OpenedSession,
  prompt: RunPrompt,
  scope: AsyncScope,
): RunContext {
  const { id, parentCall, projectDir, store, cancel, chosenModel, limits, structuredOutput, logger } = request;
  const { id: sessionId, conversation, state, lease, releaseLease, recorder, inbox, tail } = opened;
  const { input, tools, sourceInstructions, deferredTools, skills, systemPrompt, instructionTexts, extraPrompt } =
    prompt;
  const { signal } = cancel;
  const parentBudget = parentCall?.parentRun.budget.allowance;
  const budgetOwner = { ...chosenModel, recorder, signal, parentBudget };
  const allowance = isMetered(limits) || parentBudget ? new RunBudget(limits, budgetOwner) : undefined;
  const { seconds } = limits.budget;
  const clock =
    seconds === undefined ? undefined : new RunClock(seconds, () => cancel.abort(new BudgetExceededError()));
  const compactionInstruction = input.compact ? input.message : undefined;
  const { folders = [], ask, alwaysAsk = true, clientName = DEFAULT_CLIENT_NAME, overflow = "drop" } = input;
  const { provider, model } = chosenModel;
  const effort = selectEffort(request);
  const { bus } = agent.channels;
  const events = new EventBuffer(overflow);
  const { hooks } = agent.tools;
  const run: RunContext = {
    agent,
    info: {
      ...{ id, sessionId, agentId: newId(), projectDir, folders, parentCall, compactionInstruction },
      ...{ logFields: input.logFields, trace: input.trace },
    },
    model: { provider, model, effort, extraPrompt, structuredOutput },
    caller: {
      ...{ id, sessionId, provider, model, effort, systemPrompt, instructionTexts, hooks, signal },
      ...{ conversation, state, recorder, bus, events, logger, allowance },
      // The model can load tools during the run.
      get tools() {
        return deferredTools?.offered() ?? tools;
      },
      unknownPrice: limits.unknownPrice,
      outputSchema: structuredOutput?.schema,
      readWork: async (view, maxBytes) =>
        (await import("./calls/session-work.js")).readSessionWork(run, view, maxBytes),
    },
    session: { conversation, state, store, lease, releaseLease, recorder },
    tools: { list: deferredTools?.callable ?? tools, inheritable: tools, sourceInstructions, skills, hooks },
    budget: { limits, allowance, clock },
    channels: { bus, inbox, tail, events, logger },
    permissions: { ...agent.permissions, ask, alwaysAsk, clientName, pendingAskIds: new Set() },
    cancel,
    signal,
    release: () => scope.close(),
  };
  return run;
}

/** Returns the requested effort, or the nearest one that the model supports. */
function selectEffort({ chosenModel: { provider, model }, requestedEffort, logger }: ResolvedRequest): ReasoningEffort {
  const effort = nearestEffort(requestedEffort, model.efforts);
  if (effort !== requestedEffort)
    logger.info("model does not support the reasoning effort; using the nearest", {
      provider: provider.name,
      model: model.id,
      requested: requestedEffort,
      effort,
    });
  return effort;
}
