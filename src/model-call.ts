import { abortable, delay } from "./abort.js";
import { AnswerLimits } from "./answer-limits.js";
import { GantryError, ProviderError } from "./errors.js";
import { newId } from "./ids.js";
import { redact } from "./log.js";
import type { Logger } from "./ports/logger.js";
import type { FinishReason, ModelChunk, ModelProvider, ModelRequest, ModelUsage } from "./ports/model-provider.js";
import type { Part, ReasoningPart, TextPart, ToolCallPart } from "./ports/session-driver.js";

/** What a model answered, whole or as far as it came. */
export interface Answer {
  parts: Part[];
  reason: FinishReason;
  usage: ModelUsage;
}

export interface ModelCallHooks {
  /** Text or reasoning that came; `part` is its place in the answer. */
  onText(type: "text" | "reasoning", part: number, text: string): void;
  onRetry(attempt: number, delayMs: number, error: Error): void;
}

/** A call that failed or was aborted, and what had been said until then. */
export interface BrokenOff {
  error: unknown;
  /** Text and reasoning that were already told; calls are left out, none of them ran. */
  parts: Part[];
}

const MAX_RETRY_AFTER_MS = 60_000;

/**
 * Ask a model and gather its answer. Asks again after a fault that may pass, but only as long as nothing was told;
 * never throws: a call that did not end well is `BrokenOff`.
 */
export async function callModel(
  provider: ModelProvider,
  request: ModelRequest,
  signal: AbortSignal,
  hooks: ModelCallHooks,
  logger: Logger,
): Promise<Answer | BrokenOff> {
  for (let attempt = 0; ; attempt += 1) {
    const gathering = new Gathering(provider.name, request.model.id, hooks);
    try {
      return await once(provider, request, signal, gathering);
    } catch (caught) {
      const error = signal.aborted ? (signal.reason as unknown) : known(provider, caught, logger);
      const again =
        !signal.aborted &&
        error instanceof ProviderError &&
        error.passing &&
        gathering.silent &&
        attempt < provider.maxRetries;
      if (!again) return { error, parts: gathering.told() };
      const backoff = 500 * 2 ** attempt * (0.75 + Math.random() / 2);
      const wait = Math.min(error.retryAfterMs ?? backoff, MAX_RETRY_AFTER_MS);
      logger.warn("model call failed; trying again", {
        provider: provider.name,
        attempt: attempt + 1,
        waitMs: Math.round(wait),
        error: error.message,
      });
      hooks.onRetry(attempt + 1, wait, error);
      try {
        await delay(wait, signal);
      } catch (reason) {
        return { error: reason, parts: [] };
      }
    }
  }
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
  /** Whether nothing was told yet. */
  silent = true;

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
    return this.#joined().filter((part) => part.type !== "tool_call");
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
    this.silent = false;
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
