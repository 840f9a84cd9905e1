import { abortable, delay, onAbort, takeEach } from "../base/abort.js";
import type { Bus } from "../base/bus.js";
import { monotonicMs } from "../base/clock.js";
import { newId } from "../base/ids.js";
import { CooperativeScheduler } from "../base/cooperative-scheduler.js";
import { redact } from "../base/redact.js";
import type { BusEvents, ModelPurpose } from "../ports/bus-events.js";
import { GantryError, hasCode, ProviderError } from "../ports/errors.js";
import type { Hooks } from "../ports/hooks.js";
import type { Logger } from "../ports/logger.js";
import type { Part } from "../ports/message.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest } from "../ports/model-provider.js";
import type { RunRecord } from "../ports/run.js";
import type { Usage } from "../ports/usage.js";
import { AnswerMeter, type AdmittedCall, type Allowance } from "./answer-meter.js";
import { AnswerAccumulator, type Answer, type OnText } from "./answer.js";
import { toUsage } from "./usage.js";

/** The members of a provider that a call uses. */
export type CalledProvider = Pick<
  ModelProvider,
  "name" | "idleTimeoutMs" | "maxRetries" | "maxWaitMs" | "supportsDeferredStart" | "stream"
>;

/** The run that makes a model call, or to which the call is charged. */
export interface ModelCaller {
  readonly id: string;
  readonly sessionId: string;
  readonly provider: CalledProvider;
  readonly model: Model;
  readonly bus: Bus<BusEvents>;
  readonly logger: Logger;
  readonly hooks: Hooks;
  /** Resolves when the messages for the model are on the disk. No request is sent before. */
  readonly recorder: { readonly onDisk: Promise<void> };
  /** Undefined: no limit on the cost of the calls. */
  readonly allowance?: Allowance | undefined;
  /** Prices for a model without known prices. Undefined: such a model costs nothing. */
  readonly unknownPrice?: ModelPrices | undefined;
}

/** A complete answer and its cost. */
export interface CompleteAnswer extends Answer {
  usageWithCost: Usage;
  /** Whether the answer is shorter because the budget did not allow more. */
  isBudgetLimited: boolean;
}

/** A failed or aborted call, with the content received until then. */
export interface FailedCall {
  error: unknown;
  /** Text and reasoning that were already shown. Calls are omitted; none of them was executed. */
  parts: Part[];
}

/** Callbacks of a caller during a call. */
export interface ModelCallHooks {
  onText?: OnText;
  /** The call is repeated after `delayMs`. */
  onRetry?(attempt: number, delayMs: number, error: Error): void;
  /**
   * Stores the wait before a retry, and null when the wait is over, so that readers of the run see why the run is idle.
   * If the promise rejects, the call fails.
   */
  recordRetry?(retry: RunRecord["retry"]): Promise<void>;
  /**
   * A partly shown answer was interrupted and will be continued. Must store the received parts.
   *
   * Resolves with the request for the remaining answer. Without this hook the whole answer is requested again, which is
   * correct only for callers that show nothing.
   */
  onInterrupted?(parts: Part[]): Promise<ModelRequest>;
}

/** Backoff before the first retry if the provider requests no wait. Doubles with each retry, up to the maximum. */
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 60_000;
/** Shared by all answers of the process, which has one event loop. */
const scheduler = new CooperativeScheduler();
/** Thrown to end an answer when the budget is used up. */
const BUDGET_REACHED_ERROR = new Error("the budget is used up");
/** Maximum retries after a response that is not an answer, such as a proxy's error page. More retries seldom help. */
const MAX_NON_ANSWER_RETRIES = 2;

/**
 * Calls a model and emits `model.started`, then `model.called` or `model.failed`. All model calls use this function,
 * including summaries and titles.
 *
 * Never rejects. Resolves with `FailedCall` if the call fails or is aborted.
 */
