import type { Admitted, Allowance, Meter } from "../models/allowance.js";
import { bytesOfAll, BYTES_PER_TOKEN, frameBytes } from "../models/estimate.js";
import { costOf, toUsage } from "../models/usage.js";
import type { Recorder } from "../conversation/recorder.js";
import type { ModelPurpose } from "../ports/bus-events.js";
import { BudgetSpentError, ModelSelectionError } from "../ports/errors.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest, ModelUsage } from "../ports/model-provider.js";
import { isOfMoney, type Purse } from "./purse.js";

/** Fewer tokens are no answer, and some providers refuse to give so few. */
const LEAST_ANSWER = 16;
/** Of a model whose longest answer nobody knows: a limit beyond it may be refused, so that it is not told. Reasoning counts to an answer. */
const TELLABLE = { plain: 4_096, reasoning: 32_000 };
/** A reported prompt is believed when it has at least one token for so many bytes; some servers leave cached tokens out. */
const PLAUSIBLE_BYTES = 8;

/** What of a run its budget knows. */
export interface Spender {
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly recorder: Pick<Recorder, "run" | "sessionUsage" | "write">;
}

/**
 * What the model calls of one run may spend. Each is paid for before it is made: its prompt, estimated and at its full
 * price, as if the provider had kept nothing of it; and its answer is no longer than what is left then.
 */
export class RunBudget implements Allowance {
  readonly #purse: Purse;
  readonly #spender: Spender;
  /** Spent beyond what the run's usage says. */
  readonly #beyond = { usd: 0, tokens: 0 };
  /** Bytes and tokens of the newest prompt of the conversation, as the provider counted it. */
  #counted: { bytes: number; tokens: number } | undefined;

  constructor(purse: Purse, spender: Spender) {
    this.#purse = purse;
    this.#spender = spender;
  }

  async admit(purpose: ModelPurpose, request: ModelRequest): Promise<Admitted> {
    const promptTokens = this.#promptTokens(purpose, request);
    const most = await this.#affordable(promptTokens);
    if (most < LEAST_ANSWER) throw new BudgetSpentError();
    const { model, maxTokens = Infinity } = request;
    const natural = Math.min(maxTokens, model.maxOutput ?? Infinity);
    const tellable = natural < Infinity ? natural : TELLABLE[model.reasoning === true ? "reasoning" : "plain"];
    // Prompt and answer share the window: many providers refuse a request that allows for more.
    const room = Math.floor(((model.contextWindow ?? Infinity) - promptTokens) * 0.95);
    const isLess = most < Math.min(natural, room);
    const bounded = isLess && most <= tellable;
    return {
      request: bounded ? { ...request, maxTokens: most } : request,
      promptTokens,
      most,
      bounded,
      free: isLess && !bounded,
    };
  }

  answered(purpose: ModelPurpose, { request }: Admitted, meter: Meter, usage: ModelUsage): void {
    const { model } = this.#spender;
    const bytes = bytesOf(request);
    if (purpose === "answer")
      this.#counted =
        !usage.estimated && usage.inputTokens * PLAUSIBLE_BYTES >= bytes
          ? { bytes, tokens: usage.inputTokens }
          : undefined;
    // Of a title nothing counts.
    if (purpose === "title") return;
    // Whoever tells too little is not believed.
    this.#beyond.tokens += Math.max(0, meter.least - usage.outputTokens);
    const told = costOf(usage, model.prices, this.#purse.unknownPrice);
    if (model.prices) this.#beyond.usd += Math.max(0, costOf({ ...usage, costReported: false }, model.prices) - told);
  }

  async priced(estimated: ModelUsage): Promise<ModelUsage> {
    const { provider, model } = this.#spender;
    const prices = model.prices ?? (this.#money ? await provider.prices?.(model, estimated.inputTokens) : undefined);
    return prices === undefined ? estimated : { ...estimated, cost: costOf(estimated, prices) };
  }

  async brokeOff(purpose: ModelPurpose, estimated: ModelUsage): Promise<void> {
    if (purpose === "title") return;
    const { model, recorder } = this.#spender;
    try {
      const usage = toUsage(await this.priced(estimated), model.prices, this.#purse.unknownPrice);
      await recorder.write({ sync: false, usage });
    } catch {
      // Whatever keeps it from being stored ends the run by itself.
    }
  }

  /** Tokens of answer that there are enough for behind a prompt; below 0 where the prompt alone is too much. */
  async #affordable(promptTokens: number): Promise<number> {
    const { run, sessionUsage } = this.#spender.recorder;
    const spent = (run: number, session: number, beyond: number, key: "usd" | "tokens") =>
      Math.min(
        (this.#purse.run[key] ?? Infinity) - run - beyond,
        (this.#purse.session[key] ?? Infinity) - session - beyond,
      );
    const tokens = spent(run.usage.totalTokens, sessionUsage.totalTokens, this.#beyond.tokens, "tokens") - promptTokens;
    if (!this.#money) return tokens;
    const { input, output, cacheWrite = input } = await this.#prices(promptTokens);
    const usd = spent(run.usage.cost, sessionUsage.cost, this.#beyond.usd, "usd");
    const left = usd - (promptTokens * Math.max(input, cacheWrite)) / 1_000_000;
    if (output === 0) return left < 0 ? -1 : tokens;
    return Math.min(tokens, Math.floor((left * 1_000_000) / output));
  }

  get #money(): boolean {
    return isOfMoney(this.#purse);
  }

  #prices(promptTokens: number): Promise<ModelPrices> {
    const { provider, model } = this.#spender;
    return pricesOf(provider, model, promptTokens, this.#purse.unknownPrice);
  }

  /** What the provider counted of the conversation, and what came since by its bytes. */
  #promptTokens(purpose: ModelPurpose, request: ModelRequest): number {
    const bytes = bytesOf(request);
    const counted = purpose === "answer" && this.#counted && this.#counted.bytes <= bytes ? this.#counted : undefined;
    return (counted?.tokens ?? 0) + Math.ceil((bytes - (counted?.bytes ?? 0)) / BYTES_PER_TOKEN);
  }
}

/** What a model takes. Rejects with `ModelSelectionError` where nobody knows: a budget of money would be void. */
export async function pricesOf(
  provider: ModelProvider,
  model: Model,
  promptTokens: number,
  unknown: ModelPrices | undefined,
): Promise<ModelPrices> {
  const prices = model.prices ?? (await provider.prices?.(model, promptTokens)) ?? unknown;
  if (prices) return prices;
  throw new ModelSelectionError(
    `there is a budget in USD, and nobody knows the price of ${provider.name}/${model.id}; limits.unknown_price says what such models cost`,
  );
}

function bytesOf(request: ModelRequest): number {
  return frameBytes(request) + bytesOfAll(request.messages);
}
