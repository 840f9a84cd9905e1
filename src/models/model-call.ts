import { abortable, delay, onAbort, takeEach } from "../base/abort.js";
import type { Bus } from "../base/bus.js";
import { ticks } from "../base/clock.js";
import { newId } from "../base/ids.js";
import { LoopShare } from "../base/cooperative-scheduler.js";
import { redact } from "../base/redact.js";
import type { BusEvents, ModelPurpose } from "../ports/bus-events.js";
import { GantryError, hasCode, ProviderError } from "../ports/errors.js";
import type { Hooks } from "../ports/hooks.js";
import type { Logger } from "../ports/logger.js";
import type { Part } from "../ports/message.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest } from "../ports/model-provider.js";
import type { Usage } from "../ports/usage.js";
import { Meter, type Admitted, type Allowance } from "./allowance.js";
import { Gathering, type Answer, type OnText } from "./answer.js";
import { toUsage } from "./usage.js";

/** The run that asks a model, or on whose account one is asked. */
export interface ModelCaller {
  readonly id: string;
  readonly sessionId: string;
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly bus: Bus<BusEvents>;
  readonly logger: Logger;
  readonly hooks: Hooks;
  /** Resolves when what is said to the model is on the disk: it hears nothing before. */
  readonly recorder: { readonly onDisk: Promise<void> };
  /** Left out: its calls may cost what they like. */
  readonly allowance?: Allowance | undefined;
  /** What a model takes whose price nobody knows; left out: nothing. */
  readonly unknownPrice?: ModelPrices | undefined;
}

/** An answer that came whole, and what it cost. */
export interface WholeAnswer extends Answer {
  paid: Usage;
  /** It is no longer because there was not enough for more. */
  spent: boolean;
}

/** A call that failed or was aborted, and what had been said until then. */
export interface BrokenOff {
  error: unknown;
  /** Text and reasoning that were already told; calls are left out, none of them ran. */
  parts: Part[];
}

/** What a caller wants to hear of a call while it goes. */
export interface ModelCallHooks {
  onText?: OnText;
  /** The call is made again after `delayMs`; what it returns is waited for, and fails the call where it rejects. */
  onRetry?(attempt: number, delayMs: number, error: Error): void | Promise<void>;
  /** The wait is over, and the model is asked again. As `onRetry`. */
  onAgain?(): void | Promise<void>;
  /**
   * An answer of which something was told broke off, and is to be gone on with: keep what there is of it. Resolves with
   * the request that asks for the rest. Left out by those who told nobody: they ask for the whole again.
   */
  onBrokenOff?(parts: Part[]): Promise<ModelRequest>;
}

/** Longest wait between two attempts where the provider asks for none, in ms. */
const MAX_BACKOFF_MS = 60_000;
/** Of all answers of the process: it has one event loop. */
const loop = new LoopShare();
/** Thrown where an answer is ended: there is not enough for more of it. */
const CUT = new Error("the budget is used up");
/** What is no answer at all (a page of a proxy) seldom becomes one: it is asked for again so often. */
const BLIND_RETRIES = 2;

/**
 * Ask a model, and tell the bus of it: `model.started`, then `model.called` or `model.failed`. The one way to a model:
 * answers, summaries and titles come by it. Never throws: a call that did not end well is `BrokenOff`.
 */
export async function callModel(
  caller: ModelCaller,
  purpose: ModelPurpose,
  request: ModelRequest,
  signal: AbortSignal,
  hooks: ModelCallHooks = {},
): Promise<WholeAnswer | BrokenOff> {
  const { id: runId, sessionId, provider, model, bus } = caller;
  const names = { runId, sessionId, callId: newId(), provider: provider.name, model: model.id, purpose };
  let admitted: Admitted | undefined;
  try {
    admitted = await caller.allowance?.admit(purpose, request);
    const call = {
      runId,
      sessionId,
      provider: provider.name,
      model: model.id,
      purpose,
      request: admitted?.request ?? request,
    };
    await abortable((async () => caller.hooks.beforeModelCall?.(call, signal))(), signal);
    if (!provider.waits) await caller.recorder.onDisk;
  } catch (error) {
    return { error, parts: [] };
  }
  const began = ticks();
  const passed = () => Math.round(ticks() - began);
  let firstTokenMs: number | undefined;
  bus.emit("model.started", names);
  const asking: Asking = { purpose, request, admitted, signal };
  const answer = await attempts(caller, asking, hooks, () => (firstTokenMs ??= passed()));
  const times = { durationMs: passed(), firstTokenMs };
  if ("error" in answer) {
    bus.emit("model.failed", { ...names, ...times, error: asError(answer.error) });
    return answer;
  }
  const paid = toUsage(answer.usage, model.prices, caller.unknownPrice);
  bus.emit("model.called", { ...names, ...times, usage: paid });
  return { ...answer, paid };
}

/** What is asked, by whom and for what. */
interface Asking {
  readonly purpose: ModelPurpose;
  request: ModelRequest;
  /** Undefined: nobody counts. */
  admitted: Admitted | undefined;
  readonly signal: AbortSignal;
}