export async function callModel(
  caller: ModelCaller,
  purpose: ModelPurpose,
  request: ModelRequest,
  signal: AbortSignal,
  hooks: ModelCallHooks = {},
): Promise<CompleteAnswer | FailedCall> {
  const { id: runId, sessionId, provider, model, bus } = caller;
  const eventFields = { runId, sessionId, callId: newId(), provider: provider.name, model: model.id, purpose };
  let admittedCall: AdmittedCall | undefined;
  try {
    admittedCall = await caller.allowance?.admit(purpose, request);
    const call = {
      runId,
      sessionId,
      provider: provider.name,
      model: model.id,
      purpose,
      request: admittedCall?.request ?? request,
    };
    await abortable((async () => caller.hooks.beforeModelCall?.(call, signal))(), signal);
    if (!provider.supportsDeferredStart) await caller.recorder.onDisk;
  } catch (error) {
    return { error, parts: [] };
  }
  const startedAtMs = monotonicMs();
  const getElapsedMs = () => Math.round(monotonicMs() - startedAtMs);
  let firstTokenMs: number | undefined;
  bus.emit("model.started", eventFields);
  const callState: CallState = { purpose, request, admittedCall, signal };
  const answer = await callWithRetries(caller, callState, hooks, () => (firstTokenMs ??= getElapsedMs()));
  const times = { durationMs: getElapsedMs(), firstTokenMs };
  if ("error" in answer) {
    bus.emit("model.failed", { ...eventFields, ...times, error: asError(answer.error) });
    return answer;
  }
  const usageWithCost = toUsage(answer.usage, model.prices, caller.unknownPrice);
  const { reason: finishReason, parts } = answer;
  bus.emit("model.called", { ...eventFields, ...times, usage: usageWithCost, finishReason, parts });
  return { ...answer, usageWithCost };
}

/** A call with its current request and limits, which change after an interruption. */
interface CallState {
  readonly purpose: ModelPurpose;
  request: ModelRequest;
  /** Undefined if there is no budget. */
  admittedCall: AdmittedCall | undefined;
  readonly signal: AbortSignal;
}

/** Calls the model until an answer is complete. Retries after temporary failures, also in the middle of an answer. */
async function callWithRetries(
  caller: ModelCaller,
  callState: CallState,
  hooks: ModelCallHooks,
  onChunk: () => void,
): Promise<(Answer & { isBudgetLimited: boolean }) | FailedCall> {
  const { provider, model, logger, allowance } = caller;
  const { purpose, signal } = callState;
  // Requests after an interruption need no deferred start, because their content is already on the disk.
  let deferredStart = provider.supportsDeferredStart ? { startAfter: caller.recorder.onDisk } : undefined;
  for (let attempt = 1; ; attempt += 1) {
    const { admittedCall } = callState;
    const request = { ...(admittedCall?.request ?? callState.request), ...deferredStart };
    const accumulator = new AnswerAccumulator(provider.name, model.id, hooks.onText);
    const meter = admittedCall && new AnswerMeter(admittedCall);
    let error: unknown;
    try {
      const answer = await callOnce(provider, request, signal, accumulator, meter, onChunk);
      if (!admittedCall || !meter) return { ...answer, isBudgetLimited: false };
      if (allowance && meter.isExceeded)
        return { ...answer, usage: await allowance.addCost(answer.usage), isBudgetLimited: true };
      allowance?.recordAnswer(purpose, admittedCall, meter, answer.usage);
      return { ...answer, isBudgetLimited: admittedCall.hasAnswerLimit && answer.reason === "length" };
    } catch (thrownError) {
      error = signal.aborted ? (signal.reason as unknown) : toGantryError(provider, thrownError, logger);
    }
    if (meter && accumulator.hasStarted) await allowance?.recordInterrupted(purpose, meter.estimatedUsage);
    const parts = accumulator.joinVisibleParts();
    if (signal.aborted || !hasCode(error, "provider") || attempt > maxRetriesFor(error, provider, accumulator)) {
      return { error, parts };
    }
    const maxWaitMs = provider.maxWaitMs;
    if (error.retryAfterMs !== undefined && error.retryAfterMs > maxWaitMs)
      return { error: createWaitTooLongError(error, maxWaitMs), parts };
    const backoffMs = Math.min(FIRST_BACKOFF_MS * 2 ** (attempt - 1), MAX_BACKOFF_MS) * createJitter();
    const waitMs = error.retryAfterMs ?? backoffMs;
    logger.warn(parts.length === 0 ? "model call failed; retrying" : "answer interrupted; continuing it", {
      provider: provider.name,
      session: callState.request.cacheKey,
      attempt,
      waitMs: Math.round(waitMs),
      error: error.message,
    });
    try {
      if (parts.length > 0 && hooks.onInterrupted) {
        callState.request = await hooks.onInterrupted(parts);
        deferredStart = undefined;
      }
      callState.admittedCall = await allowance?.admit(purpose, callState.request);
      hooks.onRetry?.(attempt, waitMs, error);
      const nextAttemptAt = new Date(Date.now() + waitMs).toISOString();
      await hooks.recordRetry?.({ attempt, nextAttemptAt, reason: redact(error.message) });
      await delay(waitMs, signal);
      await hooks.recordRetry?.(null);
    } catch (preparationError) {
      return { error: preparationError, parts: [] };
    }
  }
}

