import { abortable, delay } from "../base/abort.js";
import { AnswerLimits } from "./answer-limits.js";
import { GantryError, hasCode, ProviderError } from "../ports/errors.js";
import { newId } from "../base/ids.js";
import { redact } from "../base/redact.js";
import type { Logger } from "../ports/logger.js";
import type { FinishReason, ModelChunk, ModelProvider, ModelRequest, ModelUsage } from "../ports/model-provider.js";
import type { Part, ReasoningPart, TextPart, ToolCallPart } from "../ports/message.js";

/** What a model answered, whole or as far as it came. */
export interface Answer {
  parts: Part[];
  reason: FinishReason;
  usage: ModelUsage;
}

export interface ModelCallHooks {
  /** Text or reasoning that came; `part` is its place in the answer. */
  onText(type: "text" | "reasoning", part: number, text: string): void;
  /** The call is made again after `delayMs`. */
  onRetry(attempt: number, delayMs: number, error: Error): void;
  /**
   * An answer of which something was told broke off, and is to be gone on with: keep what there is of it. Resolves with
   * the request that asks for the rest. Left out by those who told nobody: they ask for the whole again.
   */
  onBrokenOff?(parts: Part[]): Promise<ModelRequest>;
}

/** A call that failed or was aborted, and what had been said until then. */
export interface BrokenOff {
  error: unknown;
  /** Text and reasoning that were already told; calls are left out, none of them ran. */
  parts: Part[];
}

/** Longest wait between two attempts where the provider asks for none, in ms. */
const MAX_BACKOFF_MS = 60_000;
/** Longest wait that a provider may ask for, where it has no limit of its own, in ms. */
const MAX_WAIT_MS = 60_000;
/** What is no answer at all (a page of a proxy) seldom becomes one: it is asked for again so often. */
const BLIND_RETRIES = 2;

/**
 * Ask a model and gather its answer. Asks again after a fault that may pass, also amid an answer; never throws: a call
 * that did not end well is `BrokenOff`.
 */