/** Ask again after a fault that may pass, also amid an answer. */
async function attempts(
  caller: ModelCaller,
  asking: Asking,
  hooks: ModelCallHooks,
  onFirst: () => void,
): Promise<(Answer & { spent: boolean }) | BrokenOff> {
  const { provider, model, logger, allowance } = caller;
  const { purpose, signal } = asking;
  // Later requests ask for what was stored before they were made.
  let before = provider.waits ? { before: caller.recorder.onDisk } : undefined;
  for (let attempt = 1; ; attempt += 1) {
    const { admitted } = asking;
    const request = { ...(admitted?.request ?? asking.request), ...before };
    const gathering = new Gathering(provider.name, model.id, hooks.onText);
    const meter = admitted && new Meter(admitted);
    let error: unknown;
    try {
      const answer = await once(provider, request, signal, gathering, meter, onFirst);
      if (!admitted || !meter) return { ...answer, spent: false };
      if (allowance && meter.cut) return { ...answer, usage: await allowance.priced(answer.usage), spent: true };
      allowance?.answered(purpose, admitted, meter, answer.usage);
      return { ...answer, spent: admitted.bounded && answer.reason === "length" };
    } catch (caught) {
      error = signal.aborted ? (signal.reason as unknown) : known(provider, caught, logger);
    }
    if (meter && gathering.begun) await allowance?.brokeOff(purpose, meter.estimated);
    const parts = gathering.told();
    if (signal.aborted || !hasCode(error, "provider") || attempt > retriesOf(error, provider, gathering)) {
      return { error, parts };
    }
    const most = provider.maxWaitMs;
    if (error.retryAfterMs !== undefined && error.retryAfterMs > most)
      return { error: waitsTooLong(error, most), parts };
    const backoff = Math.min(500 * 2 ** (attempt - 1), MAX_BACKOFF_MS) * (0.75 + Math.random() / 2);
    const wait = error.retryAfterMs ?? backoff;
    logger.warn(parts.length === 0 ? "model call failed; trying again" : "an answer broke off; going on with it", {
      provider: provider.name,
      session: asking.request.cacheKey,
      attempt,
      waitMs: Math.round(wait),
      error: error.message,
    });
    try {
      if (parts.length > 0 && hooks.onBrokenOff) {
        asking.request = await hooks.onBrokenOff(parts);
        before = undefined;
      }
      asking.admitted = await allowance?.admit(purpose, asking.request);
      await hooks.onRetry?.(attempt, wait, error);
      await delay(wait, signal);
      await hooks.onAgain?.();
    } catch (reason) {
      return { error: reason, parts: [] };
    }
  }
}

/** How often a call is made again after this fault. */
function retriesOf(error: ProviderError, provider: ModelProvider, gathering: Gathering): number {
  if (error.retryable) return provider.maxRetries;
  if (error.kind !== "protocol") return 0;
  // Whoever began to answer can; what cannot be read may be a connection that broke.
  return gathering.begun ? provider.maxRetries : Math.min(BLIND_RETRIES, provider.maxRetries);
}

function waitsTooLong(error: ProviderError, mostMs: number): ProviderError {
  const { provider, kind, status, retryAfterMs = 0 } = error;
  const head = `${provider}: ${status ?? kind}: `;
  const said = error.message.startsWith(head) ? error.message.slice(head.length) : error.message;
  const seconds = (ms: number) => `${Math.ceil(ms / 1000)} s`;
  const why = `it asks to wait ${seconds(retryAfterMs)}, and max_wait is ${seconds(mostMs)}: ${said}`;
  return new ProviderError(provider, kind, why, {
    ...(status === undefined ? {} : { status }),
    retryAfterMs,
    cause: error,
  });
}

/** One attempt, watched for silence. */
async function once(
  provider: ModelProvider,
  request: ModelRequest,
  signal: AbortSignal,
  gathering: Gathering,
  meter: Meter | undefined,
  onFirst: () => void,
): Promise<Answer> {
  const watchdog = new AbortController();
  // By hand: the composites of `AbortSignal.any` are dear, and wait for the garbage collector.
  const forget = onAbort(signal, () => watchdog.abort(signal.reason));
  const expire = () =>
    watchdog.abort(new ProviderError(provider.name, "timeout", `no data for ${provider.idleTimeoutMs / 1000} s`));
  const timer = setTimeout(expire, provider.idleTimeoutMs);
  const chunks = provider.stream(request, watchdog.signal)[Symbol.asyncIterator]();
  try {
    // Whatever the provider makes of its signal: one that ignores it cannot hold a run.
    await takeEach(chunks, watchdog.signal, (chunk) => {
      timer.refresh();
      if (chunk.type !== "finish") onFirst();
      if (meter?.isTooMuch(chunk)) throw CUT;
      gathering.take(chunk);
      // What came in one piece would run to its end before any other answer has its turn.
      return loop.turn();
    });
    return gathering.whole();
  } catch (error) {
    if (error === CUT && meter) return { parts: gathering.told(), reason: "length", usage: meter.estimated };
    // A watchdog's abort may come back dressed as whatever the provider makes of an abort.
    if (watchdog.signal.aborted && !signal.aborted) throw watchdog.signal.reason;
    throw error;
  } finally {
    clearTimeout(timer);
    forget();
    if (!gathering.finished) {
      watchdog.abort(new Error("abandoned"));
      Promise.resolve(chunks.return?.()).catch(() => undefined);
    }
  }
}

/** A provider's fault as a gantry error; what no adapter foresaw is told without its inside. */
function known(provider: ModelProvider, error: unknown, logger: Logger): Error {
  if (error instanceof GantryError || hasCode(error, "provider")) return error;
  logger.error("a provider failed in a way that it does not know", { provider: provider.name, error });
  const message = error instanceof Error ? redact(error.message) : "unexpected failure";
  return new ProviderError(provider.name, "protocol", message, { cause: error });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
