import type { AdmittedCall, Allowance, Meter } from "../../models/allowance.js";
import { bytesOfAll, BYTES_PER_TOKEN, frameBytes } from "../../models/estimate.js";
import { costOf, toUsage } from "../../models/usage.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { ModelPurpose } from "../../ports/bus-events.js";
import { abortable } from "../../base/abort.js";
import { BudgetExceededError, ModelSelectionError } from "../../ports/errors.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest, ModelUsage } from "../../ports/model-provider.js";
import { hasCostLimit, type BudgetLimits } from "./budget.js";

/** Minimum answer tokens of a call. Fewer are useless, and some providers reject such a low limit. */
const LEAST_ANSWER = 16;
/**
 * Highest answer limit sent to a model whose maximum answer is unknown, in tokens. The provider may reject a higher
 * one. Reasoning tokens count as answer tokens.
 */
const TELLABLE = { plain: 4_096, reasoning: 32_000 };
/**
 * A reported prompt size is trusted if it has at least one token per this many bytes. Some servers omit cached tokens.
 */
const PLAUSIBLE_BYTES = 8;

/** The members of a run that its budget uses. */
export interface BudgetOwner {
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly recorder: Pick<Recorder, "run" | "sessionUsage" | "write">;
  /** The run's signal. Set for subagent runs only. */
  readonly signal?: AbortSignal;
  /** Budget of the parent run, which a subagent shares. Set for subagent runs only. */
  readonly asker?: RunBudget | undefined;
}

/** An amount of each resource that a budget counts. */
interface Amount {
  usd: number;
  tokens: number;
}

/**
 * Enforces the budget of one run's model calls. A call is admitted only if the budget covers it in advance. Its prompt
 * is estimated at full price, as if nothing were cached. Its answer is limited to the remaining tokens.
 *
 * Calls of subagents reserve their maximum while they run. If too little remains for a full answer, the next call waits
 * for a reservation to end.
 */
export class RunBudget implements Allowance {
  readonly #purse: BudgetLimits;
  readonly #spender: BudgetOwner;
  /** Amounts used that the run's reported usage does not include. */
  readonly #beyond: Amount = { usd: 0, tokens: 0 };
  /** Reservations of active subagent calls, by run id. */
  readonly #lent = new Map<string, Amount>();
  /** Callbacks of calls that wait for a reservation to end. */
  #waiting: (() => void)[] = [];
  /**
   * Size of the newest conversation prompt in bytes, and its tokens as counted by the provider. Undefined: no count is
   * valid.
   */
  #counted: { bytes: number; tokens: number } | undefined;

  constructor(purse: BudgetLimits, spender: BudgetOwner) {
    this.#purse = purse;
    this.#spender = spender;
  }

