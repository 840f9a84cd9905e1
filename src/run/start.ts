import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import { AsyncScope } from "../base/async-scope.js";
import { newId } from "../base/ids.js";
import { nearestEffort } from "../models/efforts.js";
import { BudgetExceededError } from "../ports/errors.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput } from "../ports/run.js";
import { toRunError } from "../sessions/run-record.js";
import { isMetered } from "./budget/budget.js";
import { RunBudget } from "./budget/run-budget.js";
import { RunClock } from "./budget/run-clock.js";
import { countAttachedBytes } from "./budget/run-limiter.js";
import { EventBuffer } from "./context/event-buffer.js";
import type { AgentServices, RunContext, SubagentCall } from "./context/run-context.js";
import { openSession, type OpenedSession } from "./open-session.js";
import type { QueueHandover } from "./queue/queued-run.js";
import { resolveRequest, type ResolvedRequest } from "./resolve-request.js";
import { buildPrompt, openTools, persistPrompt, type RunPrompt } from "./run-prompt.js";

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
  const scope = new AsyncScope();
  const slot = scope.use(agent.limiter.takeSlot(), (takenSlot) => takenSlot.release());
  const cancel = createCancel(scope, [agent.closeSignal, input.signal, handover?.signal]);
  try {
    slot.reserveBytes(countAttachedBytes(input));
    const request = await resolveRequest(agent, { input, handover, parentCall, slot, cancel });
    const session = await openSession(agent, request, scope);
    const tools = await openTools(agent, request, session, scope);
    const prompt = await buildPrompt(agent, request, session, tools);
    const run = createRunContext(agent, request, session, prompt, scope);
    await persistPrompt(run, session, prompt);
    run.inbox.listen();
    // Instructions may have arrived while the run was queued.
    if (handover) void run.inbox.read();
    return run;
  } catch (error) {
    await scope.close();
    throw toRunError(error, cancel.signal);
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

/** Creates the context of a run, which owns `scope` from then on, unless the prompt cannot be stored. */
function createRunContext(
  agent: AgentServices,
  request: ResolvedRequest,
  session: OpenedSession,
  prompt: RunPrompt,
  scope: AsyncScope,
): RunContext {
  const { budgetLimits, cancel, chosenModel, parentCall, structuredOutput } = request;
  const { signal } = cancel;
  const { input } = prompt;
  const { recorder } = session;
  const parentBudget = parentCall?.parentRun.allowance;
  const budgetOwner = { ...chosenModel, recorder, signal, parentBudget };
  const { seconds } = budgetLimits.run;
  return {
    agent,
    id: request.id,
    sessionId: session.id,
    parentCall,
    agentId: newId(),
    ...chosenModel,
    effort: selectEffort(request),
    extraPrompt: prompt.extraPrompt,
    systemPrompt: prompt.systemPrompt,
    tools: prompt.tools,
    skills: prompt.skills,
    hooks: agent.hooks,
    limits: parentCall ? { ...agent.limits, iterations: parentCall.maxIterations } : agent.limits,
    allowance: isMetered(budgetLimits) || parentBudget ? new RunBudget(budgetLimits, budgetOwner) : undefined,
    clock: seconds === undefined ? undefined : new RunClock(seconds, () => cancel.abort(new BudgetExceededError())),
    unknownPrice: budgetLimits.unknownPrice,
    structuredOutput,
    outputSchema: structuredOutput?.schema,
    compactionInstruction: input.compact ? input.message : undefined,
    projectDir: request.projectDir,
    folders: input.folders ?? [],
    conversation: session.conversation,
    state: session.state,
    store: request.store,
    lease: session.lease,
    releaseLease: session.releaseLease,
    recorder,
    tail: session.tail,
    inbox: session.inbox,
    bus: agent.bus,
    logger: request.logger,
    events: new EventBuffer(input.overflow ?? "drop"),
    ask: input.ask,
    alwaysAsk: input.alwaysAsk ?? true,
    clientName: input.clientName ?? "sdk",
    pendingAskIds: new Set(),
    cancel,
    signal,
    release: () => scope.close(),
  };
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