export async function callModel(
  provider: ModelProvider,
  request: ModelRequest,
  signal: AbortSignal,
  hooks: ModelCallHooks,
  logger: Logger,
): Promise<Answer | BrokenOff> {
  let asking = request;
  for (let attempt = 1; ; attempt += 1) {
    const gathering = new Gathering(provider.name, request.model.id, hooks);
    let error: unknown;
    try {
      return await once(provider, asking, signal, gathering);
    } catch (caught) {
      error = signal.aborted ? (signal.reason as unknown) : known(provider, caught, logger);
    }
    const parts = gathering.told();
    if (signal.aborted || !hasCode(error, "provider") || attempt > retriesOf(error, provider, gathering)) {
      return { error, parts };
    }
    const most = provider.maxWaitMs ?? MAX_WAIT_MS;
    if (error.retryAfterMs !== undefined && error.retryAfterMs > most)
      return { error: waitsTooLong(error, most), parts };
    const backoff = Math.min(500 * 2 ** (attempt - 1), MAX_BACKOFF_MS) * (0.75 + Math.random() / 2);
    const wait = error.retryAfterMs ?? backoff;
    logger.warn(parts.length === 0 ? "model call failed; trying again" : "an answer broke off; going on with it", {
      provider: provider.name,
      session: request.cacheKey,
      attempt,
      waitMs: Math.round(wait),
      error: error.message,
    });
    try {
      if (parts.length > 0 && hooks.onBrokenOff) asking = await hooks.onBrokenOff(parts);
      hooks.onRetry(attempt, wait, error);
      await delay(wait, signal);
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
): Promise<Answer> {
  const watchdog = new AbortController();
  const either = AbortSignal.any([signal, watchdog.signal]);
  const expire = () =>
    watchdog.abort(new ProviderError(provider.name, "timeout", `no data for ${provider.idleTimeoutMs / 1000} s`));
  const timer = setTimeout(expire, provider.idleTimeoutMs);
  const chunks = provider.stream(request, either)[Symbol.asyncIterator]();
  try {
    for (;;) {
      // Raced, so that a provider that ignores its signal cannot hold a run.
      const next = await abortable(chunks.next(), either);
      if (next.done) break;
      timer.refresh();
      gathering.take(next.value);
    }
    return gathering.whole();
  } catch (error) {
    // A watchdog's abort may come back dressed as whatever the provider makes of an abort.
    if (watchdog.signal.aborted && !signal.aborted) throw watchdog.signal.reason;
    throw error;
  } finally {
    clearTimeout(timer);
    if (!gathering.finished) {
      watchdog.abort(new Error("abandoned"));
      Promise.resolve(chunks.return?.()).catch(() => undefined);
    }
  }
}

/** The parts of an answer as they come. */
class Gathering {
  readonly #provider: string;
  readonly #model: string;
  readonly #hooks: ModelCallHooks;
  readonly #limits: AnswerLimits;
  readonly #parts: Part[] = [];
  /** Pieces by part; joined once, since adding to a string 20,000 times and reading it each time is quadratic. */
  readonly #blocks = new Map<string, { index: number; part: TextPart | ReasoningPart; pieces: string[] }>();
  #finish: Extract<ModelChunk, { type: "finish" }> | undefined;
  /** Whether anything of the answer came, told or not. */
  begun = false;

  constructor(provider: string, model: string, hooks: ModelCallHooks) {
    this.#provider = provider;
    this.#model = model;
    this.#hooks = hooks;
    this.#limits = new AnswerLimits(provider);
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  take(chunk: ModelChunk): void {
    if (this.#finish) throw new ProviderError(this.#provider, "protocol", "the answer went on after its end");
    this.#limits.take(chunk);
    this.begun = true;
    switch (chunk.type) {
      case "text":
      case "reasoning":
        this.#takeText(chunk);
        break;
      case "tool_call": {
        const call: ToolCallPart = { type: "tool_call", id: chunk.id, name: chunk.name, arguments: chunk.arguments };
        if (chunk.opaque !== undefined) call.opaque = this.#opaque(chunk.opaque);
        this.#parts.push(call);
        break;
      }
      case "finish":
        this.#finish = chunk;
        break;
      case "tool_input":
        break;
    }
  }

  whole(): Answer {
    if (!this.#finish) throw new ProviderError(this.#provider, "protocol", "the answer ended without a finish");
    return { parts: this.#joined(), reason: this.#finish.reason, usage: this.#finish.usage };
  }

  told(): Part[] {
    return toldOf(this.#joined());
  }

  #takeText(chunk: Extract<ModelChunk, { type: "text" | "reasoning" }>): void {
    const key = `${chunk.type}:${chunk.block}`;
    let block = this.#blocks.get(key);
    if (!block) {
      const part: TextPart | ReasoningPart = { type: chunk.type, text: "" };
      // Reasoning is bound to the pair that made it, with or without a signature.
      if (chunk.type === "reasoning") part.opaque = this.#opaque(null);
      block = { index: this.#parts.length, part, pieces: [] };
      this.#blocks.set(key, block);
      this.#parts.push(part);
    }
    if (chunk.opaque !== undefined) block.part.opaque = this.#opaque(chunk.opaque);
    if (chunk.text === "") return;
    block.pieces.push(chunk.text);
    this.#hooks.onText(chunk.type, block.index, chunk.text);
  }

  #opaque(data: unknown) {
    return { provider: this.#provider, model: this.#model, data };
  }

  #joined(): Part[] {
    for (const block of this.#blocks.values()) block.part.text = block.pieces.join("");
    return this.#parts.filter((part) => !(part.type === "text" && part.text === "" && part.opaque === undefined));
  }
}

/** What of an answer was told: text and reasoning, without what a provider signed; half of it nobody takes back. */
export function toldOf(parts: readonly Part[]): Part[] {
  return parts.flatMap((part): Part[] =>
    (part.type === "text" || part.type === "reasoning") && part.text !== ""
      ? [{ type: part.type, text: part.text }]
      : [],
  );
}

/** A provider's fault as a gantry error; what no adapter foresaw is told without its inside. */
function known(provider: ModelProvider, error: unknown, logger: Logger): Error {
  if (error instanceof GantryError) return error;
  if (error instanceof Error && typeof (error as { code?: unknown }).code === "string" && "provider" in error)
    return error;
  logger.error("a provider failed in a way that it does not know", { provider: provider.name, error });
  const message = error instanceof Error ? redact(error.message) : "unexpected failure";
  return new ProviderError(provider.name, "protocol", message, { cause: error });
}

/** Call ids made unique within a session: models repeat themselves, and some give none. */
export function uniqueCalls(parts: readonly Part[], used: Set<string>): Part[] {
  return parts.map((part) => {
    if (part.type !== "tool_call") return part;
    let { id } = part;
    if (id === "" || used.has(id)) id = `call_${newId().replaceAll("-", "")}`;
    used.add(id);
    return id === part.id ? part : { ...part, id };
  });
}