  async admit(purpose: ModelPurpose, request: ModelRequest): Promise<AdmittedCall> {
    const promptTokens = this.#promptTokens(purpose, request);
    const prices = this.#money ? await this.#prices(promptTokens) : FREE;
    const { model, maxTokens = Infinity } = request;
    const natural = Math.min(maxTokens, model.maxOutput ?? Infinity);
    const tellable = natural < Infinity ? natural : TELLABLE[model.reasoning === true ? "reasoning" : "plain"];
    // Prompt and answer share the window. Many providers reject a request whose answer limit exceeds the rest of the
    // window.
    const room = Math.floor(((model.contextWindow ?? Infinity) - promptTokens) * 0.95);
    const whole = Math.min(natural, room);
    const { asker, signal, recorder } = this.#spender;
    const own = recorder.run.id;
    let most = this.#affordable(promptTokens, prices);
    while (asker && signal && most < whole && asker.#lends(own)) {
      await abortable(asker.#settling(), signal);
      most = this.#affordable(promptTokens, prices);
    }
    if (most < LEAST_ANSWER) throw new BudgetExceededError();
    // No await since the check, so that no other call can reserve the same amount.
    if (asker) asker.#lend(own, costs(promptTokens, Math.min(most, whole), prices));
    const isLess = most < whole;
    const bounded = isLess && most <= tellable;
    return {
      request: bounded ? { ...request, maxTokens: most } : request,
      promptTokens,
      maxAnswerTokens: most,
      bounded,
      isUnbounded: isLess && !bounded,
    };
  }

  recordAnswer(purpose: ModelPurpose, { request }: AdmittedCall, meter: Meter, usage: ModelUsage): void {
    const { model } = this.#spender;
    const bytes = bytesOf(request);
    if (purpose === "answer")
      this.#counted =
        !usage.estimated && usage.inputTokens * PLAUSIBLE_BYTES >= bytes
          ? { bytes, tokens: usage.inputTokens }
          : undefined;
    // Titles do not count against the budget.
    if (purpose === "title") return;
    // A provider may report too little, so at least the tokens that were received count.
    this.#beyond.tokens += Math.max(0, meter.least - usage.outputTokens);
    const told = costOf(usage, model.prices, this.#purse.unknownPrice);
    if (model.prices) this.#beyond.usd += Math.max(0, costOf({ ...usage, costReported: false }, model.prices) - told);
  }

  async estimateCost(estimated: ModelUsage): Promise<ModelUsage> {
    const { provider, model } = this.#spender;
    const prices = model.prices ?? (this.#money ? await provider.prices?.(model, estimated.inputTokens) : undefined);
    return prices === undefined ? estimated : { ...estimated, cost: costOf(estimated, prices) };
  }

  async recordInterrupted(purpose: ModelPurpose, estimated: ModelUsage): Promise<void> {
    if (purpose === "title") return;
    const { model, recorder } = this.#spender;
    try {
      const usage = toUsage(await this.estimateCost(estimated), model.prices, this.#purse.unknownPrice);
      await recorder.write({ sync: false, usage });
    } catch {
      // The error that prevents the write also ends the run.
    }
  }

  /** The current reservation of a subagent; undefined if it has no active call. */
  reserveFor(helper: string): Amount | undefined {
    return this.#lent.get(helper);
  }

  /**
   * Ends the reservation of a subagent after its call was counted or failed. `amount` identifies the call, because the
   * next one may already have a reservation.
   */
  releaseReservation(helper: string, amount = this.#lent.get(helper)): void {
    if (amount === undefined || this.#lent.get(helper) !== amount) return;
    this.#lent.delete(helper);
    this.#lendOn();
    for (const go of this.#waiting.splice(0)) go();
  }

  /** Maximum answer tokens that the budget covers after the prompt. Negative if it does not cover the prompt. */
  #affordable(promptTokens: number, prices: ModelPrices): number {
    const left = this.#left();
    const tokens = left.tokens - promptTokens;
    if (left.usd === Infinity) return tokens;
    const usd = left.usd - costs(promptTokens, 0, prices).usd;
    if (prices.output === 0) return usd < 0 ? -1 : tokens;
    return Math.min(tokens, Math.floor((usd * 1_000_000) / prices.output));
  }

  /** The remaining amount for a subagent, or for the run itself if `helper` is undefined. */
  #left(helper?: string): Amount {
    const { asker, recorder } = this.#spender;
    const { run, sessionUsage } = recorder;
    const lent = this.#lentBut(helper);
    const left = (key: keyof Amount, ofRun: number, ofSession: number) => {
      const {
        run: { [key]: mostOfRun = Infinity },
        session: { [key]: mostOfSession = Infinity },
      } = this.#purse;
      const least = Math.min(mostOfRun - ofRun, mostOfSession - ofSession);
      // A resource without a limit needs no reservation.
      return least === Infinity ? least : least - this.#beyond[key] - lent[key];
    };
    const own = {
      usd: left("usd", run.usage.cost, sessionUsage.cost),
      tokens: left("tokens", run.usage.totalTokens, sessionUsage.totalTokens),
    };
    if (!asker) return own;
    const above = asker.#left(run.id);
    return { usd: Math.min(own.usd, above.usd), tokens: Math.min(own.tokens, above.tokens) };
  }

  #lentBut(helper: string | undefined): Amount {
    const sum: Amount = { usd: 0, tokens: 0 };
    for (const [one, { usd, tokens }] of this.#lent) {
      if (one === helper) continue;
      sum.usd += usd;
      sum.tokens += tokens;
    }
    return sum;
  }

  #lend(helper: string, amount: Amount): void {
    this.#lent.set(helper, amount);
    this.#lendOn();
  }

  /** Passes the reservations of nested subagents on to the parent budget. */
  #lendOn(): void {
    const { asker, recorder } = this.#spender;
    if (!asker) return;
    if (this.#lent.size > 0) asker.#lend(recorder.run.id, this.#lentBut(undefined));
    else asker.releaseReservation(recorder.run.id);
  }

  /** Whether a run other than this subagent holds a reservation. */
  #lends(helper: string): boolean {
    const { asker, recorder } = this.#spender;
    return (
      [...this.#lent.keys()].some((one) => one !== helper) || (asker !== undefined && asker.#lends(recorder.run.id))
    );
  }

  /** Resolves when a reservation ends. */
  async #settling(): Promise<void> {
    const { asker } = this.#spender;
    const here = new Promise<void>((resolve) => this.#waiting.push(resolve));
    await (asker ? Promise.race([here, asker.#settling()]) : here);
  }

  get #money(): boolean {
    return hasCostLimit(this.#purse) || (this.#spender.asker !== undefined && this.#spender.asker.#money);
  }

  #prices(promptTokens: number): Promise<ModelPrices> {
    const { provider, model } = this.#spender;
    return pricesOf(provider, model, promptTokens, this.#purse.unknownPrice);
  }

  /** Tokens that the provider counted for the conversation, plus an estimate of the newer messages from their bytes. */
  #promptTokens(purpose: ModelPurpose, request: ModelRequest): number {
    const bytes = bytesOf(request);
    const counted = purpose === "answer" && this.#counted && this.#counted.bytes <= bytes ? this.#counted : undefined;
    return (counted?.tokens ?? 0) + Math.ceil((bytes - (counted?.bytes ?? 0)) / BYTES_PER_TOKEN);
  }
}

/** Prices when no cost limit applies, or when the provider is free. */
const FREE: ModelPrices = { input: 0, output: 0 };

/** Maximum cost of a call, with its prompt at full price. */
function costs(promptTokens: number, answerTokens: number, prices: ModelPrices): Amount {
  const { input, output, cacheWrite = input } = prices;
  const answer = output === 0 ? 0 : answerTokens * output;
  const usd = (promptTokens * Math.max(input, cacheWrite) + answer) / 1_000_000;
  return { usd, tokens: promptTokens + answerTokens };
}

/**
 * Prices of a model. Rejects with `ModelSelectionError` if they are unknown, because a cost limit could not be
 * enforced.
 */
export async function pricesOf(
  provider: ModelProvider,
  model: Model,
  promptTokens: number,
  unknown: ModelPrices | undefined,
): Promise<ModelPrices> {
  const prices =
    model.prices ??
    (await provider.prices?.(model, promptTokens)) ??
    unknown ??
    (provider.isFree === true ? FREE : undefined);
  if (prices) return prices;
  throw new ModelSelectionError(
    `there is a budget in USD, and nobody knows the price of ${provider.name}/${model.id}; limits.unknown_price says what such models cost`,
  );
}

function bytesOf(request: ModelRequest): number {
  return frameBytes(request) + bytesOfAll(request.messages);
}