/** Random factor from 0.75 to 1.25, so that clients of one provider do not retry at the same time. */
function createJitter(): number {
  return 0.75 + Math.random() / 2;
}

/** Maximum number of retries of a call that failed with `error`. */
function maxRetriesFor(error: ProviderError, provider: CalledProvider, accumulator: AnswerAccumulator): number {
  if (error.retryable) return provider.maxRetries;
  if (error.kind !== "protocol") return 0;
  // A provider that started to answer works, so unreadable data may be due to a lost connection.
  return accumulator.hasStarted ? provider.maxRetries : Math.min(MAX_NON_ANSWER_RETRIES, provider.maxRetries);
}

function createWaitTooLongError(error: ProviderError, maxWaitMs: number): ProviderError {
  const { provider, kind, status, retryAfterMs = 0 } = error;
  const prefix = `${provider}: ${status ?? kind}: `;
  const providerMessage = error.message.startsWith(prefix) ? error.message.slice(prefix.length) : error.message;
  const formatSeconds = (ms: number) => `${Math.ceil(ms / 1000)} s`;
  const message = `requested wait of ${formatSeconds(retryAfterMs)} exceeds max_wait (${formatSeconds(maxWaitMs)}): ${providerMessage}`;
  return new ProviderError(provider, kind, message, {
    ...(status === undefined ? {} : { status }),
    retryAfterMs,
    cause: error,
  });
}

/** Makes one attempt. Rejects with `ProviderError` if no data arrives for the provider's `idleTimeoutMs`. */
async function callOnce(
  provider: CalledProvider,
  request: ModelRequest,
  signal: AbortSignal,
  accumulator: AnswerAccumulator,
  meter: AnswerMeter | undefined,
  onChunk: () => void,
): Promise<Answer> {
  const watchdog = new AbortController();
  // `AbortSignal.any` is not used: its composite signals are expensive and are freed only by the garbage collector.
  const removeListener = onAbort(signal, () => watchdog.abort(signal.reason));
  const expire = () =>
    watchdog.abort(new ProviderError(provider.name, "timeout", `no data for ${provider.idleTimeoutMs / 1000} s`));
  const timer = setTimeout(expire, provider.idleTimeoutMs);
  const chunks = provider.stream(request, watchdog.signal)[Symbol.asyncIterator]();
  try {
    // `takeEach` ends on abort even if the provider ignores its signal.
    await takeEach(chunks, watchdog.signal, (chunk) => {
      timer.refresh();
      if (chunk.type !== "finish") onChunk();
      if (meter?.exceedsBudget(chunk)) throw BUDGET_REACHED_ERROR;
      accumulator.addChunk(chunk);
      // An answer that arrived in one piece would otherwise be processed completely before other answers.
      return scheduler.waitForTurn();
    });
    return accumulator.buildAnswer();
  } catch (error) {
    if (error === BUDGET_REACHED_ERROR && meter)
      return { parts: accumulator.joinVisibleParts(), reason: "length", usage: meter.estimatedUsage };
    // The provider may convert the watchdog's abort to another error.
    if (watchdog.signal.aborted && !signal.aborted) throw watchdog.signal.reason;
    throw error;
  } finally {
    clearTimeout(timer);
    removeListener();
    if (!accumulator.isFinished) {
      watchdog.abort(new Error("abandoned"));
      Promise.resolve(chunks.return?.()).catch(() => undefined);
    }
  }
}

/** Converts a provider's failure to a gantry error. Details of unexpected errors are only logged. */
function toGantryError(provider: CalledProvider, error: unknown, logger: Logger): Error {
  if (error instanceof GantryError || hasCode(error, "provider")) return error;
  logger.error("provider threw an unexpected error", { provider: provider.name, error });
  const message = error instanceof Error ? redact(error.message) : "unexpected failure";
  return new ProviderError(provider.name, "protocol", message, { cause: error });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
